"""Triton kernels of sums over edges, and of the optimiser's step; imported only on machines that run them.

Triton lays the last axis of a tile across the threads and keeps the first ones in each thread's registers. Tiles are
therefore shaped so that summed axes come first: sums then need no exchange between threads.
"""

import triton
import triton.language as tl
from torch import Tensor

from relens.models.fused import Trilinear

# Coordinates across the threads of a program, and edges at a time.
ACROSS, EDGES = 128, 8


@triton.jit
def _product_sum_kernel(
    left, right, weight, left_id, right_id, order, start, stop, key, out, width,
    kind: tl.constexpr, depth: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    piece = tl.program_id(0)
    d = tl.program_id(1) * depth + tl.arange(0, depth)[None, :]
    d_in = d < width
    row_width = width * (2 if kind else 1)
    first, last = tl.load(start + piece), tl.load(stop + piece)
    real = tl.zeros((depth,), dtype=left.dtype.element_ty)
    imaginary = tl.zeros((depth,), dtype=left.dtype.element_ty)
    for at in range(first, last, step):
        place = at + tl.arange(0, step)
        inside = place < last
        edge = tl.load(order + place, mask=inside, other=0)
        w = tl.load(weight + edge, mask=inside, other=0.0)[:, None]
        i = tl.load(left_id + edge, mask=inside, other=0)[:, None]
        j = tl.load(right_id + edge, mask=inside, other=0)[:, None]
        both = inside[:, None] & d_in
        a = w * tl.load(left + i * row_width + d, mask=both, other=0.0)
        b = tl.load(right + j * row_width + d, mask=both, other=0.0)
        if kind == 0:
            real += tl.sum(a * b, axis=0)
        else:
            a_im = w * tl.load(left + i * row_width + width + d, mask=both, other=0.0)
            b_im = tl.load(right + j * row_width + width + d, mask=both, other=0.0)
            if kind == 1:
                real += tl.sum(a * b - a_im * b_im, axis=0)
                imaginary += tl.sum(a * b_im + a_im * b, axis=0)
            else:  # the left factor is conjugated
                real += tl.sum(a * b + a_im * b_im, axis=0)
                imaginary += tl.sum(a * b_im - a_im * b, axis=0)
    out_at = out + tl.load(key + piece) * row_width + tl.program_id(1) * depth + tl.arange(0, depth)
    out_in = tl.program_id(1) * depth + tl.arange(0, depth) < width
    tl.atomic_add(out_at, real, mask=out_in, sem="relaxed")
    if kind:
        tl.atomic_add(out_at + width, imaginary, mask=out_in, sem="relaxed")


@triton.jit
def _adagrad_kernel(parameter, gradient, total, rate, epsilon, n, tile: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * tile + tl.arange(0, tile)
    inside = at < n
    g = tl.load(gradient + at, mask=inside, other=0.0)
    squares = tl.load(total + at, mask=inside, other=0.0) + g * g
    p = tl.load(parameter + at, mask=inside, other=0.0)
    tl.store(total + at, squares, mask=inside)
    tl.store(parameter + at, p - tl.load(rate) * g / (tl.sqrt(squares) + epsilon), mask=inside)


def product_sums(left: Tensor, right: Tensor, edges: Trilinear, roles: tuple[int, int, int], kind: int) -> Tensor:
    """Return the weighted sums of products over edges, (n, p).

    ``roles`` says which of the edges' three ends are rows of ``left``, of ``right`` and of the result.
    """
    of_left, of_right, of_out = roles
    order, start, stop, key = edges.pieces[of_out]
    width = left.shape[1] // (2 if kind else 1)
    out = left.new_zeros(edges.sizes[of_out], left.shape[1])
    depth = min(ACROSS, max(32, triton.next_power_of_2(width)))
    _product_sum_kernel[len(start), triton.cdiv(width, depth)](
        left, right, edges.weight, edges.ends[of_left], edges.ends[of_right], order, start, stop, key, out, width,
        kind=kind, depth=depth, step=EDGES, num_warps=depth // 32,
    )  # fmt: skip
    return out


def adagrad(parameter: Tensor, gradient: Tensor, total: Tensor, rate: Tensor, epsilon: float) -> None:
    """Add squared gradients to ``total`` and take a step, all in place; shapes are the same, ``rate`` is ()."""
    n, tile = parameter.numel(), 1024
    _adagrad_kernel[(triton.cdiv(n, tile),)](parameter, gradient, total, rate, epsilon, n, tile=tile)
