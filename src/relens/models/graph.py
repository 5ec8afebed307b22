"""Graph layers of CompGCN: every entity sums its neighbours, each composed with its relation."""

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from relens.models import fused
from relens.models.lookup import lookup

Composition = Literal["corr", "mult", "sub"]


class Edges(nn.Module):
    """Triples as 2n edges: first n from tail to head, then n from head to tail.

    Attributes:
        sender, relation: ids, (2n,); relations are directed.
        receiver: ids, (2n,); E is added for the second direction.
        norm: weights, (2n,): (degree of receiver · degree of sender)^(−1/2). As in the first implementation, both
            degrees count how often an entity receives in that direction; messages of an entity that never receives
            have weight 0.
    """

    sender: Tensor
    relation: Tensor
    receiver: Tensor
    norm: Tensor

    def __init__(self, triples: Tensor, n_entities: int, n_relations: int) -> None:
        super().__init__()
        head, relation, tail = triples.long().T
        receiver = torch.cat([head, tail + n_entities])
        degree = torch.bincount(receiver, minlength=2 * n_entities).to(torch.get_default_dtype())
        scale = torch.where(degree > 0, degree.clamp(min=1).rsqrt(), 0)
        # Not persistent: the triples belong to the data set, not to the parameters.
        self.register_buffer("sender", torch.cat([tail, head]), persistent=False)
        self.register_buffer("relation", torch.cat([relation, relation + n_relations]), persistent=False)
        self.register_buffer("receiver", receiver, persistent=False)
        norm = scale[receiver] * scale[torch.cat([tail, head + n_entities])]
        self.register_buffer("norm", norm, persistent=False)
        self._trilinear: fused.Trilinear | None = None

    def sums(self, messages: Tensor, n_entities: int) -> Tensor:
        """Return the weighted sums of messages (2n, p) by direction and receiver, (2, E, p)."""
        total = messages.new_zeros(2 * n_entities, messages.shape[1])
        total.index_add_(0, self.receiver, messages * self.norm.unsqueeze(1))
        return total.view(2, n_entities, -1)

    def product_sums(self, x: Tensor, z: Tensor, kind: int) -> Tensor:
        """Return the weighted sums of products of senders (E, p) and relations (2R, p), (2, E, p); see ``fused``."""
        if fused.usable(x):
            if self._trilinear is None or self._trilinear.weight.device != x.device:
                sizes = len(x), len(z), 2 * len(x)
                self._trilinear = fused.Trilinear.build(self.norm, (self.sender, self.relation, self.receiver), sizes)
            return fused.product_sums(x, z, self._trilinear, kind).view(2, *x.shape)
        a, b = lookup(x, self.sender), lookup(z, self.relation)
        if kind == fused.CONJUGATE:
            (a_re, a_im), (b_re, b_im) = a.chunk(2, dim=1), b.chunk(2, dim=1)
            return self.sums(torch.cat([a_re * b_re + a_im * b_im, a_re * b_im - a_im * b_re], dim=1), len(x))
        return self.sums(a * b, len(x))


class GraphLayer(nn.Module):
    """One layer, from p to q numbers per entity and relation."""

    def __init__(self, p: int, q: int, composition: Composition, dropout: float) -> None:
        super().__init__()
        self.composition = composition
        self.loop_relation = nn.Parameter(torch.empty(1, p))
        # For messages to heads, for messages to tails, and for the entity itself.
        self.weight = nn.Parameter(torch.empty(3, p, q))
        self.relation_weight = nn.Parameter(torch.empty(p, q))
        self.norm = nn.BatchNorm1d(q)
        self.dropout = nn.Dropout(dropout)

    def matrices(self) -> Iterator[Tensor]:
        """Yield the parameters as matrices."""
        yield from (self.loop_relation, *self.weight, self.relation_weight)

    def forward(self, x: Tensor, z: Tensor, edges: Edges) -> tuple[Tensor, Tensor]:
        """Return the new entities (E, q) and relations (2R, q) for ``x`` (E, p) and ``z`` (2R, p)."""
        # Sums commute with the linear map, which is therefore applied to entities instead of edges.
        received = self.dropout(receive(x, z, edges, self.composition) @ self.weight[:2]).sum(dim=0)
        itself = compose(x, self.loop_relation, self.composition) @ self.weight[2]
        return torch.tanh(self.norm((received + itself) / 3)), z @ self.relation_weight


def compose(x: Tensor, z: Tensor, composition: Composition) -> Tensor:
    """Compose entities with relations, (…, p) each; corr is circular correlation, Σᵢ xᵢ·z₍ₖ₊ᵢ₎."""
    if composition == "sub":
        return x - z
    if composition == "mult":
        return x * z
    correlated: Tensor = torch.fft.irfft(torch.fft.rfft(x).conj() * torch.fft.rfft(z), n=x.shape[-1])
    return correlated


def receive(x: Tensor, z: Tensor, edges: Edges, composition: Composition) -> Tensor:
    """Return the weighted sums of composed neighbours, (2, E, p): received by heads, and received by tails."""
    if composition == "mult":
        return edges.product_sums(x, z, fused.REAL)
    if composition == "sub":
        return edges.sums(lookup(x, edges.sender) - lookup(z, edges.relation), len(x))
    # Correlation is a product in the frequency domain, where sums may be taken, too: only the tables are transformed,
    # not every edge.
    summed = edges.product_sums(_frequencies(x), _frequencies(z), fused.CONJUGATE)
    received: Tensor = torch.fft.irfft(torch.complex(*summed.chunk(2, dim=-1)), n=x.shape[1])
    return received


def _frequencies(rows: Tensor) -> Tensor:
    """Return the transforms of real rows (n, p), real parts and then imaginary parts, (n, 2·(p // 2 + 1))."""
    transformed = torch.fft.rfft(rows)
    return torch.cat([transformed.real, transformed.imag], dim=1)
