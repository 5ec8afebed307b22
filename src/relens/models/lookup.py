"""Rows of tables, products with tables, and where the gradients of tables go.

A table may be far larger than the rows a training step looks up, and each dense gradient on the way would be written
and read once more. So gradients of looked-up rows are added in place where the training step has put one for them.
"""

from typing import Any

import torch
from torch import Tensor

ALIGNED = 8
"""Numbers in a row that cuBLAS' fast kernels ask to be a multiple of."""


def lookup(table: Tensor, ids: Tensor) -> Tensor:
    """Return rows (…, d) of a table (m, d) for ids (…)."""
    rows: Tensor = _Lookup.apply(table, ids.flatten())  # type: ignore[no-untyped-call]
    return rows.view(*ids.shape, *table.shape[1:])


class _Lookup(torch.autograd.Function):
    """Rows of a table; the backward pass touches those rows alone.

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

    Rows of an odd number of scores are not aligned in memory, and cuBLAS then falls back to slow kernels. Padding costs
    a copy.
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
    """Return where a backward pass is to add a table's gradient, and what it is to return for the table.

    For a parameter with a gradient: that gradient, and nothing to return; else zeros, which are to be returned.
    """
    if table.is_leaf and table.grad is not None:
        return table.grad, None
    zeros = torch.zeros_like(table)
    return zeros, zeros
