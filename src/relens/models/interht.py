"""InterHT+ (Wang et al., 2022): as StarGraph, and head and tail act on each other."""

import torch
from torch import Tensor, nn

from relens.errors import InputError
from relens.models.base import Drop
from relens.models.entry import ModelEntry
from relens.models.lookup import lookup
from relens.models.options import Margin, Number, Probability, Size
from relens.models.token_model import TokenModel, rows_or_zeros
from relens.models.tokens import MISSING, TokenBlock, nearest_anchors, neighbours_of


class InterHT(TokenModel):
    """``TokenModel`` with v = u whose tokens are the entity, neighbours along and against its triples, and anchors.

    An entity is a row of ``entity`` for itself and a row of ``neighbour`` as a neighbour, each mapped to d numbers;
    an anchor is a row of ``anchor``. Each token gets a vector of its kind added. Missing tokens get no attention, but
    count in the mean.
    """

    entity_tokens: Tensor
    anchor_tokens: Tensor
    kinds: Tensor

    def __init__(
        self,
        n_entities: int,
        n_relations: int,
        triples: Tensor,
        *,
        dim: Size = 512,
        token_dim: Size = 32,
        neighbour_dim: Size = 64,
        outgoing: Number = 8,
        incoming: Number = 4,
        anchors: Size = 20_000,
        nearest: Size = 20,
        heads: Size = 8,
        token_dropout: Probability = 0.05,
        gamma: Margin = 6.0,
        relation_scale: Margin = 0.05,
        shared_inverse: bool = False,
    ) -> None:
        super().__init__(n_entities, n_relations, shared_inverse=shared_inverse)
        if dim % heads:
            raise InputError(f"`dim={dim}` of InterHT: expected a multiple of `heads={heads}`")
        self.gamma, self.relation_scale, self.interaction = gamma, relation_scale, relation_scale
        self.make_tables(token_dim, 3 * dim)
        n_anchors = min(anchors, n_entities)
        self.neighbour = nn.Parameter(torch.empty(n_entities, neighbour_dim))
        self.anchor = nn.Parameter(torch.empty(n_anchors, dim))
        self.kind = nn.Parameter(torch.empty(4, dim))
        self.linear, self.neighbour_linear = nn.Linear(token_dim, dim), nn.Linear(neighbour_dim, dim)
        self.block = TokenBlock(dim, heads, token_dropout)
        sides = neighbours_of(triples, n_entities, outgoing, "out"), neighbours_of(triples, n_entities, incoming, "in")
        # Not persistent: the triples belong to the data set, not to the parameters.
        self.register_buffer("entity_tokens", torch.cat(sides, dim=1), persistent=False)
        self.register_buffer(
            "anchor_tokens", nearest_anchors(triples, n_entities, n_anchors, nearest), persistent=False
        )
        kinds = [0] + [1] * outgoing + [2] * incoming + [3] * nearest
        self.register_buffer("kinds", torch.tensor(kinds), persistent=False)

    def tokens(self, entities: Tensor, drop: Drop) -> tuple[Tensor, Tensor]:
        """Look up the tokens of entities (n,); see ``TokenModel.tokens``."""
        near, anchors, itself = self.entity_tokens[entities], self.anchor_tokens[entities], entities.unsqueeze(1)
        parts = (
            self.linear(drop(rows_or_zeros(self.entity, itself))),
            self.neighbour_linear(drop(rows_or_zeros(self.neighbour, near))),
            drop(rows_or_zeros(self.anchor, anchors)),
        )
        hidden = torch.cat([itself, near, anchors], dim=1) == MISSING
        return torch.cat(parts, dim=1) + lookup(self.kind, self.kinds), hidden


INTERHT = ModelEntry(
    "interht", InterHT, "as StarGraph, and head and tail act on each other (Wang et al., 2022)", order=11
)
