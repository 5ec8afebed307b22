"""Read kernels: how fast the machine can look at some bytes once, with a number of threads. The yardstick."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Words = npt.NDArray[np.uint64]


def words_of(array: npt.NDArray[Any]) -> Words:
    """View a contiguous array as 64-bit words, up to seven bytes at the end left out."""
    flat = array.reshape(-1).view(np.uint8)
    return flat[: len(flat) // 8 * 8].view(np.uint64)


@njit(cache=True, nogil=True)
def _sum(words):  # type: ignore[no-untyped-def]
    """Sum in a plain loop, of which the compiler makes several vectors of accumulators."""
    total = np.uint64(0)
    for k in range(len(words)):
        total += words[k]
    return total


KERNELS: dict[str, Callable[[Words], Any]] = {
    "numpy sum": np.sum,
    "numpy max": np.max,
    "compiled sum": _sum,
}


def reader(kernel: Callable[[Words], Any], arrays: list[Words], jobs: int) -> Callable[[], None]:
    """Return a function that reads all arrays once, each cut into one run of words per thread."""
    parts = [[array[len(array) * j // jobs : len(array) * (j + 1) // jobs] for array in arrays] for j in range(jobs)]

    def read(part: list[Words]) -> None:
        for words in part:
            if len(words):
                kernel(words)

    def read_all() -> None:
        if jobs == 1:
            read(parts[0])
            return
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(read, parts))

    return read_all
