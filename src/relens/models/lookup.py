"""Rows of tables, products with tables, and the gradients of tables.

A table may be far larger than the rows that a training step looks up, and each intermediate dense gradient would be
written and read once more. The training step therefore creates the table's gradient, and backward passes add to it.
"""

from typing import Any

import torch
from torch import Tensor

ALIGNED = 8
"""The fast kernels of cuBLAS need rows whose length is a multiple of this."""


def lookup(table: Tensor, ids: Tensor) -> Tensor:
    """Return rows (…, d) of a table (m, d) for ids (…)."""
    rows: Tensor = _Lookup.apply(table, ids.flatten())  # type: ignore[no-untyped-call]
    return rows.view(*ids.shape, *table.shape[1:])


class _Lookup(torch.autograd.Function):
    """Rows of a table; the backward pass touches only those rows.

    PyTorch's own indexing adds gradients of equal ids one after the other: slow where many queries share a relation.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.table = table
        return table.index_select(0, ids)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, None]:
        total, returned = gradient_of(ctx.table)
        total.index_add_(0, ctx.saved_tensors[0], gradients[0])
        return returned, None


def all_dots(vector: Tensor, table: Tensor) -> Tensor:
    """Return the dot products of vectors (B, d) with all rows of a table (m, d), (B, m)."""
    dots: Tensor = _AllDots.apply(vector, table)  # type: ignore[no-untyped-call]
    return dots


class _AllDots(torch.autograd.Function):
    """Products with a table, padded to a multiple of ``ALIGNED`` rows on CUDA.

    Rows of scores with an odd length are not aligned in memory, and cuBLAS falls back to slow kernels. Padding costs a
    copy.
    """

    @staticmethod
    def forward(ctx: Any, vector: Tensor, table: Tensor) -> Tensor:
        padded = _padded(table, dim=0)
        ctx.save_for_backward(vector, padded)
        ctx.table = table
        return (vector @ padded.T)[:, : len(table)]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None]:
        vector, padded = ctx.saved_tensors
        gradient = _padded(gradients[0], dim=1)
        total, returned = gradient_of(ctx.table)
        total.addmm_(gradient.T[: len(total)], vector)
        return gradient @ padded, returned


def _padded(rows: Tensor, dim: int) -> Tensor:
    """Return ``rows`` with zeros added along a dimension of two, on CUDA."""
    missing = -rows.shape[dim] % ALIGNED if rows.is_cuda else 0
    return torch.nn.functional.pad(rows, (0, missing) if dim else (0, 0, 0, missing)) if missing else rows


def gradient_of(table: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the tensor to which a backward pass adds a table's gradient, and the gradient that it then returns.

    For a parameter that has a gradient: that gradient, and None. Otherwise: zeros, twice.
    """
    if table.is_leaf and table.grad is not None:
        return table.grad, None
    zeros = torch.zeros_like(table)
    return zeros, zeros
