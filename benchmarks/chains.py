"""Triton kernels that keep one unit of a GPU busy and nothing else; imported only where they run."""

import torch
import triton
import triton.language as tl
from torch import Tensor

MULTIPLY_ADDS, ROOTS = 0, 1
BLOCK = 1024
UNROLLED = 16
"""Operations between two jumps, so that the loop itself costs next to nothing."""


@triton.jit
def _chain(source, out, rounds, kind: tl.constexpr, unrolled: tl.constexpr, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(source + at)
    for _ in range(rounds):
        for _ in tl.static_range(unrolled):
            # Both have a fixed point near 1: a chain as long as one likes overflows nothing.
            x = x * 0.5 + 0.5 if kind == 0 else tl.rsqrt(x)
    tl.store(out + at, x)


def chain(source: Tensor, out: Tensor, rounds: int, kind: int) -> int:
    """Apply one operation over and over to every number of ``source`` (n,), n a multiple of ``BLOCK``.

    Returns:
        the number of operations.
    """
    _chain[(source.numel() // BLOCK,)](source, out, rounds, kind=kind, unrolled=UNROLLED, block=BLOCK)
    return source.numel() * rounds * UNROLLED


def buffers(device: torch.device, blocks: int) -> tuple[Tensor, Tensor]:
    """Return random numbers from 1 to 2 and a place for results, (blocks · BLOCK,) each."""
    source = 1 + torch.rand(blocks * BLOCK, device=device)
    return source, torch.empty_like(source)
