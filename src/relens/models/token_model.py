"""The common part of StarGraph and InterHT: entities are encoded from tokens, and scored like TripleRE."""

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import normalize

from relens.models.base import Drop, keep_all
from relens.models.distance import scaled_distance
from relens.models.embedding import EmbeddingModel, Encoded, fill, uniform
from relens.models.lookup import lookup
from relens.models.tokens import MISSING, TokenBlock

PIECE = 2**12
"""Entities encoded at a time at evaluation."""


class TokenModel(EmbeddingModel):
    """s = γ − ‖v·h∘t + h∘(u·rʰ + 1) − t∘(u·rᵗ + 1) + rᵐ‖₁ for h and t of length 1, encoded from tokens by a block.

    u is ``relation_scale`` and v ``interaction``. Rows of relations hold rʰ, rᵗ and rᵐ. Queries for heads use the
    same row, or a row of their own, as tails of an inverse relation.
    """

    needs_triples: ClassVar[bool] = True
    gamma: float
    relation_scale: float
    interaction: float = 0.0
    block: TokenBlock

    @abstractmethod
    def tokens(self, entities: Tensor, drop: Drop) -> tuple[Tensor, Tensor | None]:
        """Return the tokens (n, T, d) of entities (n,), and which of them get no attention, (n, T) or None."""

    def initialise(self, initialiser: str | None, generator: torch.Generator) -> None:
        """Draw all tables with the initialiser of that name; from U(±(γ + 2)/d) for None."""
        super().initialise(initialiser, generator)
        layers = {id(value) for layer in self.modules() if layer is not self for value in layer.parameters()}
        for table in (value for value in self.parameters() if id(value) not in layers):
            if initialiser is None:
                uniform(table, 3 * (self.gamma + 2) / self.relation.shape[1], generator)
            else:
                fill(table, initialiser, generator)

    def embed(self, entities: Tensor, drop: Drop = keep_all) -> Tensor:
        """Encode entities (n,) as vectors of length 1, (n, d)."""
        return normalize(self.block(*self.tokens(entities, drop)), dim=-1)

    def embed_all(self, drop: Drop = keep_all) -> Tensor:
        """Encode all entities, (E, d); at evaluation they are kept until a parameter changes."""
        entities = torch.arange(self.n_entities, device=self.device)
        if self.training or torch.is_grad_enabled() or drop is not keep_all:
            return self.embed(entities, drop)
        return self.kept(lambda: torch.cat([self.embed(part) for part in torch.split(entities, PIECE)]))

    def encode(self, anchor: Tensor, relation: Tensor, drop: Drop = keep_all) -> Encoded:
        """Encode, scale and translate the anchors."""
        row, sign = self.relation_rows(relation)
        rows = drop(lookup(self.relation, row))
        of_heads, of_tails, translation = rows.chunk(3, dim=-1)
        vector, asks_tails = self.embed(anchor, drop), sign > 0
        of_anchor = self.relation_scale * torch.where(asks_tails, of_heads, of_tails) + 1
        # An anchor that is the head adds v·h to the factor of t, with t's sign; a tail adds v·t to the factor of h.
        of_candidate = self.relation_scale * torch.where(asks_tails, of_tails, of_heads) + 1
        of_candidate = of_candidate - sign * self.interaction * vector
        return Encoded(vector * of_anchor + sign * translation, relation, (rows,), scale=of_candidate)

    def score(self, queries: Encoded, candidates: Tensor | None = None, drop: Drop = keep_all) -> Tensor:
        """Score by L1 distance to the scaled candidates; see ``KGEModel.score``."""
        assert queries.scale is not None
        if candidates is None or candidates.numel() >= self.n_entities:
            table = self.embed_all(drop)
        else:
            table = self.embed(candidates.flatten(), drop)
            candidates = torch.arange(len(table), device=table.device).view_as(candidates)
        return self.gamma - scaled_distance(queries.vector, queries.scale, table, candidates)


def rows_or_zeros(table: Tensor, ids: Tensor) -> Tensor:
    """Return rows (…, d) of a table for ids (…), zeros for missing ids."""
    return lookup(table, ids.clamp_min(0)) * (ids != MISSING).unsqueeze(-1)
