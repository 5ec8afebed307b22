"""RotatE (Sun et al., 2019): a relation rotates every complex coordinate."""

import math
from typing import ClassVar

import torch
from torch import Tensor

from relens.errors import InputError
from relens.models.base import Drop, keep_all
from relens.models.distance import dropped, modulus_distance
from relens.models.embedding import SCALE, EmbeddingModel, Encoded
from relens.models.entry import ModelEntry
from relens.models.lookup import lookup
from relens.models.options import Margin, Size


class RotatE(EmbeddingModel):
    """s = γ − Σₖ |hₖ·exp(iφₖ) − tₖ|; queries for heads use −φ, or angles of their own.

    Rows hold real parts, then imaginary parts. φ = π·θ/0.01 for relation rows θ, so that the scale of the
    initialisers is a rotation by π (KGTuner).
    """

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
        if dim % 2:
            raise InputError(f"`dim={dim}` of RotatE: expected an even number, real and imaginary parts")
        self.gamma = gamma
        self.make_tables(dim, dim // 2)

    def encode(self, anchor: Tensor, relation: Tensor, drop: Drop = keep_all) -> Encoded:
        """Rotate the anchors."""
        row, sign = self.relation_rows(relation)
        rows = drop(lookup(self.entity, anchor)), drop(lookup(self.relation, row))
        phase = sign * rows[1] * (math.pi / SCALE)
        real, imaginary = rows[0].chunk(2, dim=-1)
        cosine, sine = torch.cos(phase), torch.sin(phase)
        rotated = torch.cat([real * cosine - imaginary * sine, real * sine + imaginary * cosine], dim=-1)
        return Encoded(rotated, relation, rows)

    def score(self, queries: Encoded, candidates: Tensor | None = None, drop: Drop = keep_all) -> Tensor:
        """Score by the sum of moduli; see ``KGEModel.score``."""
        return self.gamma - modulus_distance(queries.vector, *dropped(self.entity, candidates, drop))


ROTATE = ModelEntry("rotate", RotatE, "a relation rotates complex coordinates (Sun et al., 2019)", order=2)
