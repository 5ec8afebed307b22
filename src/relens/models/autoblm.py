"""AutoBLM (Zhang et al., 2022): a bilinear form with a searched block structure, that of KGBench."""

import torch
from torch import Tensor, nn

from relens.errors import InputError
from relens.models.base import Drop, keep_all
from relens.models.embedding import EmbeddingModel, Encoded, dot_scores
from relens.models.entry import ModelEntry
from relens.models.lookup import lookup
from relens.models.options import Size

DEVIATION = 0.1
"""Standard deviation of the first entries of both tables (KGBench)."""


class AutoBLM(EmbeddingModel):
    """s = ⟨h₁, r₁, t₁⟩ + ⟨h₂, r₂, t₂⟩ + ⟨h₃, r₃, t₄⟩ + ⟨h₄, r₄, t₃⟩ over the quarters of h, r and t.

    A relation with r₃ = r₄ is symmetric. Queries for heads exchange r₃ and r₄, or use a vector of their own.
    """

    def __init__(self, n_entities: int, n_relations: int, *, dim: Size = 2048, shared_inverse: bool = True) -> None:
        super().__init__(n_entities, n_relations, shared_inverse=shared_inverse)
        if dim % 4:
            raise InputError(f"`dim={dim}` of AutoBLM: expected a multiple of 4, because vectors have four quarters")
        self.make_tables(dim, dim)

    def initialise(self, initialiser: str | None, generator: torch.Generator) -> None:
        """Draw tables with the initialiser of that name; from N(0, 0.1²) for None."""
        super().initialise(initialiser, generator)
        if initialiser is None:
            for table in (self.entity, self.relation):
                nn.init.normal_(table, 0.0, DEVIATION, generator=generator)

    def encode(self, anchor: Tensor, relation: Tensor, drop: Drop = keep_all) -> Encoded:
        """Multiply the anchors by their relations, quarter by quarter."""
        row, sign = self.relation_rows(relation)
        rows = drop(lookup(self.entity, anchor)), drop(lookup(self.relation, row))
        # The quarters of h·r meet those of t as 1, 2, 4, 3; those of r·t meet those of h in order.
        return Encoded(crossed(rows[0]) * torch.where(sign > 0, crossed(rows[1]), rows[1]), relation, rows)

    def score(self, queries: Encoded, candidates: Tensor | None = None, drop: Drop = keep_all) -> Tensor:
        """Score by dot product; see ``KGEModel.score``."""
        return dot_scores(queries.vector, self.entity, candidates, drop)

    def score_relations(self, head: Tensor, tail: Tensor, drop: Drop = keep_all) -> Tensor:
        """Score by dot product with the pairs; see ``EmbeddingModel.score_relations``."""
        vector = drop(lookup(self.entity, head)) * crossed(drop(lookup(self.entity, tail)))
        return dot_scores(vector, self.relation, None, drop)


AUTOBLM = ModelEntry("autoblm", AutoBLM, "a bilinear form with a searched structure (Zhang et al., 2022)", order=7)


def crossed(rows: Tensor) -> Tensor:
    """Return rows (B, d) with their third and fourth quarter exchanged."""
    first, second, third, fourth = rows.chunk(4, dim=-1)
    return torch.cat([first, second, fourth, third], dim=-1)
