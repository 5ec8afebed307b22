"""Entities as tokens: the neighbours and anchors that describe an entity, and the block that encodes them."""

from typing import Literal

import torch
from torch import Tensor, nn

MISSING = -1
"""The id of a missing token."""


def degrees(triples: Tensor, n_entities: int) -> Tensor:
    """Count the triples (n, 3) of each entity, (E,); one with the entity as head and as tail counts twice."""
    return torch.bincount(torch.cat([triples[:, 0], triples[:, 2]]), minlength=n_entities)


def distinct_edges(triples: Tensor, n_entities: int, side: Literal["out", "in", "both"]) -> tuple[Tensor, Tensor]:
    """Return pairs (entity, neighbour), (m,) ids each, sorted: from heads to tails, from tails to heads, or both."""
    head, tail = triples[:, 0].long(), triples[:, 2].long()
    ways = {"out": [head * n_entities + tail], "in": [tail * n_entities + head]}
    pairs = torch.unique(torch.cat(ways.get(side, [*ways["out"], *ways["in"]])))
    entity, neighbour = pairs // n_entities, pairs % n_entities
    other = entity != neighbour
    return entity[other], neighbour[other]


def first_of_each(owner: Tensor, value: Tensor, n_owners: int, most: int) -> Tensor:
    """Return the first ``most`` values of each owner in the order given, (owners, most), then ``MISSING``."""
    order = owner.argsort(stable=True)
    owner, value = owner[order], value[order]
    counts = torch.bincount(owner, minlength=n_owners)
    place = torch.arange(len(owner), device=owner.device) - (counts.cumsum(0) - counts)[owner]
    table = torch.full((n_owners, most), MISSING, device=owner.device)
    kept = place < most
    table[owner[kept], place[kept]] = value[kept]
    return table


def neighbours_of(triples: Tensor, n_entities: int, most: int, side: Literal["out", "in", "both"] = "both") -> Tensor:
    """Return the neighbours of highest degree of each entity, (E, most) ids; ties go to the smaller id."""
    entity, neighbour = distinct_edges(triples, n_entities, side)
    order = degrees(triples, n_entities)[neighbour].argsort(descending=True, stable=True)
    return first_of_each(entity[order], neighbour[order], n_entities, most)


def nearest_anchors(triples: Tensor, n_entities: int, n_anchors: int, most: int) -> Tensor:
    """Return the anchors nearest to each entity, (E, most) numbers below ``n_anchors``.

    Anchors are the entities of highest degree, numbered in that order. The nearest ones need the fewest steps along
    triples in either direction; ties go to the smaller number.
    """
    anchors = degrees(triples, n_entities).argsort(descending=True, stable=True)[:n_anchors]
    source, target = distinct_edges(triples, n_entities, "both")
    counts = torch.bincount(source, minlength=n_entities)
    starts = counts.cumsum(0) - counts
    # Pairs (entity, anchor) as one number each. An anchor that found no place at an entity need not be passed on to
    # its neighbours: they get as many other anchors that are as near.
    fresh = known = (anchors * n_anchors + torch.arange(len(anchors), device=anchors.device)).sort().values
    hops = [fresh]
    while len(fresh):
        entity, anchor = fresh // n_anchors, fresh % n_anchors
        repeats = counts[entity]
        within = torch.arange(int(repeats.sum()), device=repeats.device)
        within -= (repeats.cumsum(0) - repeats).repeat_interleave(repeats)
        receiver = target[starts[entity].repeat_interleave(repeats) + within]
        reached = torch.unique(receiver * n_anchors + anchor.repeat_interleave(repeats))
        reached = reached[~torch.isin(reached, known)]
        owner = reached // n_anchors
        place = torch.arange(len(owner), device=owner.device) - torch.searchsorted(owner, owner)
        fresh = reached[place + torch.bincount(known // n_anchors, minlength=n_entities)[owner] < most]
        hops.append(fresh)
        known = torch.cat([known, fresh])
    pairs = torch.cat(hops)
    return first_of_each(pairs // n_anchors, pairs % n_anchors, n_entities, most)


class TokenBlock(nn.Module):
    """One transformer block (attention and a hidden layer of 4·d, each after a norm), and the mean over the tokens."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))
        self.attention = nn.Linear(dim, 3 * dim)
        self.projection = nn.Linear(dim, dim)
        self.hidden = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor, hidden: Tensor | None = None) -> Tensor:
        """Return vectors (n, d) for tokens (n, T, d); tokens with ``hidden`` (n, T) get no attention."""
        parts = self.attention(self.norms[0](tokens)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = parts  # (n, heads, T, d/heads) each
        logits = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
        if hidden is not None:
            logits = logits.masked_fill(hidden[:, None, None, :], -torch.inf)
        mixed = (torch.softmax(logits, dim=-1) @ value).transpose(1, 2).flatten(2)
        tokens = tokens + self.dropout(self.projection(mixed))
        tokens = tokens + self.dropout(self.hidden(self.norms[1](tokens)))
        return tokens.mean(dim=1)
