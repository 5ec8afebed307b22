"""The Triton kernels behind ``relens.models.fused``; imported only on machines that run them.

Triton lays the last axis of a tile across the threads and keeps the first ones in each thread's registers. Tiles are
therefore shaped so that what is summed over comes first: sums then need no exchange between threads.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from relens.models.fused import Trilinear

# Queries × candidates × coordinates per program and step, found by counting the compiler's instructions per
# coordinate: larger tiles spill registers, smaller ones load more than they compute.
QUERIES, CANDIDATES, DEPTH = 16, 64, 8
# Gradients: rows a program owns, rows it walks along at a time, and coordinates across its threads.
OWNED, WALKED, ACROSS = 16, 8, 128
# Queries with candidates of their own: candidates at a time.
OWN_CANDIDATES = 16
# Candidates per program, projected by tensor cores.
PROJECTED = 64
# Sizes of blocks whose matrix fits into a thread's registers, and threads that work in step.
SMALL, WARP = (2, 4, 8), 32
# Edges at a time, across their coordinates.
EDGES = 8

TINY = tl.constexpr(1e-37)
"""Squared distances from here on have a gradient; that of zero is zero."""


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


@triton.jit
def _block_kernel(
    vector, matrices, group, table, ids, out, n_rows, n_ids, n_blocks,
    size: tl.constexpr, padded: tl.constexpr, tile: tl.constexpr, precision: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1) * tile + tl.arange(0, tile)
    p_in = p < n_ids
    k = tl.arange(0, padded)
    width = n_blocks * size
    rows = tl.load(ids + b // n_rows * n_ids + p, mask=p_in, other=0).to(tl.int64)
    x_at = table + rows[:, None] * width + k[None, :]
    m_at = matrices + tl.load(group + b) * n_blocks * size * size + k[None, :] * size + k[:, None]  # transposed
    x_in, m_in = p_in[:, None] & (k < size)[None, :], (k < size)[None, :] & (k < size)[:, None]
    sums = tl.zeros((tile,), dtype=vector.dtype.element_ty)
    for i in range(n_blocks):
        x = tl.load(x_at + i * size, mask=x_in, other=0.0)
        m = tl.load(m_at + i * size * size, mask=m_in, other=0.0)
        v = tl.load(vector + b * width + i * size + k, mask=k < size, other=0.0)
        difference = v[None, :] - tl.dot(x, m, input_precision=precision, out_dtype=x.dtype)
        sums += tl.sqrt(tl.sum(difference * difference, axis=1))
    tl.store(out + b * n_ids + p, sums, mask=p_in)


@triton.jit
def _block_gradient_kernel(
    vector, matrices, group, table, ids, gradient, of_vector, of_matrices, of_table, n_rows, n_ids, n_blocks,
    size: tl.constexpr, padded: tl.constexpr, tile: tl.constexpr, precision: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1) * tile + tl.arange(0, tile)
    p_in = p < n_ids
    k = tl.arange(0, padded)
    width = n_blocks * size
    rows = tl.load(ids + b // n_rows * n_ids + p, mask=p_in, other=0).to(tl.int64)
    g = tl.load(gradient + b * n_ids + p, mask=p_in, other=0.0)
    x_at = rows[:, None] * width + k[None, :]
    m_at = tl.load(group + b) * n_blocks * size * size + k[None, :] * size + k[:, None]  # transposed
    x_in, m_in = p_in[:, None] & (k < size)[None, :], (k < size)[None, :] & (k < size)[:, None]
    for i in range(n_blocks):
        x = tl.load(table + x_at + i * size, mask=x_in, other=0.0)
        m = tl.load(matrices + m_at + i * size * size, mask=m_in, other=0.0)
        v = tl.load(vector + b * width + i * size + k, mask=k < size, other=0.0)
        difference = v[None, :] - tl.dot(x, m, input_precision=precision, out_dtype=x.dtype)
        square = tl.sum(difference * difference, axis=1)
        unit = difference * (g * tl.rsqrt(tl.maximum(square, TINY)))[:, None]
        tl.atomic_add(of_vector + b * width + i * size + k, tl.sum(unit, axis=0), mask=k < size, sem="relaxed")
        of_x = tl.dot(unit, tl.trans(m), input_precision=precision, out_dtype=x.dtype)
        tl.atomic_add(of_table + x_at + i * size, -of_x, mask=x_in, sem="relaxed")
        of_m = tl.dot(tl.trans(x), unit, input_precision=precision, out_dtype=x.dtype)
        tl.atomic_add(of_matrices + m_at + i * size * size, -of_m, mask=m_in, sem="relaxed")


@triton.jit
def _small_block_kernel(
    vector, matrices, group, table, ids, out, n_rows, n_ids, n_blocks,
    size: tl.constexpr, lanes: tl.constexpr,
):  # fmt: skip
    # Small blocks: a thread owns a block, keeps its matrix in registers, and meets one candidate after the other.
    b = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * lanes + tl.arange(0, lanes)
    k = tl.arange(0, size)
    i_in = i < n_blocks
    width = n_blocks * size
    at = i[None, :] * size + k[:, None]
    m_at = (i[None, None, :] * size + k[None, :, None]) * size + k[:, None, None]  # transposed
    m_at += tl.load(group + b) * n_blocks * size * size
    m = tl.load(matrices + m_at, mask=i_in[None, None, :], other=0.0)
    v = tl.load(vector + b * width + at, mask=i_in[None, :], other=0.0)
    ids += b // n_rows * n_ids
    for start in range(n_ids):
        p = start + tl.arange(0, 1)  # an axis of one: without it the compiler spreads a block over several threads
        x_at = tl.load(ids + p)[None, :, None] * width + at[:, None, :]
        x = tl.load(table + x_at, mask=i_in[None, None, :], other=0.0)
        difference = v[:, None, :] - tl.sum(m[:, :, None, :] * x[:, None, :, :], axis=0)
        distance = tl.sum(tl.sqrt(tl.sum(difference * difference, axis=0)), axis=1)
        tl.atomic_add(out + b * n_ids + p, distance, sem="relaxed")


@triton.jit
def _small_block_gradient_kernel(
    vector, matrices, group, table, ids, gradient, of_vector, of_matrices, of_table, n_rows, n_ids, n_blocks,
    size: tl.constexpr, lanes: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * lanes + tl.arange(0, lanes)
    k = tl.arange(0, size)
    i_in = i < n_blocks
    width = n_blocks * size
    at = i[None, :] * size + k[:, None]
    m_at = (i[None, None, :] * size + k[None, :, None]) * size + k[:, None, None]  # transposed
    m_at += tl.load(group + b) * n_blocks * size * size
    m = tl.load(matrices + m_at, mask=i_in[None, None, :], other=0.0)
    v = tl.load(vector + b * width + at, mask=i_in[None, :], other=0.0)
    ids += b // n_rows * n_ids
    of_v = tl.zeros((size, lanes), dtype=vector.dtype.element_ty)
    of_m = tl.zeros((size, size, lanes), dtype=vector.dtype.element_ty)
    for start in range(n_ids):
        p = start + tl.arange(0, 1)
        x_at = tl.load(ids + p)[None, :, None] * width + at[:, None, :]
        x = tl.load(table + x_at, mask=i_in[None, None, :], other=0.0)
        difference = v[:, None, :] - tl.sum(m[:, :, None, :] * x[:, None, :, :], axis=0)
        square = tl.sum(difference * difference, axis=0)
        g = tl.load(gradient + b * n_ids + p)[:, None]
        unit = difference * (g * tl.rsqrt(tl.maximum(square, TINY)))[None, :, :]
        of_v += tl.sum(unit, axis=1)
        of_m += tl.sum(x[:, None, :, :] * unit[None, :, :, :], axis=2)
        of_x = tl.sum(m[:, :, None, :] * unit[None, :, :, :], axis=1)
        tl.atomic_add(of_table + x_at, -of_x, mask=i_in[None, None, :], sem="relaxed")
    tl.store(of_vector + b * width + at, of_v, mask=i_in[None, :])
    tl.atomic_add(of_matrices + m_at, -of_m, mask=i_in[None, None, :], sem="relaxed")


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


def _sizes(vector: Tensor, candidates: Tensor, kind: int) -> tuple[int, int, int, int]:
    """Return chunks, rows per chunk, candidates per chunk, and coordinates (rows of two halves have both for each)."""
    n_chunks, n_ids = candidates.shape
    return n_chunks, len(vector) // n_chunks, n_ids, vector.shape[1] // (2 if kind else 1)


def distance(vector: Tensor, table: Tensor, candidates: Tensor, kind: int) -> Tensor:
    """Return distances (B, P)."""
    n_chunks, n_rows, n_ids, width = _sizes(vector, candidates, kind)
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
    n_chunks, n_rows, n_ids, width = _sizes(vector, candidates, kind)
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


def _precision(vector: Tensor) -> str:
    """Return how tensor cores multiply float32: rounded where PyTorch's own products may be, else in three parts."""
    if vector.dtype == torch.float64:
        return "ieee"
    return "tf32x3" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def block_distance(vector: Tensor, matrices: Tensor, group: Tensor, table: Tensor, candidates: Tensor) -> Tensor:
    """Return Σᵢ ‖vᵢ − Mᵢ·xᵢ‖, (B, P)."""
    _, n_rows, n_ids, _ = _sizes(vector, candidates, 0)
    n_blocks, size = matrices.shape[1:3]
    out = vector.new_zeros(len(vector), n_ids)
    arguments = vector, matrices, group, table, candidates, out, n_rows, n_ids, n_blocks
    if size in SMALL:
        _small_block_kernel[len(vector), triton.cdiv(n_blocks, WARP)](*arguments, size=size, lanes=WARP, num_warps=1)
    else:
        _block_kernel[len(vector), triton.cdiv(n_ids, PROJECTED)](*arguments, **_tensor_cores(vector, size))
    return out


