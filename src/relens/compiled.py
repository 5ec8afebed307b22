"""``njit`` for kernels whose compiled code is kept in a cache on disk, to which several processes may add.

Numba numbers the files of a cache without a lock. Two processes that add code for different types at the same time may
take the same number, and from then on a call with the one types runs the code for the others. Here, one process adds at
a time.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import IndexDataCacheFile

from relens.files import waiting_lock


class _CacheFile(IndexDataCacheFile):
    """The files with the compiled code of one function."""

    def save(self, key: Any, data: Any) -> None:
        """Add code, once no other process adds any to this folder."""
        with waiting_lock(Path(self._cache_path)):
            super().save(key, data)  # type: ignore[no-untyped-call]


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function as ``numba.njit`` does, without the interpreter's lock, and keep the code in the cache."""

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(cache=True, nogil=True, **options)(function)
        cache = getattr(dispatcher, "_cache", None)  # there is none where the JIT is switched off
        if cache is not None:
            cache._cache_file.__class__ = _CacheFile
        return dispatcher

    return compiled
