"""TransE (Bordes et al., 2013): a relation is a translation."""

from typing import ClassVar

from torch import Tensor

from relens.models.base import Drop, keep_all
from relens.models.distance import dropped, l1_distance
from relens.models.embedding import EmbeddingModel, Encoded
from relens.models.entry import ModelEntry
from relens.models.lookup import lookup
from relens.models.options import Margin, Size


class TransE(EmbeddingModel):
    """s = γ − ‖h + r − t‖₁; queries for heads use −r, or a vector of their own."""

    rowwise: ClassVar[bool] = True

    def __init__(
        self,
        n_entities: int,
        n_relations: int,
        *,
        dim: Size = 1000,
        gamma: Margin = 6.0,
        shared_inverse: bool = True,
    ) -> None:
        super().__init__(n_entities, n_relations, shared_inverse=shared_inverse)
        self.gamma = gamma
        self.make_tables(dim, dim)

    def encode(self, anchor: Tensor, relation: Tensor, drop: Drop = keep_all) -> Encoded:
        """Translate the anchors."""
        row, sign = self.relation_rows(relation)
        rows = drop(lookup(self.entity, anchor)), drop(lookup(self.relation, row))
        return Encoded(rows[0] + sign * rows[1], relation, rows)

    def score(self, queries: Encoded, candidates: Tensor | None = None, drop: Drop = keep_all) -> Tensor:
        """Score by L1 distance; see ``KGEModel.score``."""
        return self.gamma - l1_distance(queries.vector, *dropped(self.entity, candidates, drop))


TRANSE = ModelEntry("transe", TransE, "a relation is a translation (Bordes et al., 2013)", order=1)
