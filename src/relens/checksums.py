"""Checksums of files of numbers: they tell whether the bytes are still those that were written.

They find accidents, not forgeries. Every change of one aligned word of eight bytes is found for certain, other changes
with a probability of 1 − 2⁻⁶⁴. The kernel reads memory at its full speed.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
from numba import njit, uint64

from relens.errors import InputError
from relens.files import verifying

LANES = 8
"""Chains that mix at the same time: one alone would wait for each multiplication."""
FACTOR, SHIFT = 0x9E3779B97F4A7C15, 29
"""A step multiplies by the odd factor and folds the upper bits down; both can be undone, so that nothing gets lost."""

_verified: set[tuple[str, int, int, str]] = set()
"""Path, size, time of change and checksum of the files that this process has verified."""


def file_checksum(path: Path) -> str:
    """Return the checksum of a file as 16 hexadecimal digits."""
    size = path.stat().st_size
    whole = size // (8 * LANES)
    lanes = np.arange(1, LANES + 1, dtype=np.uint64)
    with np.errstate(over="ignore"), path.open("rb") as file:
        if whole:
            lanes = _mixed(lanes, np.memmap(file, dtype="<u8", mode="r", shape=(whole, LANES)))
        file.seek(whole * 8 * LANES)
        rest = file.read().ljust(8 * LANES, b"\0")
        lanes = _mixed(lanes, np.frombuffer(rest, dtype="<u8").reshape(1, LANES))
        total = _mixed(np.array([size], dtype=np.uint64), lanes.reshape(LANES, 1))
    return f"{int(total[0]):016x}"


def verify_file(path: Path, expected: str, remedy: str, error: type[InputError] = InputError) -> None:
    """Raise an error if a file does not have the expected checksum; ``remedy`` says how to make the file again.

    A file that does not change is read once by each process.
    """
    if not verifying():
        return
    state = path.stat()
    key = (str(path.resolve()), state.st_size, state.st_mtime_ns, expected)
    if key in _verified:
        return
    found = file_checksum(path)
    if found != expected:
        raise error(f"{path} is damaged: its checksum is {found}, expected {expected}. {remedy}")
    _verified.add(key)


@njit(cache=True, nogil=True)
def _mixed(lanes: npt.NDArray[np.uint64], rows: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return lanes (L,) after mixing in rows of words (n, L)."""
    mixed = lanes.copy()
    for row in range(rows.shape[0]):
        for lane in range(rows.shape[1]):
            value = (mixed[lane] ^ rows[row, lane]) * uint64(FACTOR)
            mixed[lane] = value ^ (value >> uint64(SHIFT))
    return mixed
