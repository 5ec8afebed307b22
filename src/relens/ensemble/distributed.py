"""Searching groups on other machines: the items of the work are groups, the results are weights."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from relens.clusters.remote import Journal, Remote, Work
from relens.ensemble.context import QueryIndex, SearchContext, SearchResult
from relens.ensemble.grid import WEIGHT_LIMIT
from relens.packs.pack import PackedRanks

PartSearch = Callable[[PackedRanks, Sequence[QueryIndex], Sequence[int], Any], list[SearchResult]]
"""Searches groups with the given query positions and numbers in the whole search, by settings of plain values."""

COST_OF_A_GROUP = 1000.0
"""Cost of a search besides its contested candidates, in candidates."""


class ResultCodec:
    """Search results as lines of a journal."""

    def encode(self, result: SearchResult) -> dict[str, Any]:
        """Return a result as plain JSON values."""
        return {"weights": result.weights.tolist(), "value": result.value, "trace": result.trace.tolist()}

    def decode(self, entry: dict[str, Any]) -> SearchResult:
        """Rebuild a result from ``encode``'s values."""
        weights, value, trace = entry["weights"], entry["value"], entry["trace"]
        if not all(type(weight) is int and 0 <= weight <= WEIGHT_LIMIT for weight in weights) or not any(weights):
            raise ValueError(f"found weights {weights}, expected whole numbers from 0 to {WEIGHT_LIMIT}, not all 0")
        if not isinstance(value, int | float):
            raise TypeError(f"found the value {value!r}, expected a number")
        return SearchResult(np.array(weights, dtype=np.int64), value, np.array(trace, dtype=np.float64).reshape(-1, 3))

    def arrived(self, result: SearchResult, seconds: float) -> SearchResult:
        """Shift the trace so that it ends when the result arrived."""
        trace = result.trace.copy()
        trace[:, 0] += seconds - trace[-1, 0]
        return replace(result, trace=trace)


class SearchJournal(Journal[SearchResult]):
    """A file that keeps the result of each group, so that an interrupted search resumes."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, ResultCodec())


def search_remotely(
    remote: Remote[SearchResult],
    context: SearchContext,
    function: PartSearch,
    members: Sequence[QueryIndex],
    settings: Any,
    *,
    description: str,
) -> list[SearchResult]:
    """Search groups on a cluster; ``settings`` must be plain values, and are part of the identity of the search."""
    offsets = context.packed.offsets
    costs = [float((offsets[queries + 1] - offsets[queries]).sum()) + COST_OF_A_GROUP for queries in members]
    work = Work(
        _search_part, context.packed, members, (function, settings), _identity(members, settings), costs, description
    )
    return remote.run(work, context.progress)


def _search_part(
    packed: PackedRanks, members: Sequence[QueryIndex], numbers: Sequence[int], settings: tuple[PartSearch, Any]
) -> list[SearchResult]:
    """Search some groups on a worker, on the ranks of their queries alone."""
    function, plain = settings
    counts = [len(queries) for queries in members]
    chosen = packed.select_queries(np.concatenate(members))
    return function(chosen, np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1]), numbers, plain)


def _identity(members: Sequence[QueryIndex], settings: Any) -> str:
    """Return a digest of the queries of each group and the settings."""
    parts = sha256(repr(settings).encode())
    for queries in members:
        parts.update(len(queries).to_bytes(8, "little"))
        parts.update(np.ascontiguousarray(queries, dtype="<i8").data)
    return parts.hexdigest()
