"""Read kernels: how fast the machine can look at some bytes once, with a number of threads. The yardstick."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Words = npt.NDArray[np.uint64]
COPY_BYTES = 2**22


def words_of(array: npt.NDArray[Any]) -> Words:
    """ContestedView a contiguous array as 64-bit words, up to seven bytes at the end left out."""
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


def file_readers(files: Sequence[Path], jobs: int) -> dict[str, Callable[[], None]]:
    """Return functions that read all files once, one per way of reading, each file cut into one run per thread."""

    def mapped(kernel: Callable[[Words], Any]) -> None:
        # Mapped anew each time, as by anyone who comes to the files.
        reader(kernel, [words_of(np.load(file, mmap_mode="r")) for file in files], jobs)()

    def copy(part: int) -> None:
        buffer = bytearray(COPY_BYTES)
        for file in files:
            size = file.stat().st_size
            at, last = size * part // jobs, size * (part + 1) // jobs
            with file.open("rb", buffering=0) as opened:
                while at < last:
                    at += os.preadv(opened.fileno(), [memoryview(buffer)[: last - at]], at)

    def copied() -> None:
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(copy, range(jobs)))

    ways = {f"mapped, {name}": lambda kernel=kernel: mapped(kernel) for name, kernel in KERNELS.items()}
    return {**ways, "copied to a buffer": copied}
