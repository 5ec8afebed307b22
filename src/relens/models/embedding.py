"""Models with a table of entity embeddings and a table of relation embeddings, and how tables are initialised."""

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple, Self, TypeVar

import torch
from torch import Tensor, nn

from relens.errors import InputError, nearest
from relens.models import cpu
from relens.models.base import Drop, KGEModel, keep_all
from relens.models.cpu_blocks import KeptNorms
from relens.models.lookup import all_dots, lookup

SCALE = 0.01
"""Spread of the initialisers ``uni`` and ``norm`` (KGTuner)."""


ENCODED_ROWS = 16
"""Queries that ``encode_evenly`` encodes together."""

T = TypeVar("T")


class Encoded(NamedTuple):
    """B queries of an embedding model.

    Attributes:
        vector: compared with candidates, (B, d).
        relation: directed relation ids, (B,): r asks for tails, r + R for heads.
        rows: the looked-up (dropped-out) anchor and relation rows, for regularisers; (B, …) each.
        table: the entities to compare with, (E, d), if that is not the model's own table.
        matrices: entities are multiplied with these first, by directed relation (2R, …), or None.
        norms: what the matrices make of the model's table, kept between calls, or None.
        scale: candidates are multiplied with this first, coordinate by coordinate, (B, d), or None.
    """

    vector: Tensor
    relation: Tensor
    rows: tuple[Tensor, ...]
    table: Tensor | None = None
    matrices: Tensor | None = None
    norms: KeptNorms | None = None
    scale: Tensor | None = None


