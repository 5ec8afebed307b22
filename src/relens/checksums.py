"""Checksums of files of numbers: they tell whether the bytes are still those that were written.

They find accidents, not forgeries. Every change of one aligned word of eight bytes is found for certain, other changes
with a probability of 1 − 2⁻⁶⁴. The kernel reads memory at its full speed.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import uint64

from relens.compiled import njit
from relens.errors import DamagedError, InputError
from relens.files import verifying

LANES = 8
"""Chains that mix at the same time: one alone would wait for each multiplication."""
FACTOR, SHIFT = 0x9E3779B97F4A7C15, 29
"""A step multiplies by the odd factor and folds the upper bits down; both can be undone, so that nothing gets lost."""


def file_checksum(path: Path) -> str:
    """Return the checksum of a file as 16 hexadecimal digits."""
    size = path.stat().st_size
    return _checksum(np.memmap(path, dtype=np.uint8, mode="r") if size else np.empty(0, dtype=np.uint8))


def array_checksum(array: npt.NDArray[Any]) -> str:
    """Return the checksum of the file that ``tofile`` writes for an array."""
    return _checksum(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def verify_file(path: Path, expected: str, remedy: str, error: type[InputError] = DamagedError) -> None:
    """Raise an error if a file is missing, or does not have the expected checksum.

    The file is read at every call: a bit that flips on a disk changes neither size nor time of the file.

    Args:
        path: the file.
        expected: its checksum.
        remedy: how to make it again, as a sentence.
        error: the error to raise.
    """
    if not verifying():
        return
    try:
        found = file_checksum(path)
    except OSError as problem:
        raise error(f"{path} cannot be read: {problem.strerror or problem}. {remedy}") from problem
    if found != expected:
        raise error(f"{path} is damaged: its checksum is {found}, expected {expected}. {remedy}")


def _checksum(content: npt.NDArray[np.uint8]) -> str:
    """Return the checksum of bytes (n,)."""
    size = len(content)
    whole = size - size % (8 * LANES)
    rest = content[whole:].tobytes().ljust(8 * LANES, b"\0")
    lanes = np.arange(1, LANES + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        lanes = _mixed(lanes, content[:whole].view("<u8").reshape(-1, LANES))
        lanes = _mixed(lanes, np.frombuffer(rest, dtype="<u8").reshape(1, LANES))
        total = _mixed(np.array([size], dtype=np.uint64), lanes.reshape(LANES, 1))
    return f"{int(total[0]):016x}"


@njit()
def _mixed(lanes: npt.NDArray[np.uint64], rows: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return lanes (L,) after mixing in rows of words (n, L)."""
    mixed = lanes.copy()
    for row in range(rows.shape[0]):
        for lane in range(rows.shape[1]):
            value = (mixed[lane] ^ rows[row, lane]) * uint64(FACTOR)
            mixed[lane] = value ^ (value >> uint64(SHIFT))
    return mixed
