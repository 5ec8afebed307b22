"""Clusters for tests, which skip what is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from campaigns import clusters
from campaigns.clusters import MODULES, Running


@contextmanager
def start(backend: str, folder: Path, second_imports: Path | None = None) -> Iterator[Running]:
    """Start a cluster; skip the test if the engine is not installed."""
    pytest.importorskip(MODULES[backend], reason=f"needs relens[{backend}]")
    with clusters.start(backend, folder, second_imports) as running:
        yield running
