"""Compiled code in a cache that several processes add to."""

import ast
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

import relens
from relens.compiled import _CacheFile, njit

SOURCES = Path(relens.__file__).parent
WRITERS = 8


def test_code_that_is_added_at_the_same_time_is_not_mixed_up(tmp_path):
    """A lock belongs to an open file, so threads wait for each other as processes do."""
    barrier = Barrier(WRITERS)

    def add(key: int) -> None:
        file = _CacheFile(str(tmp_path), "kernel", source_stamp=1)
        barrier.wait()
        file.save(key, f"code for {key}")

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(add, range(WRITERS)))
    file = _CacheFile(str(tmp_path), "kernel", source_stamp=1)
    assert [file.load(key) for key in range(WRITERS)] == [f"code for {key}" for key in range(WRITERS)]


@pytest.mark.kernels
def test_a_kernel_keeps_its_code_so():
    @njit()
    def double(number: int) -> int:
        return 2 * number

    assert double(3) == 6
    cache = getattr(double, "_cache", None)
    assert cache is None or type(cache._cache_file) is _CacheFile


@pytest.mark.parametrize("source", sorted(SOURCES.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCES)))
def test_no_other_module_compiles(source):
    if source == SOURCES / "compiled.py":
        return
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "numba":
            assert {name.name for name in node.names}.isdisjoint({"njit", "jit", "vectorize", "guvectorize"})
