"""What every model offers: encode queries, and score candidates against them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from relens.errors import InputError
from relens.models import initialisers
from relens.models.lookup import all_dots, lookup

Drop = Callable[[Tensor], Tensor]
"""Embedding dropout, applied to looked-up rows; the identity at evaluation."""


def keep_all(rows: Tensor) -> Tensor:
    """Drop nothing."""
    return rows


class Encoded(NamedTuple):
    """B queries as a model sees them.

    Attributes:
        vector: what candidates are compared with, (B, d).
        relation: directed relation ids, (B,): r asks for tails, r + R for heads.
        rows: the looked-up (dropped-out) anchor and relation rows, for regularisers; (B, …) each.
        table: the entities to compare with, (E, d), where that is not the model's own table.
        matrices: what entities are multiplied with first, by directed relation (2R, …), where there is such a thing.
        scale: what candidates are multiplied with first, coordinate by coordinate, (B, d), where there is such a thing.
    """

    vector: Tensor
    relation: Tensor
    rows: tuple[Tensor, ...]
    table: Tensor | None = None
    matrices: Tensor | None = None
    scale: Tensor | None = None


class KGEModel(nn.Module, ABC):
    """A model of a graph with E entities and R relations.

    Queries are pairs (anchor, directed relation): relation r asks for tails, r + R for heads. Scores are unbounded,
    higher is better. Tables are empty until ``initialise``.

    Attributes:
        entity: entity table, (E, d).
        relation: relation table, (R, …), or (2R, …) where inverses have rows of their own.
        shared_inverse: whether r and r + R share a row.
    """

    needs_triples: ClassVar[bool] = False
    """Whether the constructor takes the training triples, (n, 3) ids, after the two counts."""

    entity: nn.Parameter
    relation: nn.Parameter

    def __init__(self, n_entities: int, n_relations: int, *, shared_inverse: bool = True) -> None:
        super().__init__()
        self.n_entities = n_entities
        self.n_relations = n_relations
        self.shared_inverse = shared_inverse

    def make_tables(self, entity_dim: int, relation_dim: int) -> None:
        """Create the two tables, empty."""
        self.entity = nn.Parameter(torch.empty(self.n_entities, entity_dim))
        n_rows = self.n_relations if self.shared_inverse else 2 * self.n_relations
        self.relation = nn.Parameter(torch.empty(n_rows, relation_dim))

    def initialise(self, tables: str | None, generator: torch.Generator) -> None:
        """Draw tables with the initialiser of that name (``x_norm`` for None), layers with PyTorch's defaults.

        Meant for the CPU, before the model is moved: a seed then gives the same parameters on every device.
        """
        initialisers.reset_layers(self, generator)
        for table in (self.entity, self.relation):
            initialisers.fill(table, tables or "x_norm", generator)

    @abstractmethod
    def encode(self, anchor: Tensor, relation: Tensor, drop: Drop = keep_all) -> Encoded:
        """Encode B queries; ``anchor`` and directed ``relation`` are (B,) ids."""

    @abstractmethod
    def score(self, queries: Encoded, candidates: Tensor | None = None, drop: Drop = keep_all) -> Tensor:
        """Score candidates of B queries.

        ``candidates`` is None for all entities (result (B, E)), or ids (C, P): the queries then fall into C chunks of
        B/C consecutive ones, and each chunk is scored against its own P candidates (result (B, P)). C = B gives
        each query its own candidates, C = 1 one pool for all.
        """

    def score_relations(self, head: Tensor, tail: Tensor, drop: Drop = keep_all) -> Tensor:
        """Score every row of the relation table between B heads and tails, given as ids (B,): (B, rows).

        The score of row i is that of the query (head, i) with the answer ``tail``. Not all models can do this; those
        that do can be trained to predict relations as well.
        """
        raise InputError(f"{type(self).__name__} cannot score relations: set relation_weight=0")

    def relation_rows(self, relation: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows of the relation table (B,) and signs (B, 1): −1 where a shared row is to be inverted."""
        inverse = (relation >= self.n_relations) & self.shared_inverse
        return relation - self.n_relations * inverse, 1 - 2 * inverse.unsqueeze(1).to(self.relation.dtype)

    @property
    def device(self) -> torch.device:
        """The device that holds the parameters."""
        return next(self.parameters()).device

    @property
    def bytes_per_candidate(self) -> int:
        """Memory that a candidate takes where each query has candidates of its own: a row of the entity table."""
        return self.entity.element_size() * self.entity.shape[1]

    @property
    def n_parameters(self) -> int:
        """The number of trainable numbers."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)


def dot_scores(
    vector: Tensor, table: Tensor, candidates: Tensor | None, drop: Drop, bias: Tensor | None = None
) -> Tensor:
    """Score by dot product with the rows of ``table`` (E, d), plus ``bias`` (E,); see ``KGEModel.score``."""
    if candidates is None:
        scores = all_dots(vector, drop(table))
        return scores if bias is None else scores + bias
    chunks = vector.view(len(candidates), -1, vector.shape[1])  # (C, b, d)
    scores = torch.bmm(chunks, drop(lookup(table, candidates)).transpose(1, 2))
    return (scores if bias is None else scores + bias[candidates].unsqueeze(1)).flatten(0, 1)
