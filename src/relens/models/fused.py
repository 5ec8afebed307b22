"""Fused distance kernels for CUDA, in Triton: forward and backward read vectors and rows, and write only results."""

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

L1, MODULUS = 0, 1


def usable(vector: Tensor) -> bool:
    """Say whether the kernels can run where ``vector`` is."""
    return vector.is_cuda and vector.dtype in (torch.float32, torch.float64) and _has_triton()


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def distance(vector: Tensor, table: Tensor, candidates: Tensor | None, kind: int) -> Tensor:
    """Return distances (B, E) or (B, P); see ``relens.models.distance``."""
    if candidates is None:
        candidates = torch.arange(len(table), device=table.device).unsqueeze(0)
    inputs = (vector.contiguous(), table.contiguous(), candidates.contiguous())
    result: Tensor = _Distance.apply(*inputs, kind)  # type: ignore[no-untyped-call]
    return result


class _Distance(torch.autograd.Function):
    """Distances with a backward pass that recomputes signs (or unit phasors) instead of storing them."""

    @staticmethod
    def forward(ctx: Any, vector: Tensor, table: Tensor, candidates: Tensor, kind: int) -> Tensor:
        from relens.models import kernels  # needs triton, which only CUDA machines have

        ctx.save_for_backward(vector, table, candidates)
        ctx.kind = kind
        return kernels.forward(vector, table, candidates, kind)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        from relens.models import kernels

        vector, table, candidates = ctx.saved_tensors
        of_vector, of_table = kernels.backward(vector, table, candidates, gradients[0].contiguous(), ctx.kind)
        return of_vector, of_table, None, None
