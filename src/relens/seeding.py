"""Random generators: one root seed, and independent generators addressed by name."""

from zlib import crc32

import numpy as np


def generator(seed: int, *address: str | int) -> np.random.Generator:
    """Return the generator of ``address`` under ``seed``; it does not depend on the worker or on earlier calls.

    ``generator(0, "search", "tpe", 17)`` and ``generator(0, "search", "tpe", 18)`` are independent.
    """
    words = [part if isinstance(part, int) else crc32(part.encode()) for part in address]
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=words))