def block_gradients(
    vector: Tensor,
    matrices: Tensor,
    group: Tensor,
    table: Tensor,
    candidates: Tensor,
    gradient: Tensor,
    of_table: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of ``vector`` and ``matrices``, and add that of ``table`` to ``of_table`` (E, d)."""
    _, n_rows, n_ids, _ = _sizes(vector, candidates, 0)
    n_blocks, size = matrices.shape[1:3]
    of_vector, of_matrices = torch.zeros_like(vector), torch.zeros_like(matrices)
    inputs = vector, matrices, group, table, candidates, gradient
    arguments = *inputs, of_vector, of_matrices, of_table, n_rows, n_ids, n_blocks
    if size in SMALL:
        grid = len(vector), triton.cdiv(n_blocks, WARP)
        _small_block_gradient_kernel[grid](*arguments, size=size, lanes=WARP, num_warps=1)
    else:
        grid = len(vector), triton.cdiv(n_ids, PROJECTED)
        _block_gradient_kernel[grid](*arguments, **_tensor_cores(vector, size))
    return of_vector, of_matrices


def _tensor_cores(vector: Tensor, size: int) -> dict[str, Any]:
    """Return the constants of kernels that multiply blocks on tensor cores, which take sides of at least 16."""
    return {
        "size": size,
        "padded": max(16, triton.next_power_of_2(size)),
        "tile": PROJECTED,
        "precision": _precision(vector),
    }


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
