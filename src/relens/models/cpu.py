"""Distances and dot products on a CPU without gradients: fast, and the same to the last bit in every batch."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

L1, MODULUS, DOT = 0, 1, 2
"""Kinds of comparison: Σ|v − x|; the same over complex rows, real halves, then imaginary halves; Σv·x."""
SMALL = 2**20
"""Pairs of coordinates that one thread compares before another one is worth its start."""


def usable(vector: Tensor) -> bool:
    """Say whether vectors can be compared here: on a CPU, in single precision, and where no gradient is recorded."""
    return vector.device.type == "cpu" and vector.dtype == torch.float32 and not torch.is_grad_enabled()


def compare(kind: int, vector: Tensor, table: Tensor, candidates: Tensor | None) -> Tensor:
    """Compare vectors (B, d) with all rows of a table (E, d), (B, E), or with ``candidates`` (C, P), (B, P)."""
    if candidates is not None:
        chunks = zip(vector.chunk(len(candidates)), candidates, strict=True)
        return torch.cat([compare(kind, part, table[ids], None) for part, ids in chunks])
    from relens.models import cpu_kernels  # needs numba

    out = np.empty((len(vector), len(table)), np.float32)
    work = partial(cpu_kernels.compare, kind, array(vector), array(table), out)
    in_parts(work, len(table), out.size * vector.shape[1])
    return torch.from_numpy(out)


def in_parts(work: Callable[[int, int], None], n: int, cost: int) -> None:
    """Do ``work(begin, end)`` for all of n items, in threads if there is enough to do.

    ``cost`` is the number of coordinates that all of it compares.
    """
    n_parts = min(torch.get_num_threads(), 1 + cost // SMALL, n)
    limits = [n * part // n_parts for part in range(n_parts + 1)]
    if n_parts <= 1:
        work(0, n)
        return
    with ThreadPoolExecutor(n_parts - 1) as pool:
        others = [pool.submit(work, *limits[part : part + 2]) for part in range(1, n_parts)]
        work(*limits[:2])
        for other in others:
            other.result()


def array(values: Tensor) -> "np.ndarray[Any, Any]":
    """Return a tensor without gradients as a contiguous array."""
    array: np.ndarray[Any, Any] = values.detach().contiguous().numpy()
    return array
