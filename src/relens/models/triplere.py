"""TripleRE (Yu et al., 2021): a relation scales heads, scales tails, and translates."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from relens.models.base import Drop, keep_all
from relens.models.distance import dropped, scaled_distance
from relens.models.embedding import EmbeddingModel, Encoded, uniform
from relens.models.entry import ModelEntry
from relens.models.lookup import lookup
from relens.models.options import Margin, Size


class TripleRE(EmbeddingModel):
    """s = γ − ‖h∘(rʰ + u) − t∘(rᵗ + u) + u·rᵐ‖₁, where h and t have length 1 and u is ``offset``.

    Rows of relations hold rʰ, rᵗ and rᵐ. Queries for heads use rᵗ, rʰ and −rᵐ, or a row of their own.
    """

    def __init__(
        self,
        n_entities: int,
        n_relations: int,
        *,
        dim: Size = 1000,
        gamma: Margin = 6.0,
        offset: Margin = 0.125,
        shared_inverse: bool = True,
    ) -> None:
        super().__init__(n_entities, n_relations, shared_inverse=shared_inverse)
        self.gamma, self.offset = gamma, offset
        self.make_tables(dim, 3 * dim)

    def initialise(self, initialiser: str | None, generator: torch.Generator) -> None:
        """Draw tables with the initialiser of that name; by TripleRE's own rule, U(±(γ + 2)/d), for None."""
        super().initialise(initialiser, generator)
        if initialiser is None:
            for table in (self.entity, self.relation):
                uniform(table, (self.gamma + 2) / self.entity.shape[1], generator)

    def encode(self, anchor: Tensor, relation: Tensor, drop: Drop = keep_all) -> Encoded:
        """Scale and translate the anchors."""
        row, sign = self.relation_rows(relation)
        rows = drop(lookup(self.entity, anchor)), drop(lookup(self.relation, row))
        of_heads, of_tails, translation = rows[1].chunk(3, dim=-1)
        asks_tails = sign > 0
        of_anchor = torch.where(asks_tails, of_heads, of_tails) + self.offset
        of_candidate = torch.where(asks_tails, of_tails, of_heads) + self.offset
        vector = normalize(rows[0], dim=-1) * of_anchor + self.offset * sign * translation
        return Encoded(vector, relation, rows, scale=of_candidate)

    def score(self, queries: Encoded, candidates: Tensor | None = None, drop: Drop = keep_all) -> Tensor:
        """Score by L1 distance to the scaled candidates; see ``KGEModel.score``."""
        assert queries.scale is not None
        table, candidates = dropped(self.entity, candidates, lambda rows: normalize(drop(rows), dim=-1))
        return self.gamma - scaled_distance(queries.vector, queries.scale, table, candidates)


TRIPLERE = ModelEntry(
    "triplere", TripleRE, "a relation scales heads and tails, and translates (Yu et al., 2021)", order=9
)
