"""Triton kernels of distances to candidates that are projected block by block; imported only on machines that run them.

Triton lays the last axis of a tile across the threads and keeps the first ones in each thread's registers. Tiles are
therefore shaped so that summed axes come first: sums then need no exchange between threads.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from relens.models.fused.distance_kernels import TINY, sizes

# Candidates per program, projected by tensor cores.
PROJECTED = 64
# Sizes of blocks whose matrix fits into a thread's registers, and threads that work in step.
SMALL, WARP = (2, 4, 8), 32


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


def _precision(vector: Tensor) -> str:
    """Return how tensor cores multiply float32: rounded where PyTorch's own products may be, else in three parts."""
    if vector.dtype == torch.float64:
        return "ieee"
    return "tf32x3" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def block_distance(vector: Tensor, matrices: Tensor, group: Tensor, table: Tensor, candidates: Tensor) -> Tensor:
    """Return Σᵢ ‖vᵢ − Mᵢ·xᵢ‖, (B, P)."""
    _, n_rows, n_ids, _ = sizes(vector, candidates, 0)
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
    _, n_rows, n_ids, _ = sizes(vector, candidates, 0)
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
