"""HousE (Li et al., 2022): a relation is a chain of Householder reflections between two projections."""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from relens.errors import InputError
from relens.models import initialisers
from relens.models.base import Drop, Encoded, KGEModel, keep_all
from relens.models.distance import in_chunks, in_pieces
from relens.models.options import Margin, Number, Size


class HousE(KGEModel):
    """s = γ − Σᵢ ‖h″ᵢ − t′ᵢ‖₂ over c blocks of k coordinates.

    h′ and t′ are projections of head and tail, h″ reflects h′. Reflections keep distances, so heads are asked for by
    reflecting t′ back and comparing with h′. Each relation has V = reflections + 2·projections unit vectors per block:
    those of tails first, then of the reflections, then of heads. Strengths of projections are at most ``limit``.
    """

    def __init__(
        self,
        n_entities: int,
        n_relations: int,
        *,
        dim: Size = 800,
        block: Size = 8,
        reflections: Number | None = None,
        projections: Number = 1,
        limit: Margin = 0.5,
        gamma: Margin = 6.0,
    ) -> None:
        super().__init__(n_entities, n_relations)
        if dim < block:
            raise InputError(f"dim of HousE is {dim}, expected at least one block, {block}")
        n_reflections = block // 2 * 2 if reflections is None else reflections
        self.gamma, self.projections, self.limit = gamma, projections, limit
        self.blocks = (dim // block, block)
        self.entity = nn.Parameter(torch.empty(n_entities, self.blocks[0] * block))
        self.relation = nn.Parameter(torch.empty(n_relations, n_reflections + 2 * projections, *self.blocks))
        # Strengths of the projections of heads (0) and tails (1): a scalar, and the size of one number per block.
        self.strength = nn.Parameter(torch.empty(n_relations, 2, projections, 1))
        self.block_strength = nn.Parameter(torch.empty(n_relations, 2, projections, self.blocks[0]))

    def initialise(self, tables: str | None, generator: torch.Generator) -> None:
        """Draw parameters by HousE's own rule; ``tables`` is not used."""
        del tables
        bound = (self.gamma + 2) / (self.blocks[0] * self.blocks[1] ** 0.5)
        initialisers.uniform(self.entity, bound, generator)
        initialisers.uniform(self.relation, bound, generator)
        initialisers.uniform(self.strength, 0.01, generator)
        initialisers.uniform(self.block_strength, 1.0, generator)
        with torch.no_grad():
            self.strength[:, 1] = -self.strength[:, 0]

    def encode(self, anchor: Tensor, relation: Tensor, drop: Drop = keep_all) -> Encoded:
        """Project and reflect the anchors."""
        row, sign = self.relation_rows(relation)
        is_tail = sign[:, 0] < 0  # the anchor of a query for heads
        anchors = drop(self.entity[anchor])
        x = (self._projection(row, is_tail) @ anchors.view(-1, *self.blocks, 1)).squeeze(-1)
        first, last = self.projections, self.relation.shape[1] - self.projections
        vectors = normalize(self.relation[row, first:last], dim=-1)
        # Heads are reflected from the last vector to the first, tails back again.
        for v in torch.where(is_tail[:, None, None, None], vectors, vectors.flip(1)).unbind(1):
            x = x - 2 * (x * v).sum(dim=-1, keepdim=True) * v
        return Encoded(x.flatten(1), relation, (anchors,))

    def _projection(self, row: Tensor, of_tail: Tensor) -> Tensor:
        """Return what projects heads, or tails where ``of_tail`` (B,), as one matrix per block: (B, c, k, k)."""
        m, kind = self.projections, of_tail.long()
        last = self.relation.shape[1] - m
        ends = torch.stack([self.relation[:, last:].flip(1), self.relation[:, :m]], dim=1)
        vectors = normalize(ends[row, kind], dim=-1)  # (B, m, c, k)
        strengths = (self.strength[row, kind] * self.block_strength[row, kind].abs()).clamp(max=self.limit)  # (B, m, c)
        matrix = torch.eye(self.blocks[1], dtype=vectors.dtype, device=vectors.device)
        for v, strength in zip(vectors.unbind(1), strengths.unbind(1), strict=True):
            matrix = matrix - strength[..., None, None] * v.unsqueeze(-1) * (v.unsqueeze(-2) @ matrix)
        return matrix.expand(len(row), *self.blocks, -1)

    def score(self, queries: Encoded, candidates: Tensor | None = None, drop: Drop = keep_all) -> Tensor:
        """Score by distance to the projected candidates; see ``KGEModel.score``. They are not dropped out."""
        del drop
        row, sign = self.relation_rows(queries.relation)
        projection = in_chunks(self._projection(row, sign[:, 0] > 0), candidates)  # (C, b, c, k, k)
        vector = in_chunks(queries.vector.view(-1, *self.blocks), candidates).unsqueeze(2)

        def distance(rows: Tensor) -> Tensor:
            projected = torch.einsum("npik,nbilk->nbpil", torch.unflatten(rows, 2, self.blocks), projection)
            norms: Tensor = torch.linalg.vector_norm(vector - projected, dim=-1)
            return norms.sum(dim=-1)

        return self.gamma - in_pieces(distance, self.entity, candidates, queries.vector.numel(), recompute=True)
