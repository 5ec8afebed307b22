"""HousE (Li et al., 2022): a relation is a chain of Householder reflections between two projections."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from relens.errors import InputError
from relens.models.base import Drop, keep_all
from relens.models.cpu_blocks import KeptNorms
from relens.models.distance import block_distance, dropped
from relens.models.embedding import EmbeddingModel, Encoded, uniform
from relens.models.entry import ModelEntry
from relens.models.lookup import lookup
from relens.models.options import Margin, Number, Size


class HousE(EmbeddingModel):
    """s = γ − Σᵢ ‖h″ᵢ − t′ᵢ‖₂ over c blocks of k coordinates.

    h′ and t′ are projections of head and tail, h″ reflects h′. Reflections keep distances, so queries for heads reflect
    t′ back and compare with h′. Each relation has V = reflections + 2·projections unit vectors per block: first those
    of tails, then of the reflections, then of heads. Strengths of projections are at most ``limit``.
    """

    rowwise: ClassVar[bool] = True

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
            raise InputError(f"`dim={dim}` of HousE: expected at least `block={block}`")
        n_reflections = block // 2 * 2 if reflections is None else reflections
        self.gamma, self.projections, self.limit = gamma, projections, limit
        self.blocks = (dim // block, block)
        self.entity = nn.Parameter(torch.empty(n_entities, self.blocks[0] * block))
        self.relation = nn.Parameter(torch.empty(n_relations, n_reflections + 2 * projections, *self.blocks))
        # Strengths of the projections of heads (0) and tails (1): a scalar times one absolute value per block.
        self.strength = nn.Parameter(torch.empty(n_relations, 2, projections, 1))
        self.block_strength = nn.Parameter(torch.empty(n_relations, 2, projections, self.blocks[0]))

    def initialise(self, initialiser: str | None, generator: torch.Generator) -> None:
        """Draw parameters by HousE's own rule; ``initialiser`` is not used."""
        del initialiser
        bound = (self.gamma + 2) / (self.blocks[0] * self.blocks[1] ** 0.5)
        uniform(self.entity, bound, generator)
        uniform(self.relation, bound, generator)
        uniform(self.strength, 0.01, generator)
        uniform(self.block_strength, 1.0, generator)
        with torch.no_grad():
            self.strength[:, 1] = -self.strength[:, 0]

    def encode(self, anchor: Tensor, relation: Tensor, drop: Drop = keep_all) -> Encoded:
        """Project and reflect the anchors."""
        of_anchor, of_candidate, norms = self.kept(self._matrices)
        anchors = drop(lookup(self.entity, anchor))
        # A product and a sum, because BLAS is slow for batches of such small matrices times one vector each.
        turned = (lookup(of_anchor, relation) * anchors.view(-1, self.blocks[0], 1, self.blocks[1])).sum(dim=-1)
        return Encoded(turned.flatten(1), relation, (anchors,), matrices=of_candidate, norms=norms)

    def _matrices(self) -> tuple[Tensor, Tensor, KeptNorms]:
        """Return the matrices of anchors and of candidates, by directed relation, (2R, c, k, k) each.

        The last part keeps what the matrices of candidates make of the entity table.
        """
        m, last = self.projections, self.relation.shape[1] - self.projections
        vectors = normalize(self.relation, dim=-1).transpose(1, 2)  # (R, c, V, k)
        strengths = (self.strength * self.block_strength.abs()).clamp(max=self.limit).transpose(2, 3)  # (R, 2, c, m)
        ends = torch.stack([vectors[:, :, last:].flip(2), vectors[:, :, :m]], dim=1)
        heads, tails = chain(ends, strengths).unbind(1)
        reflectors = vectors[:, :, m:last].flip(2)
        reflect = chain(reflectors, reflectors.new_full(reflectors.shape[:-1], 2.0))
        # Heads are reflected, tails are reflected back.
        of_anchor = torch.cat([reflect @ heads, reflect.transpose(-1, -2) @ tails])
        return of_anchor, torch.cat([tails, heads]), KeptNorms()

    def score(self, queries: Encoded, candidates: Tensor | None = None, drop: Drop = keep_all) -> Tensor:
        """Score by distance to the projected candidates; see ``KGEModel.score``."""
        assert queries.matrices is not None
        table, candidates = dropped(self.entity, candidates, drop)
        kept = queries.norms if table is self.entity else None  # dropout makes another table
        own = queries.vector, queries.matrices, queries.relation
        return self.gamma - block_distance(*own, table, candidates, kept)


HOUSE = ModelEntry("house", HousE, "a relation is a chain of Householder reflections (Li et al., 2022)", order=3)


def chain(vectors: Tensor, strengths: Tensor) -> Tensor:
    """Return the matrix that applies x − s·⟨v, x⟩·v for each of n unit vectors, the first one first: (…, k, k).

    ``vectors`` are (…, n, k) and ``strengths`` (…, n). The chain is I − Σⱼ sⱼ·vⱼ·uⱼᵀ with uⱼ = vⱼ − Σᵢ sᵢ·⟨vⱼ, vᵢ⟩·uᵢ
    over i < j: one triangular system instead of n steps.
    """
    identity = torch.eye(vectors.shape[-1], dtype=vectors.dtype, device=vectors.device)
    scaled = strengths.unsqueeze(-1) * vectors
    if not vectors.shape[-2]:
        return identity.expand(*vectors.shape[:-2], *identity.shape)
    overlaps = (vectors @ scaled.transpose(-1, -2)).tril(-1)
    overlaps = overlaps + torch.eye(vectors.shape[-2], dtype=vectors.dtype, device=vectors.device)
    solved = torch.linalg.solve_triangular(overlaps, vectors, upper=False, unitriangular=True)
    matrices: Tensor = identity - scaled.transpose(-1, -2) @ solved
    return matrices
