"""What a training run is asked to do: one frozen record, checked when it is made."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from relens.errors import InputError, nearest
from relens.models import relation_scorers
from relens.models.initialisers import INITIALISERS
from relens.training.regularisers import REGULARISERS

SAMPLED_LOSSES = ("bce_mean", "bce_sum", "bce_adv")
LOSSES = (*SAMPLED_LOSSES, "1vsall", "kvsall")
OPTIMISERS = ("adam", "adagrad")
SCHEDULES = ("plateau", "steps", "linear")


@dataclass(frozen=True)
class TrainSettings:
    """A model, its options and how it is trained. None means: not used.

    Attributes:
        model: name in ``relens.models.MODELS``.
        options: what the model's constructor takes (``dim``, ``gamma``, …).
        loss: ``bce_mean``, ``bce_sum``, ``bce_adv`` over drawn negatives; ``1vsall`` cross-entropy; ``kvsall`` BCE.
        negatives: drawn per row, or per pool that ``pool_rows`` consecutive rows share.
        pool_rows: rows that share their negatives; 1 gives each row its own.
        score_all: score every entity and pick the negatives' scores: cheaper for dot products with many negatives.
        alpha: temperature of the adversarial weights of ``bce_adv``.
        mask_first: keep known answers out of the adversarial softmax, instead of masking after it.
        regulariser: name in ``REGULARISERS``, times ``regulariser_weight``.
        relation_weight: of a further loss, the cross-entropy of each triple's relation among all, given head and tail;
            for models that score relations.
        dropout: of looked-up embeddings.
        label_smoothing: of ``1vsall`` and ``kvsall``.
        row_weights: weigh queries by how rare they are (subsampling weights).
        optimiser: ``adam`` or ``adagrad``.
        lr: learning rate at the beginning.
        batch: queries per step (of ``kvsall``: distinct pairs of anchor and relation).
        steps: most steps.
        validate_every: steps between validations.
        schedule: ``plateau``: times ``factor`` when ``patience`` validations in a row and one more do not improve;
            ``steps``: times ``factor``, and the optimiser forgets, at each of ``milestones``;
            ``linear``: constant for the share ``hold`` of the steps, then down to 0.
        stop_after: validations in a row without a new best that end the run.
        initialiser: of the embedding tables, see ``relens.models.initialisers``; None is the model's own.
        tf32: allow TensorFloat-32 products in training (CUDA only); ranks are always full float32.
        log_every: steps between records of the log.
        seed: of everything random.
    """

    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    loss: str = "bce_adv"
    negatives: int = 128
    pool_rows: int = 1
    score_all: bool = False
    alpha: float = 1.0
    mask_first: bool = False
    regulariser: str | None = None
    regulariser_weight: float = 0.0
    relation_weight: float = 0.0
    dropout: float = 0.0
    label_smoothing: float = 0.0
    row_weights: bool = False
    optimiser: str = "adam"
    lr: float = 1e-3
    batch: int = 512
    steps: int = 10_000
    validate_every: int = 1_000
    schedule: str | None = None
    factor: float = 0.5
    patience: int = 2
    milestones: tuple[int, ...] = ()
    hold: float = 0.5
    stop_after: int | None = None
    initialiser: str | None = None
    tf32: bool = True
    log_every: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        for name, kind in KINDS.items():
            object.__setattr__(self, name, _typed(name, getattr(self, name), kind))
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if value not in choices and not (value is None and name in OPTIONAL):
                hint = nearest(str(value), choices)
                raise InputError(f"{name} is {value!r}: expected one of {', '.join(choices)}; {hint}")
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise InputError(f"{name} is {value}, expected {low} to {high}")
        self._check_together()

    def _check_together(self) -> None:
        """Refuse values that do not go together."""
        if self.loss in SAMPLED_LOSSES and self.batch % self.pool_rows:
            raise InputError(
                f"batch is {self.batch} and pool_rows is {self.pool_rows}: expected a batch of whole pools. "
                f"Set pool_rows to a divisor of batch."
            )
        if self.loss == "kvsall" and self.row_weights:
            raise InputError(
                "row_weights is true with the loss kvsall, whose examples are pairs and not triples: "
                "set row_weights=false"
            )
        if self.loss == "kvsall" and self.regulariser in {"fro", "nuc", "dura", "n3"}:
            raise InputError(
                f"regulariser is {self.regulariser} with the loss kvsall, whose examples have many answers: "
                f"set regulariser=none or another loss"
            )
        if self.relation_weight and self.loss == "kvsall":
            raise InputError(
                f"relation_weight is {self.relation_weight} with the loss kvsall, whose examples have many answers: "
                f"set relation_weight=0 or another loss"
            )
        if self.relation_weight and self.model not in relation_scorers():
            raise InputError(
                f"relation_weight is {self.relation_weight}, but {self.model} cannot score relations; "
                f"{', '.join(relation_scorers())} can: set relation_weight=0 or train one of them"
            )
        if (self.schedule == "steps") != bool(self.milestones):
            raise InputError(
                f"schedule is {self.schedule} and milestones are {list(self.milestones)}: the schedule steps needs "
                f"milestones, and only it has them"
            )
        if list(self.milestones) != sorted(set(self.milestones)) or min(self.milestones, default=1) < 1:
            raise InputError(f"milestones are {list(self.milestones)}, expected increasing steps from 1 on")

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON can hold it, the inverse of ``from_dict``."""
        return {**asdict(self), "options": dict(self.options), "milestones": list(self.milestones)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Build from what ``as_dict`` returned; unknown names are refused."""
        for name in values:
            if name not in FIELDS:
                raise InputError(f"unknown setting {name!r}; {nearest(name, FIELDS)}")
        return cls(**values)


FIELDS = tuple(entry.name for entry in fields(TrainSettings))
KINDS: dict[str, type] = {
    entry.name: type(entry.default)
    for entry in fields(TrainSettings)
    if type(entry.default) in (bool, int, float, tuple)
} | {"stop_after": int}
OPTIONAL = ("regulariser", "schedule", "stop_after", "initialiser")
CHOICES: dict[str, tuple[str, ...]] = {
    "loss": LOSSES,
    "regulariser": tuple(REGULARISERS),
    "optimiser": OPTIMISERS,
    "schedule": SCHEDULES,
    "initialiser": tuple(INITIALISERS),
}
RANGES: dict[str, tuple[float, float]] = {
    "negatives": (1, 2**24),
    "pool_rows": (1, 2**24),
    "alpha": (0.0, 1e3),
    "regulariser_weight": (0.0, 1e6),
    "relation_weight": (0.0, 1e6),
    "dropout": (0.0, 0.99),
    "label_smoothing": (0.0, 0.99),
    "lr": (1e-12, 1e3),
    "batch": (1, 2**24),
    "steps": (1, 2**40),
    "validate_every": (1, 2**40),
    "factor": (1e-6, 1.0),
    "patience": (0, 2**31),
    "hold": (0.0, 1.0),
    "stop_after": (1, 2**31),
    "log_every": (1, 2**31),
    "seed": (0, 2**63 - 1),
}


def _typed(name: str, value: Any, kind: type) -> Any:
    """Return a value as its kind: whole numbers count as real ones, lists as tuples; anything else is refused."""
    if value is None and name in OPTIONAL:
        return None
    if kind is float and type(value) is int:
        return float(value)
    if kind is tuple and isinstance(value, list | tuple) and all(type(entry) is int for entry in value):
        return tuple(value)
    if type(value) is not kind:
        expected = {bool: "true or false", int: "a whole number", float: "a number", tuple: "a list of steps"}[kind]
        raise InputError(f"{name} is {value!r}, expected {expected}")
    return value
