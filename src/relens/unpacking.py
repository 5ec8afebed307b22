"""How much compressed files may unpack to: a file of a megabyte can ask for a gigabyte.

A file may unpack to ``FREE`` bytes in any case, and to ``RATIO`` times its size up to ``CEILING``. Tables and arrays of
real data stay far below. The environment variable ``RELENS_MAX_UNPACKED`` replaces the limit by a number of bytes.
"""

import os
from pathlib import Path

from relens.errors import InputError

MAX_UNPACKED = "RELENS_MAX_UNPACKED"
FREE, RATIO, CEILING = 2**24, 50, 2**32


def most_unpacked(packed: int, ceiling: int = CEILING, ratio: int = RATIO) -> int:
    """Return the most bytes that a file of ``packed`` bytes may unpack to."""
    chosen = os.environ.get(MAX_UNPACKED)
    if not chosen:
        return min(ceiling, max(FREE, ratio * packed))
    if not (chosen.isascii() and chosen.isdecimal() and len(chosen) < 20):
        raise InputError(f"{MAX_UNPACKED} is {chosen[:50]!r}, expected a number of bytes: correct or unset it")
    return int(chosen)


def check_unpacked(path: Path, size: int, ceiling: int = CEILING, ratio: int = RATIO) -> None:
    """Raise an error if the content of a compressed file has too many bytes, for one of its size."""
    packed = path.stat().st_size
    if size > (most := most_unpacked(packed, ceiling, ratio)):
        raise InputError(
            f"{path} has {packed:,} bytes and unpacks to more than {most:,}, the limit for its size: it is damaged, or "
            f"made to fill the memory. If you know that it is right, set {MAX_UNPACKED}, an environment variable, to "
            f"the number of bytes that it may unpack to."
        )