class EmbeddingModel(KGEModel):
    """A model that looks up a row per entity and a row per relation. Tables are empty until ``initialise``.

    Attributes:
        entity: entity table, (E, d).
        relation: relation table, (R, …), or (2R, …) if inverse relations have rows of their own.
        shared_inverse: whether r and r + R share a row.
    """

    rowwise: ClassVar[bool] = False
    """Whether ``score`` uses nothing but ``l1_distance``, ``modulus_distance``, ``block_distance`` and ``dot_scores``.

    On a CPU, the scores of a query that ``encode_evenly`` encoded are then the same to the last bit in every batch.
    """

    entity: nn.Parameter
    relation: nn.Parameter

    def __init__(self, n_entities: int, n_relations: int, *, shared_inverse: bool = True) -> None:
        super().__init__(n_entities, n_relations)
        self.shared_inverse = shared_inverse
        self._kept: tuple[object, object] | None = None

    def make_tables(self, entity_dim: int, relation_dim: int) -> None:
        """Create the two tables, empty."""
        self.entity = nn.Parameter(torch.empty(self.n_entities, entity_dim))
        n_rows = self.n_relations if self.shared_inverse else 2 * self.n_relations
        self.relation = nn.Parameter(torch.empty(n_rows, relation_dim))

    def initialise(self, initialiser: str | None, generator: torch.Generator) -> None:
        """Draw tables with the initialiser of that name (``x_norm`` for None), layers with PyTorch's defaults."""
        super().initialise(initialiser, generator)
        for table in (self.entity, self.relation):
            fill(table, initialiser or "x_norm", generator)

    @abstractmethod
    def encode(self, anchor: Tensor, relation: Tensor, drop: Drop = keep_all) -> Encoded:
        """Encode B queries; ``anchor`` and directed ``relation`` are (B,) ids."""

    def encode_evenly(self, anchor: Tensor, relation: Tensor) -> Encoded:
        """Encode B queries for scoring, ``ENCODED_ROWS`` at a time; the last ones are filled up with repeats.

        A matrix product may round differently when its shape changes, and here all of them have one shape.
        """
        n = len(anchor)
        at = torch.arange(-(-n // ENCODED_ROWS) * ENCODED_ROWS, device=anchor.device).clamp_(max=n - 1)
        parts = [self.encode(anchor[some], relation[some]) for some in torch.split(at, ENCODED_ROWS)]
        vector = torch.cat([part.vector for part in parts])[:n]
        return parts[0]._replace(vector=vector, relation=relation, rows=())

    def kept(self, compute: Callable[[], T]) -> T:
        """Return the result of a method without arguments; at evaluation, keep it until a parameter changes."""
        if self.training or torch.is_grad_enabled():
            return compute()
        state = [(value.data_ptr(), value._version) for value in self.state_dict(keep_vars=True).values()]
        if self._kept is None or self._kept[0] != state:
            self._kept = (state, compute())
        return self._kept[1]  # type: ignore[return-value]

    def train(self, mode: bool = True) -> Self:
        """Switch between training and evaluation; what was kept does not outlive training."""
        # Replayed CUDA graphs change parameters without changing their versions.
        if mode or self.training:
            self._kept = None
        return super().train(mode)

    @abstractmethod
    def score(self, queries: Encoded, candidates: Tensor | None = None, drop: Drop = keep_all) -> Tensor:
        """Score candidates of B encoded queries; see ``KGEModel.score``."""

    def score_relations(self, head: Tensor, tail: Tensor, drop: Drop = keep_all) -> Tensor:
        """Score every row of the relation table between B heads and tails, given as ids (B,): (B, rows).

        The score of row i is that of the query (head, i) with the answer ``tail``. This method is optional; models
        that implement it can be trained to predict relations as well.
        """
        raise InputError(f"{type(self).__name__} cannot score relations: set `relation_weight=0`")

    def relation_rows(self, relation: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows of the relation table (B,) and signs (B, 1): −1 for a shared row that must be inverted."""
        inverse = (relation >= self.n_relations) & self.shared_inverse
        return relation - self.n_relations * inverse, 1 - 2 * inverse.unsqueeze(1).to(self.relation.dtype)

    def tables_with_gradient_in_place(self) -> tuple[nn.Parameter, ...]:
        """Return the entity table: it may be far larger than the rows that a step looks up."""
        return (self.entity,)

    @property
    def bytes_per_candidate(self) -> int:
        """Bytes of a row of the entity table, which is copied for each candidate of a query."""
        return self.entity.element_size() * self.entity.shape[1]


def dot_scores(
    vector: Tensor, table: Tensor, candidates: Tensor | None, drop: Drop, bias: Tensor | None = None
) -> Tensor:
    """Score by dot product with the rows of ``table`` (E, d), plus ``bias`` (E,); see ``KGEModel.score``."""
    if cpu.usable(vector) and drop is keep_all:
        scores = cpu.compare(cpu.DOT, vector, table, candidates)
    elif candidates is None:
        scores = all_dots(vector, drop(table))
    else:
        chunks = vector.view(len(candidates), -1, vector.shape[1])  # (C, b, d)
        scores = torch.bmm(chunks, drop(lookup(table, candidates)).transpose(1, 2)).flatten(0, 1)
    if bias is None:
        return scores
    if candidates is None:
        return scores + bias
    return (torch.unflatten(scores, 0, (len(candidates), -1)) + bias[candidates].unsqueeze(1)).flatten(0, 1)


def uniform(table: Tensor, bound: float, generator: torch.Generator) -> None:
    """Fill a table with U(−bound, bound)."""
    nn.init.uniform_(table, -bound, bound, generator=generator)


def xavier_normal(table: Tensor, generator: torch.Generator) -> None:
    """Fill a table (rows, columns) with N(0, 2/(rows + columns))."""
    nn.init.normal_(table, 0.0, (2.0 / sum(table.shape)) ** 0.5, generator=generator)


INITIALISERS: dict[str, Callable[[Tensor, torch.Generator], object]] = {
    "uni": lambda table, generator: uniform(table, SCALE, generator),
    "norm": lambda table, generator: nn.init.normal_(table, 0.0, SCALE, generator=generator),
    "x_uni": lambda table, generator: uniform(table, (6.0 / sum(table.shape)) ** 0.5, generator),
    "x_norm": xavier_normal,
}


def fill(table: Tensor, initialiser: str, generator: torch.Generator) -> None:
    """Fill a table (rows, columns) with the initialiser of that name."""
    if initialiser not in INITIALISERS:
        raise InputError(f"unknown `initialiser={initialiser}`; {nearest(initialiser, INITIALISERS)}")
    INITIALISERS[initialiser](table, generator)
