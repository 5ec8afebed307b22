"""Triton kernels of distances between queries and candidates; imported only on machines that run them.

Triton lays the last axis of a tile across the threads and keeps the first ones in each thread's registers. Tiles are
therefore shaped so that summed axes come first: sums then need no exchange between threads.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

# Queries × candidates × coordinates per program and step, found by counting the compiler's instructions per
# coordinate: larger tiles spill registers, smaller ones load more than they compute.
QUERIES, CANDIDATES, DEPTH = 16, 64, 8
# Gradients: rows a program owns, rows it walks along at a time, and coordinates across its threads.
OWNED, WALKED, ACROSS = 16, 8, 128
# Queries with candidates of their own: candidates at a time.
OWN_CANDIDATES = 16

TINY = tl.constexpr(1e-37)
"""The least squared distance with a gradient; the gradient at zero is zero."""


@triton.jit
def _pool_kernel(
    vector, table, ids, out, n_rows, n_ids, width,
    kind: tl.constexpr, tile_b: tl.constexpr, tile_p: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(n_ids, tile_p)
    chunk = (tl.program_id(0) // tiles).to(tl.int64)
    p = tl.program_id(0) % tiles * tile_p + tl.arange(0, tile_p)
    b = tl.program_id(1) * tile_b + tl.arange(0, tile_b)
    b_in, p_in = b < n_rows, p < n_ids
    rows = tl.load(ids + chunk * n_ids + p, mask=p_in, other=0).to(tl.int64)
    v_at = vector + (chunk * n_rows + b)[:, None] * (width if kind == 0 else 2 * width)
    x_at = table + rows[:, None] * (2 * width if kind == 1 else width)
    sums = tl.zeros((tile_b, tile_p), dtype=vector.dtype.element_ty)
    for start in range(0, width, depth):
        d = start + tl.arange(0, depth)[None, :]
        v_in, x_in = b_in[:, None] & (d < width), p_in[:, None] & (d < width)
        v = tl.trans(tl.load(v_at + d, mask=v_in, other=0.0))
        x = tl.trans(tl.load(x_at + d, mask=x_in, other=0.0))
        if kind == 2:
            scale = tl.trans(tl.load(v_at + width + d, mask=v_in, other=0.0))
            difference = v[:, :, None] - scale[:, :, None] * x[:, None, :]
        else:
            difference = v[:, :, None] - x[:, None, :]
        if kind != 1:
            sums += tl.sum(tl.abs(difference), axis=0)
        else:
            v = tl.trans(tl.load(v_at + width + d, mask=v_in, other=0.0))
            x = tl.trans(tl.load(x_at + width + d, mask=x_in, other=0.0))
            other = v[:, :, None] - x[:, None, :]
            sums += tl.sum(tl.sqrt(difference * difference + other * other), axis=0)
    at = out + (chunk * n_rows + b)[:, None] * n_ids + p[None, :]
    tl.store(at, sums, mask=b_in[:, None] & p_in[None, :])


@triton.jit
def _pool_gradient_kernel(
    vector, table, ids, gradient, out, n_rows, n_ids, width,
    kind: tl.constexpr, of_table: tl.constexpr, own: tl.constexpr, step: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    # A program owns some rows of one side (candidates where of_table, else queries) and walks along the other.
    if of_table:
        n_own, n_walk = n_ids, n_rows
    else:
        n_own, n_walk = n_rows, n_ids
    tiles = tl.cdiv(n_own, own)
    chunk = (tl.program_id(0) // tiles).to(tl.int64)
    mine = tl.program_id(0) % tiles * own + tl.arange(0, own)
    d = tl.program_id(1) * depth + tl.arange(0, depth)[None, :]
    v_width = width if kind == 0 else 2 * width
    x_width = 2 * width if kind == 1 else width
    ids += chunk * n_ids
    first_row = chunk * n_rows
    mine_in = mine < n_own
    if of_table:
        own_rows = tl.load(ids + mine, mask=mine_in, other=0).to(tl.int64)
        own_width = x_width
        own_at = table + own_rows[:, None] * own_width + d
    else:
        own_rows = first_row + mine
        own_width = v_width
        own_at = vector + own_rows[:, None] * own_width + d
    inside = mine_in[:, None] & (d < width)
    y = tl.load(own_at, mask=inside, other=0.0)
    two_halves: tl.constexpr = kind == 1 or (kind == 2 and not of_table)
    y_other = tl.load(own_at + (width if two_halves else 0), mask=inside, other=0.0)
    real = tl.zeros((own, depth), dtype=vector.dtype.element_ty)
    imaginary = tl.zeros((own, depth), dtype=vector.dtype.element_ty)
    for start in range(0, n_walk, step):
        walked = start + tl.arange(0, step)
        walked_in = walked < n_walk
        if of_table:
            at = vector + (first_row + walked)[:, None] * v_width + d
            g_at = gradient + (first_row + walked)[:, None] * n_ids + mine[None, :]
        else:
            walked_rows = tl.load(ids + walked, mask=walked_in, other=0).to(tl.int64)
            at = table + walked_rows[:, None] * x_width + d
            g_at = gradient + (first_row + mine)[None, :] * n_ids + walked[:, None]
        g = tl.load(g_at, mask=walked_in[:, None] & mine_in[None, :], other=0.0)[:, :, None]
        z_in = walked_in[:, None] & (d < width)
        z = tl.load(at, mask=z_in, other=0.0)[:, None, :]
        if kind == 2:
            if of_table:
                scale = tl.load(at + width, mask=z_in, other=0.0)[:, None, :]
                difference = scale * y[None, :, :] - z
                real += tl.sum(tl.where(difference > 0, g, tl.where(difference < 0, -g, 0.0)) * scale, axis=0)
            else:
                difference = y[None, :, :] - y_other[None, :, :] * z
                signed = tl.where(difference > 0, g, tl.where(difference < 0, -g, 0.0))
                real += tl.sum(signed, axis=0)
                imaginary -= tl.sum(signed * z, axis=0)  # that of the scale
        elif kind == 0:
            difference = y[None, :, :] - z
            real += tl.sum(tl.where(difference > 0, g, tl.where(difference < 0, -g, 0.0)), axis=0)
        else:
            difference = y[None, :, :] - z
            other = y_other[None, :, :] - tl.load(at + width, mask=z_in, other=0.0)[:, None, :]
            scaled = g * tl.rsqrt(tl.maximum(difference * difference + other * other, TINY))
            real += tl.sum(scaled * difference, axis=0)
            imaginary += tl.sum(scaled * other, axis=0)
    at = out + own_rows[:, None] * own_width + d
    if of_table:
        tl.atomic_add(at, real, mask=inside, sem="relaxed")
        if kind == 1:
            tl.atomic_add(at + width, imaginary, mask=inside, sem="relaxed")
    else:
        tl.store(at, real, mask=inside)
        if kind != 0:
            tl.store(at + width, imaginary, mask=inside)


@triton.jit
def _own_kernel(
    vector, table, ids, out, n_ids, width, kind: tl.constexpr, tile: tl.constexpr, depth: tl.constexpr
):  # fmt: skip
    # A query with candidates of its own shares no row: reading them is all the work, so rows lie across the threads.
    b = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1) * tile + tl.arange(0, tile)
    p_in = p < n_ids
    rows = tl.load(ids + b * n_ids + p, mask=p_in, other=0).to(tl.int64)
    v_at = vector + b * (width if kind == 0 else 2 * width)
    x_width = 2 * width if kind == 1 else width
    sums = tl.zeros((tile, depth), dtype=vector.dtype.element_ty)
    for start in range(0, width, depth):
        d = start + tl.arange(0, depth)[None, :]
        x_at = table + rows[:, None] * x_width + d
        x_in = p_in[:, None] & (d < width)
        x = tl.load(x_at, mask=x_in, other=0.0)
        if kind == 2:
            x *= tl.load(v_at + width + d, mask=d < width, other=0.0)
        difference = tl.load(v_at + d, mask=d < width, other=0.0) - x
        if kind != 1:
            sums += tl.where(x_in, tl.abs(difference), 0.0)
        else:
            v = tl.load(v_at + width + d, mask=d < width, other=0.0)
            other = v - tl.load(x_at + width, mask=x_in, other=0.0)
            sums += tl.where(x_in, tl.sqrt(difference * difference + other * other), 0.0)
    tl.store(out + b * n_ids + p, tl.sum(sums, axis=1), mask=p_in)


@triton.jit
def _own_gradient_kernel(
    vector, table, ids, gradient, of_vector, of_table, n_ids, width,
    kind: tl.constexpr, tile: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * depth + tl.arange(0, depth)
    v_width = width if kind == 0 else 2 * width
    x_width = 2 * width if kind == 1 else width
    v_at = b * v_width + d
    d_in = d < width
    v = tl.load(vector + v_at, mask=d_in, other=0.0)[None, :]
    v_other = tl.load(vector + v_at + (width if kind else 0), mask=d_in, other=0.0)[None, :]
    real = tl.zeros((depth,), dtype=vector.dtype.element_ty)
    imaginary = tl.zeros((depth,), dtype=vector.dtype.element_ty)
    for start in range(0, n_ids, tile):
        p = start + tl.arange(0, tile)
        rows = tl.load(ids + b * n_ids + p, mask=p < n_ids, other=0).to(tl.int64)
        g = tl.load(gradient + b * n_ids + p, mask=p < n_ids, other=0.0)[:, None]
        at = rows[:, None] * x_width + d[None, :]
        inside = (p < n_ids)[:, None] & d_in[None, :]
        x = tl.load(table + at, mask=inside, other=0.0)
        difference = v - (v_other * x if kind == 2 else x)
        if kind != 1:
            part = tl.where(difference > 0, g, tl.where(difference < 0, -g, 0.0))
        else:
            other = v_other - tl.load(table + at + width, mask=inside, other=0.0)
            scaled = g * tl.rsqrt(tl.maximum(difference * difference + other * other, TINY))
            part, other = scaled * difference, scaled * other
            imaginary += tl.sum(other, axis=0)
            tl.atomic_add(of_table + at + width, -other, mask=inside, sem="relaxed")
        real += tl.sum(part, axis=0)
        if kind == 2:
            imaginary -= tl.sum(part * x, axis=0)  # that of the scale
            part *= v_other
        tl.atomic_add(of_table + at, -part, mask=inside, sem="relaxed")
    tl.store(of_vector + v_at, real, mask=d_in)
    if kind != 0:
        tl.store(of_vector + v_at + width, imaginary, mask=d_in)


def sizes(vector: Tensor, candidates: Tensor, kind: int) -> tuple[int, int, int, int]:
    """Return chunks, rows per chunk, candidates per chunk, and coordinates (rows of two halves have both for each)."""
    n_chunks, n_ids = candidates.shape
    return n_chunks, len(vector) // n_chunks, n_ids, vector.shape[1] // (2 if kind else 1)


def distance(vector: Tensor, table: Tensor, candidates: Tensor, kind: int) -> Tensor:
    """Return distances (B, P)."""
    n_chunks, n_rows, n_ids, width = sizes(vector, candidates, kind)
    out = vector.new_empty(len(vector), n_ids)
    if n_rows == 1:
        tile = min(OWN_CANDIDATES, triton.next_power_of_2(n_ids))
        _own_kernel[n_chunks, triton.cdiv(n_ids, tile)](
            vector, table, candidates, out, n_ids, width, kind=kind, tile=tile, depth=ACROSS
        )
        return out
    grid = (n_chunks * triton.cdiv(n_ids, CANDIDATES), triton.cdiv(n_rows, QUERIES))
    _pool_kernel[grid](
        vector, table, candidates, out, n_rows, n_ids, width,
        kind=kind, tile_b=QUERIES, tile_p=CANDIDATES, depth=DEPTH,
    )  # fmt: skip
    return out


def distance_gradients(
    vector: Tensor, table: Tensor, candidates: Tensor, gradient: Tensor, of_table: Tensor, kind: int
) -> Tensor:
    """Return the gradient of ``vector``, of its shape, and add that of ``table`` to ``of_table`` (E, d)."""
    n_chunks, n_rows, n_ids, width = sizes(vector, candidates, kind)
    of_vector = torch.empty_like(vector)
    columns = triton.cdiv(width, ACROSS)
    if n_rows == 1:
        tile = min(OWN_CANDIDATES, triton.next_power_of_2(n_ids))
        _own_gradient_kernel[n_chunks, columns](
            vector, table, candidates, gradient, of_vector, of_table, n_ids, width, kind=kind, tile=tile, depth=ACROSS
        )
        return of_vector
    for out, n_own in (of_vector, n_rows), (of_table, n_ids):
        _pool_gradient_kernel[n_chunks * triton.cdiv(n_own, OWNED), columns](
            vector, table, candidates, gradient, out, n_rows, n_ids, width,
            kind=kind, of_table=out is of_table, own=OWNED, step=WALKED, depth=ACROSS,
        )  # fmt: skip
    return of_vector
