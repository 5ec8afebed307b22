"""Fused operations for CUDA, in Triton: forward and backward passes write nothing but results."""

from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor

from relens.models.lookup import gradient_of

L1, MODULUS, SCALED = 0, 1, 2
"""Kinds of distance: Σ|v − x|; the same over complex rows; Σ|v − s·x| for vectors that hold v, then s."""
REAL, COMPLEX, CONJUGATE = 0, 1, 2
"""Kinds of product: l·r of real rows; of complex rows (real halves, then imaginary halves); conj(l)·r of such rows."""


def usable(vector: Tensor) -> bool:
    """Say whether the kernels can run on the device of ``vector``."""
    return vector.is_cuda and vector.dtype in (torch.float32, torch.float64) and _has_triton()


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def _all_or(candidates: Tensor | None, table: Tensor) -> Tensor:
    """Return the candidates, (C, P); all entities as one pool for None."""
    if candidates is None:
        return torch.arange(len(table), device=table.device).unsqueeze(0)
    return candidates.contiguous()


def distance(vector: Tensor, table: Tensor, candidates: Tensor | None, kind: int) -> Tensor:
    """Return distances (B, E) or (B, P); see ``relens.models.distance``."""
    inputs = (vector.contiguous(), table.contiguous(), _all_or(candidates, table))
    result: Tensor = _Distance.apply(*inputs, kind)  # type: ignore[no-untyped-call]
    return result


class _Distance(torch.autograd.Function):
    """Distances with a backward pass that recomputes signs (or unit phasors) instead of storing them."""

    @staticmethod
    def forward(ctx: Any, vector: Tensor, table: Tensor, candidates: Tensor, kind: int) -> Tensor:
        from relens.models.fused import distance_kernels  # needs triton, which only CUDA machines have

        ctx.save_for_backward(vector, candidates)
        ctx.table, ctx.kind = table, kind
        return distance_kernels.distance(vector, table, candidates, kind)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        from relens.models.fused import distance_kernels

        vector, candidates = ctx.saved_tensors
        total, returned = gradient_of(ctx.table)
        gradient = gradients[0].contiguous()
        of_vector = distance_kernels.distance_gradients(vector, ctx.table, candidates, gradient, total, ctx.kind)
        return of_vector, returned, None, None


def block_distance(vector: Tensor, matrices: Tensor, group: Tensor, table: Tensor, candidates: Tensor | None) -> Tensor:
    """Return Σᵢ ‖vᵢ − Mᵢ·xᵢ‖, (B, E) or (B, P), over c blocks of k coordinates.

    ``vector`` is (B, c·k), ``table`` (E, c·k), ``matrices`` (G, c, k, k), query b uses ``matrices[group[b]]``.
    """
    candidates = _all_or(candidates, table)
    inputs = (vector.contiguous(), matrices.contiguous(), group.contiguous(), table.contiguous(), candidates)
    result: Tensor = _BlockDistance.apply(*inputs)  # type: ignore[no-untyped-call]
    return result


class _BlockDistance(torch.autograd.Function):
    """Distances to projected candidates; the backward pass projects them again."""

    @staticmethod
    def forward(ctx: Any, vector: Tensor, matrices: Tensor, group: Tensor, table: Tensor, candidates: Tensor) -> Tensor:
        from relens.models.fused import block_kernels

        ctx.save_for_backward(vector, matrices, group, candidates)
        ctx.table = table
        return block_kernels.block_distance(vector, matrices, group, table, candidates)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, Tensor | None, None]:
        from relens.models.fused import block_kernels

        vector, matrices, group, candidates = ctx.saved_tensors
        total, returned = gradient_of(ctx.table)
        gradient = gradients[0].contiguous()
        of_vector, of_matrices = block_kernels.block_gradients(
            vector, matrices, group, ctx.table, candidates, gradient, total
        )
        return of_vector, of_matrices, None, returned, None


class Pieces(NamedTuple):
    """Edges in the order of one of their keys, cut into pieces of one key each.

    Attributes:
        order: edges, (n,).
        start, stop: where in ``order`` each piece begins and ends, (m,).
        key: of each piece, (m,).
    """

    order: Tensor
    start: Tensor
    stop: Tensor
    key: Tensor

    @classmethod
    def from_keys(cls, keys: Tensor, n_keys: int, most: int = 64) -> "Pieces":
        """Sort edges by their ``keys`` (n,); a piece has at most ``most`` edges, so that no piece takes long."""
        counts = torch.bincount(keys, minlength=n_keys)
        n_pieces = (counts + most - 1) // most
        key = torch.repeat_interleave(n_pieces)
        within = torch.arange(len(key), device=keys.device) - (n_pieces.cumsum(0) - n_pieces)[key]
        ends = counts.cumsum(0)
        start = (ends - counts)[key] + most * within
        return cls(keys.argsort(stable=True), start, torch.minimum(start + most, ends[key]), key)


class Trilinear(NamedTuple):
    """Weighted edges (i, j, k), from rows i of one table and j of another to rows k of a third.

    Attributes:
        weight: (n,).
        ends: i, j and k, (n,) each.
        sizes: rows of the three tables.
        pieces: the edges by i, by j and by k.
    """

    weight: Tensor
    ends: tuple[Tensor, Tensor, Tensor]
    sizes: tuple[int, int, int]
    pieces: tuple[Pieces, Pieces, Pieces]

    @classmethod
    def build(cls, weight: Tensor, ends: tuple[Tensor, Tensor, Tensor], sizes: tuple[int, int, int]) -> "Trilinear":
        """Sort the edges by each of their ends."""
        i, j, k = (Pieces.from_keys(end, size) for end, size in zip(ends, sizes, strict=True))
        return cls(weight, ends, sizes, (i, j, k))


def product_sums(left: Tensor, right: Tensor, edges: Trilinear, kind: int) -> Tensor:
    """Return the sums of w·left[i]·right[j] over the edges by k, (K, p), for rows of p numbers; REAL or CONJUGATE."""
    inputs = left.contiguous(), right.contiguous()
    result: Tensor = _ProductSums.apply(*inputs, edges, kind)  # type: ignore[no-untyped-call]
    return result


class _ProductSums(torch.autograd.Function):
    """Sums of products: linear in both factors, so that each gradient is a sum of products, too."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, edges: Trilinear, kind: int) -> Tensor:
        from relens.models.fused import edge_kernels

        ctx.save_for_backward(left, right)
        ctx.edges, ctx.kind = edges, kind
        return edge_kernels.product_sums(left, right, edges, (0, 1, 2), kind)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        from relens.models.fused import edge_kernels

        left, right = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        # Of conj(l)·r: conj(g)·r for l, and l·g for r.
        of_right_kind = COMPLEX if ctx.kind == CONJUGATE else ctx.kind
        of_left = edge_kernels.product_sums(gradient, right, ctx.edges, (2, 1, 0), ctx.kind)
        of_right = edge_kernels.product_sums(left, gradient, ctx.edges, (0, 2, 1), of_right_kind)
        return of_left, of_right, None, None


def adagrad(parameter: Tensor, gradient: Tensor, total: Tensor, rate: Tensor, epsilon: float) -> None:
    """Take a step of Adagrad in place: one pass over the three tensors of one shape; ``rate`` is a tensor, ()."""
    from relens.models.fused import edge_kernels

    edge_kernels.adagrad(parameter, gradient.contiguous(), total, rate, epsilon)
