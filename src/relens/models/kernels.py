"""The Triton kernels behind ``relens.models.fused``; imported only where they run."""

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 16
"""Queries and candidates per program; their differences stay in registers."""
DEPTH = 32
"""Coordinates per step."""


@triton.jit
def _distance_kernel(
    vector, table, ids, out, n_rows, n_ids, width,
    kind: tl.constexpr, tile_b: tl.constexpr, tile_p: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(n_ids, tile_p)
    chunk = (tl.program_id(0) // tiles).to(tl.int64)
    p = tl.program_id(0) % tiles * tile_p + tl.arange(0, tile_p)
    b = tl.program_id(1) * tile_b + tl.arange(0, tile_b)
    b_in, p_in = b < n_rows, p < n_ids
    rows = tl.load(ids + chunk * n_ids + p, mask=p_in, other=0).to(tl.int64)
    row_width = width * (1 + kind)
    v_at = vector + (chunk * n_rows + b)[:, None] * row_width
    x_at = table + rows[:, None] * row_width
    sums = tl.zeros((tile_b, tile_p), dtype=vector.dtype.element_ty)
    for start in range(0, width, depth):
        d = start + tl.arange(0, depth)
        v_in, x_in = b_in[:, None] & (d < width)[None, :], p_in[:, None] & (d < width)[None, :]
        v = tl.load(v_at + d[None, :], mask=v_in, other=0.0)
        x = tl.load(x_at + d[None, :], mask=x_in, other=0.0)
        difference = v[:, None, :] - x[None, :, :]
        if kind == 0:
            sums += tl.sum(tl.abs(difference), axis=2)
        else:
            v = tl.load(v_at + width + d[None, :], mask=v_in, other=0.0)
            x = tl.load(x_at + width + d[None, :], mask=x_in, other=0.0)
            other = v[:, None, :] - x[None, :, :]
            sums += tl.sum(tl.sqrt(difference * difference + other * other), axis=2)
    at = out + (chunk * n_rows + b)[:, None] * n_ids + p[None, :]
    tl.store(at, sums, mask=b_in[:, None] & p_in[None, :])


@triton.jit
def _gradient_kernel(
    vector, table, ids, gradient, out, n_rows, n_ids, width,
    kind: tl.constexpr, of_table: tl.constexpr, tile_b: tl.constexpr, tile_p: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    # A program owns a tile of one side (candidates where of_table, else queries) and walks along the other.
    own: tl.constexpr = tile_p if of_table else tile_b
    step: tl.constexpr = tile_b if of_table else tile_p
    if of_table:
        n_own, n_walk = n_ids, n_rows
    else:
        n_own, n_walk = n_rows, n_ids
    tiles = tl.cdiv(n_own, own)
    chunk = (tl.program_id(0) // tiles).to(tl.int64)
    mine = tl.program_id(0) % tiles * own + tl.arange(0, own)
    d = tl.program_id(1) * depth + tl.arange(0, depth)
    d_in = d < width
    row_width = width * (1 + kind)
    real = tl.zeros((own, depth), dtype=vector.dtype.element_ty)
    imaginary = tl.zeros((own, depth), dtype=vector.dtype.element_ty)
    for start in range(0, n_walk, step):
        walked = start + tl.arange(0, step)
        if of_table:
            b, p = walked, mine
        else:
            b, p = mine, walked
        b_in, p_in = b < n_rows, p < n_ids
        rows = tl.load(ids + chunk * n_ids + p, mask=p_in, other=0).to(tl.int64)
        v_at = vector + (chunk * n_rows + b)[:, None] * row_width + d[None, :]
        x_at = table + rows[:, None] * row_width + d[None, :]
        v_in, x_in = b_in[:, None] & d_in[None, :], p_in[:, None] & d_in[None, :]
        g_at = gradient + (chunk * n_rows + b)[:, None] * n_ids + p[None, :]
        g = tl.load(g_at, mask=b_in[:, None] & p_in[None, :], other=0.0)
        difference = tl.load(v_at, mask=v_in, other=0.0)[:, None, :] - tl.load(x_at, mask=x_in, other=0.0)[None, :, :]
        axis: tl.constexpr = 0 if of_table else 1
        if kind == 0:
            sign = tl.where(difference > 0, 1.0, tl.where(difference < 0, -1.0, 0.0))
            real += tl.sum(g[:, :, None] * sign, axis=axis)
        else:
            v = tl.load(v_at + width, mask=v_in, other=0.0)
            x = tl.load(x_at + width, mask=x_in, other=0.0)
            other = v[:, None, :] - x[None, :, :]
            modulus = tl.sqrt(difference * difference + other * other)
            scaled = g[:, :, None] / tl.where(modulus > 0, modulus, 1.0)
            real += tl.sum(scaled * difference, axis=axis)
            imaginary += tl.sum(scaled * other, axis=axis)
    inside = (mine < n_own)[:, None] & d_in[None, :]
    if of_table:
        rows = tl.load(ids + chunk * n_ids + mine, mask=mine < n_own, other=0).to(tl.int64)
        at = out + rows[:, None] * row_width + d[None, :]
        tl.atomic_add(at, -real, mask=inside)
        if kind == 1:
            tl.atomic_add(at + width, -imaginary, mask=inside)
    else:
        at = out + (chunk * n_rows + mine)[:, None] * row_width + d[None, :]
        tl.store(at, real, mask=inside)
        if kind == 1:
            tl.store(at + width, imaginary, mask=inside)


def _sizes(vector: Tensor, candidates: Tensor, kind: int) -> tuple[int, int, int, int, int]:
    """Return chunks, rows per chunk, candidates per chunk, width, and the tile of rows."""
    n_chunks, n_ids = candidates.shape
    n_rows = len(vector) // n_chunks
    return n_chunks, n_rows, n_ids, vector.shape[1] // (1 + kind), min(TILE, triton.next_power_of_2(n_rows))


def forward(vector: Tensor, table: Tensor, candidates: Tensor, kind: int) -> Tensor:
    """Return distances (B, P)."""
    n_chunks, n_rows, n_ids, width, tile = _sizes(vector, candidates, kind)
    out = vector.new_empty(len(vector), n_ids)
    grid = (n_chunks * triton.cdiv(n_ids, TILE), triton.cdiv(n_rows, tile))
    _distance_kernel[grid](
        vector, table, candidates, out, n_rows, n_ids, width, kind=kind, tile_b=tile, tile_p=TILE, depth=DEPTH
    )
    return out


def backward(vector: Tensor, table: Tensor, candidates: Tensor, gradient: Tensor, kind: int) -> tuple[Tensor, Tensor]:
    """Return the gradients of ``vector`` (B, d) and ``table`` (E, d)."""
    n_chunks, n_rows, n_ids, width, tile = _sizes(vector, candidates, kind)
    of_vector, of_table = torch.empty_like(vector), torch.zeros_like(table)
    for out, tiles in (of_vector, triton.cdiv(n_rows, tile)), (of_table, triton.cdiv(n_ids, TILE)):
        _gradient_kernel[n_chunks * tiles, triton.cdiv(width, DEPTH)](
            vector, table, candidates, gradient, out, n_rows, n_ids, width,
            kind=kind, of_table=out is of_table, tile_b=tile, tile_p=TILE, depth=DEPTH,
        )  # fmt: skip
    return of_vector, of_table
