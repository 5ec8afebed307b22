"""Settings of a training run: one frozen record, checked when it is made."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from relens.errors import InputError, nearest
from relens.models import MODELS, ModelEntry
from relens.models.embedding import INITIALISERS
from relens.training.regularisers import PER_ANSWER, REGULARISERS

SAMPLED_LOSSES = ("bce_mean", "bce_sum", "bce_adv")
LOSSES = (*SAMPLED_LOSSES, "1vsall", "kvsall")
OPTIMISERS = ("adam", "adagrad")
SCHEDULES = ("plateau", "steps", "linear", "cosine")


@dataclass(frozen=True)
class Setting:
    """The meaning and the range of one setting.

    Attributes:
        help: one sentence for help texts and docs.
        choices: the values allowed, or None.
        low, high: the range of a number, both ends included.
    """

    help: str
    choices: tuple[str, ...] | None = None
    low: float = -math.inf
    high: float = math.inf

    def describe(self, default: Any) -> str:
        """Return default and choices as help texts show them, values as TOML writes them."""
        shown = "none" if default is None else str(default).lower()
        choices = f"{', '.join(self.choices)}; " if self.choices else ""
        return f"{choices}default: {shown}"


def _setting(
    default: Any,
    help: str,
    *,
    choices: tuple[str, ...] | None = None,
    low: float = -math.inf,
    high: float = math.inf,
) -> Any:
    """Declare a field of ``TrainSettings`` and what there is to say about it."""
    return field(default=default, metadata={"setting": Setting(help, choices, low, high)})


@dataclass(frozen=True)
class TrainSettings:
    """A model, its options, and how it is trained. None switches a setting off; ``SETTINGS`` describes each one."""

    model: str = field(metadata={"setting": Setting("Name of the model in `relens.models.MODELS`.")})
    options: Mapping[str, Any] = field(
        default_factory=dict,
        metadata={"setting": Setting("Arguments of the model's constructor, for instance dim and gamma.")},
    )
    loss: str = _setting(
        "bce_adv",
        "Binary cross-entropy over drawn negatives (mean, sum or adversarial), cross-entropy over all entities "
        "(1vsall), or binary cross-entropy over all entities (kvsall).",
        choices=LOSSES,
    )
    negatives: int = _setting(128, "Negatives drawn per row, or per pool of pool_rows rows.", low=1, high=2**24)
    pool_rows: int = _setting(1, "Consecutive rows that share their negatives.", low=1, high=2**24)
    score_all: bool = _setting(
        False, "Score every entity and pick the negatives: cheaper for dot products with many negatives."
    )
    alpha: float = _setting(1.0, "Temperature of the adversarial weights of bce_adv.", low=0.0, high=1e3)
    mask_first: bool = _setting(
        False, "Keep known answers out of the adversarial softmax, instead of masking them after it."
    )
    regulariser: str | None = _setting(
        None, "Penalty on embeddings, times regulariser_weight.", choices=tuple(REGULARISERS)
    )
    regulariser_weight: float = _setting(0.0, "Weight of the regulariser.", low=0.0, high=1e6)
    relation_weight: float = _setting(
        0.0, "Weight of the cross-entropy of each triple's relation, for models that score relations.",
        low=0.0, high=1e6,
    )  # fmt: skip
    dropout: float = _setting(0.0, "Dropout of looked-up embeddings.", low=0.0, high=0.99)
    label_smoothing: float = _setting(0.0, "Label smoothing of 1vsall and kvsall.", low=0.0, high=0.99)
    row_weights: bool = _setting(False, "Weigh queries by how rare they are (subsampling weights).")
    optimiser: str = _setting("adam", "Optimiser.", choices=OPTIMISERS)
    lr: float = _setting(1e-3, "Learning rate of the first step.", low=1e-12, high=1e3)
    weight_decay: float = _setting(
        0.0, "Share of each parameter that a step removes, times lr (AdamW), for the optimiser adam.",
        low=0.0, high=1e3,
    )  # fmt: skip
    clip: float | None = _setting(
        None, "Largest norm of all gradients together; larger ones are scaled down to it.", low=1e-12, high=1e12
    )
    averaging: float = _setting(
        0.0,
        "Decay of an exponential moving average of the parameters, for instance 0.999: validations, and the model at "
        "the end, use the average. 0 for none.",
        low=0.0,
        high=0.999999,
    )
    batch: int = _setting(
        512, "Queries per step; for kvsall, distinct pairs of anchor and relation.", low=1, high=2**24
    )
    steps: int = _setting(10_000, "Most steps.", low=1, high=2**40)
    validate_every: int = _setting(1_000, "Steps between validations.", low=1, high=2**40)
    schedule: str | None = _setting(
        None,
        "Learning rate over time. plateau: times factor after patience validations without a gain and one more; "
        "steps: times factor at each of milestones, where the optimiser starts again; linear: constant for the share "
        "hold of the steps, then down to 0; cosine: half a wave down to the share floor.",
        choices=SCHEDULES,
    )
    factor: float = _setting(0.5, "Factor of the schedules plateau and steps.", low=1e-6, high=1.0)
    patience: int = _setting(2, "Validations without a gain that plateau tolerates.", low=0, high=2**31)
    milestones: tuple[int, ...] = _setting((), "Steps at which the schedule steps lowers the learning rate.")
    hold: float = _setting(0.5, "Share of the steps that linear keeps the learning rate constant.", low=0.0, high=1.0)
    floor: float = _setting(0.01, "Share of the learning rate with which cosine ends.", low=0.0, high=1.0)
    warm_up: int = _setting(0, "First steps, in which the learning rate rises from 0.", low=0, high=2**40)
    focus: float = _setting(
        0.0,
        "Share of the examples that are drawn from the relations that occur in validation; only which relations they "
        "are is used.",
        low=0.0,
        high=1.0,
    )
    stop_after: int | None = _setting(
        None, "Validations in a row without a new best that end training.", low=1, high=2**31
    )
    initialiser: str | None = _setting(
        None, "Initialiser of the embedding tables; none is the model's own.", choices=tuple(INITIALISERS)
    )
    tf32: bool = _setting(True, "Allow TensorFloat-32 products in training on CUDA; ranks always use full float32.")
    log_every: int = _setting(100, "Steps between records of the log.", low=1, high=2**31)
    seed: int = _setting(0, "Seed of everything random.", low=0, high=2**63 - 1)

    def __post_init__(self) -> None:
        if not isinstance(self.model, str) or not isinstance(self.options, Mapping):
            raise InputError(
                f"`model={self.model!r}`, `options={self.options!r}`: expected the name of a model, and its options by "
                f"name"
            )
        for name, kind in KINDS.items():
            object.__setattr__(self, name, _typed(name, getattr(self, name), kind))
        for name, setting in SETTINGS.items():
            _check_value(name, getattr(self, name), setting)
        self._check_together()
        entry = MODELS.get(self.model)
        if entry is not None:  # a stored record may name a model of a package that is no longer installed
            self._check_capabilities(entry)

    def _check_together(self) -> None:
        """Raise an error for values that contradict each other."""
        if self.loss in SAMPLED_LOSSES and self.batch % self.pool_rows:
            raise InputError(
                f"`batch={self.batch}` is not a multiple of `pool_rows={self.pool_rows}`: expected a batch of whole "
                f"pools. Set pool_rows to a divisor of batch."
            )
        if self.loss == "kvsall":
            self._check_pairs()
        if self.weight_decay and self.optimiser != "adam":
            raise InputError(
                f"`weight_decay={self.weight_decay}` with `optimiser={self.optimiser}`: only adam has it. Set "
                f"`weight_decay=0` or `optimiser=adam`."
            )
        if (self.schedule == "steps") != bool(self.milestones):
            raise InputError(
                f"`schedule={self.schedule}` with `milestones={list(self.milestones)}`: the schedule steps needs "
                f"milestones, and the others have none"
            )
        if list(self.milestones) != sorted(set(self.milestones)) or min(self.milestones, default=1) < 1:
            raise InputError(f"`milestones={list(self.milestones)}`: expected increasing steps of at least 1")

    def _check_pairs(self) -> None:
        """Raise an error for settings that need one answer per example, which kvsall does not have."""
        reason = "with `loss=kvsall`, whose examples have many answers"
        if self.row_weights:
            raise InputError(f"`row_weights=true` {reason}: set `row_weights=false` or another loss")
        if self.regulariser in PER_ANSWER:
            raise InputError(f"`regulariser={self.regulariser}` {reason}: set `regulariser=none` or another loss")
        if self.relation_weight:
            raise InputError(f"`relation_weight={self.relation_weight}` {reason}: set `relation_weight=0`")

    def _check_capabilities(self, entry: ModelEntry) -> None:
        """Raise an error for settings that the model cannot follow."""
        if self.relation_weight and not entry.scores_relations:
            able = ", ".join(other.name for other in MODELS.values() if other.scores_relations)
            raise InputError(
                f"`relation_weight={self.relation_weight}`, but {self.model} cannot score relations; {able} can: set "
                f"`relation_weight=0` or train one of them"
            )
        for name in ("regulariser", "initialiser"):
            value = getattr(self, name)
            if value is not None and not entry.has_tables:
                raise InputError(f"`{name}={value}`, but {self.model} has no embedding tables: set `{name}=none`")

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON values, the inverse of ``from_dict``."""
        return {**asdict(self), "options": dict(self.options), "milestones": list(self.milestones)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Rebuild from the result of ``as_dict``; an unknown name raises an error."""
        for name in values:
            if name not in FIELDS:
                raise InputError(f"unknown setting {name!r}; {nearest(name, FIELDS)}")
        return cls(**values)


SETTINGS: dict[str, Setting] = {entry.name: entry.metadata["setting"] for entry in fields(TrainSettings)}
"""The description of each setting, in order."""
FIELDS = tuple(SETTINGS)
KINDS: dict[str, type] = {
    entry.name: type(entry.default)
    for entry in fields(TrainSettings)
    if type(entry.default) in (bool, int, float, tuple)
} | {"stop_after": int, "clip": float}
DEFAULTS = {
    entry.name: list(entry.default) if isinstance(entry.default, tuple) else entry.default
    for entry in fields(TrainSettings)
    if entry.name not in ("model", "options")
}
"""The default of each setting, as a record has it."""
OPTIONAL = tuple(name for name, value in DEFAULTS.items() if value is None)
"""Settings that may be None."""


def _typed(name: str, value: Any, kind: type) -> Any:
    """Return a value as its kind: whole numbers count as real ones, lists as tuples; anything else raises an error."""
    if value is None and name in OPTIONAL:
        return None
    if kind is float and type(value) is int and abs(value) < 2**63:
        return float(value)
    if kind is tuple and isinstance(value, list | tuple) and all(type(entry) is int for entry in value):
        return tuple(value)
    if type(value) is not kind:
        expected = {bool: "true or false", int: "a whole number", float: "a number", tuple: "a list of steps"}[kind]
        raise InputError(f"`{name}={value!r}`: expected {expected}")
    return value


def _check_value(name: str, value: Any, setting: Setting) -> None:
    """Raise an error for a value that is not one of the choices, or out of range."""
    if value is None and name in OPTIONAL:
        return
    if setting.choices is not None and value not in setting.choices:
        hint = nearest(str(value), setting.choices)
        raise InputError(f"`{name}={value!r}`: expected one of {', '.join(setting.choices)}; {hint}")
    if isinstance(value, int | float) and not setting.low <= value <= setting.high:
        raise InputError(f"`{name}={value}`: expected {setting.low} to {setting.high}")
