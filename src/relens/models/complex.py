"""ComplEx (Trouillon et al., 2016): a bilinear form over the complex numbers."""

from typing import ClassVar

import torch
from torch import Tensor

from relens.errors import InputError
from relens.models.base import Drop, keep_all
from relens.models.embedding import EmbeddingModel, Encoded, dot_scores
from relens.models.entry import ModelEntry
from relens.models.lookup import lookup
from relens.models.options import Size


class ComplEx(EmbeddingModel):
    """s = Re⟨h, r, t̄⟩; queries for heads use the conjugate of r, or a vector of their own.

    Rows hold real parts, then imaginary parts.
    """

    rowwise: ClassVar[bool] = True

    def __init__(self, n_entities: int, n_relations: int, *, dim: Size = 2000, shared_inverse: bool = True) -> None:
        super().__init__(n_entities, n_relations, shared_inverse=shared_inverse)
        if dim % 2:
            raise InputError(f"`dim={dim}` of ComplEx: expected an even number, real and imaginary parts")
        self.make_tables(dim, dim)

    def encode(self, anchor: Tensor, relation: Tensor, drop: Drop = keep_all) -> Encoded:
        """Multiply the anchors by their relations."""
        row, sign = self.relation_rows(relation)
        rows = drop(lookup(self.entity, anchor)), drop(lookup(self.relation, row))
        (h_re, h_im), (r_re, r_im) = rows[0].chunk(2, dim=-1), rows[1].chunk(2, dim=-1)
        r_im = sign * r_im
        return Encoded(torch.cat([h_re * r_re - h_im * r_im, h_re * r_im + h_im * r_re], dim=-1), relation, rows)

    def score(self, queries: Encoded, candidates: Tensor | None = None, drop: Drop = keep_all) -> Tensor:
        """Score by dot product; see ``KGEModel.score``."""
        return dot_scores(queries.vector, self.entity, candidates, drop)

    def score_relations(self, head: Tensor, tail: Tensor, drop: Drop = keep_all) -> Tensor:
        """Score by dot product with h̄·t; see ``EmbeddingModel.score_relations``."""
        ends = drop(lookup(self.entity, head)), drop(lookup(self.entity, tail))
        (h_re, h_im), (t_re, t_im) = ends[0].chunk(2, dim=-1), ends[1].chunk(2, dim=-1)
        vector = torch.cat([h_re * t_re + h_im * t_im, h_re * t_im - h_im * t_re], dim=-1)
        return dot_scores(vector, self.relation, None, drop)


COMPLEX = ModelEntry("complex", ComplEx, "a bilinear form over the complex numbers (Trouillon et al., 2016)", order=4)
