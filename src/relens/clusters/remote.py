"""Searching groups on other machines: parts of about equal work go out, and what comes back is kept at once.

A killed worker costs the parts it had, which others do again; a killed driver those in flight, as the same search
goes on from its journal.
"""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from relens import __version__
from relens.clusters.engines import Cluster
from relens.ensemble.parallel import BATCHES_PER_JOB, batches
from relens.ensemble.results import QueryIndex, SearchResult
from relens.errors import InputError, RanksError
from relens.packs.pack import PackedRanks
from relens.packs.store import load_pack
from relens.progress import SILENT, Progress


class SearchPart(Protocol):
    """A function that searches some groups of packed ranks."""

    def __call__(
        self, packed: PackedRanks, members: Sequence[QueryIndex], numbers: Sequence[int], settings: Any
    ) -> list[SearchResult]:
        """Search groups with the query positions ``members``, numbered ``numbers`` in the whole search."""
        ...


class Part(NamedTuple):
    """What a worker is asked: which groups to search, by which function, with which settings; and by which relens."""

    function: SearchPart
    members: list[QueryIndex]
    numbers: list[int]
    settings: Any
    version: str = __version__


@dataclass(frozen=True)
class Source:
    """Packed ranks as workers get them: the folder on storage they share, or the ranks themselves."""

    digest: str
    path: Path | None = None
    packed: PackedRanks | None = None

    def open(self) -> PackedRanks:
        """Return the ranks; a folder that is not here or holds others is refused."""
        if self.packed is not None:
            return self.packed
        assert self.path is not None
        found = load_pack(self.path)
        if found.digest != self.digest:
            raise RanksError(f"{self.path} holds other ranks on a worker than here: is it the same storage?")
        return found


class SearchJournal:
    """A file that keeps what was found for each group, a line each; a line that a kill cut off is left out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._found: dict[tuple[str, int], SearchResult] = {}
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for number, line in enumerate(text.splitlines(keepends=True), 1):
            if line.endswith("\n"):
                self._read(line, number)
        if text and not text.endswith("\n"):
            os.truncate(path, len(text[: text.rfind("\n") + 1].encode()))

    def _read(self, line: str, number: int) -> None:
        try:
            entry = json.loads(line)
            weights = np.array(entry["weights"], dtype=np.int64)
            trace = np.array(entry["trace"], dtype=np.float64).reshape(-1, 3)
            self._found[entry["search"], entry["group"]] = SearchResult(weights, entry["value"], trace)
        except (ValueError, KeyError, TypeError) as error:
            raise RanksError(
                f"{self.path}, line {number}: expected what a search found for a group "
                f"({type(error).__name__}: {error}). Remove the file to search from the beginning."
            ) from error

    def get(self, search: str, group: int) -> SearchResult | None:
        """Return what was found for a group of a search."""
        return self._found.get((search, group))

    def add(self, search: str, found: dict[int, SearchResult]) -> None:
        """Keep what was found for some groups."""
        self._found |= {(search, group): result for group, result in found.items()}
        lines = [
            {"search": search, "group": group, "weights": result.weights.tolist(), "value": result.value,
             "trace": result.trace.tolist()}
            for group, result in found.items()
        ]  # fmt: skip
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())

    def remove(self) -> None:
        """Remove the file: the search is complete."""
        self.path.unlink(missing_ok=True)


class Remote:
    """A cluster that searches groups, and the journal of what it found."""

    def __init__(self, cluster: Cluster, journal: SearchJournal) -> None:
        self.cluster, self.journal = cluster, journal
        self._sources: dict[str, Any] = {}

    def search(
        self,
        function: SearchPart,
        packed: PackedRanks,
        members: Sequence[QueryIndex],
        settings: Any,
        *,
        progress: Progress = SILENT,
        description: str = "searching weights",
    ) -> list[SearchResult]:
        """Return what ``function`` finds for each group, as one process would; ``settings`` must be plain values."""
        begun, key = monotonic(), _key(packed, members, settings)
        costs = [float((packed.offsets[queries + 1] - packed.offsets[queries]).sum()) + 1000.0 for queries in members]
        found = {at: kept for at in range(len(members)) if (kept := self.journal.get(key, at)) is not None}
        open_ = [at for at in range(len(members)) if at not in found]
        with progress.task(description, sum(costs)) as advance:
            advance(sum(costs[at] for at in found))
            for part, results in self._run(function, packed, members, settings, open_, costs):
                late = {at: _shifted(result, monotonic() - begun) for at, result in zip(part, results, strict=True)}
                self.journal.add(key, late)
                found |= late
                advance(sum(costs[at] for at in part))
        return [found[at] for at in range(len(members))]

    def _run(
        self,
        function: SearchPart,
        packed: PackedRanks,
        members: Sequence[QueryIndex],
        settings: Any,
        groups: list[int],
        costs: list[float],
    ) -> Iterator[tuple[list[int], list[SearchResult]]]:
        """Yield parts, lists of group numbers, and what was found for them, as they come."""
        if not groups:
            return
        of_groups = [costs[at] for at in groups]
        size = sum(of_groups) / (BATCHES_PER_JOB * self.cluster.n_workers)
        parts = [[groups[at] for at in batch] for batch in batches(of_groups, size)]
        tasks = [Part(function, [members[at] for at in part], part, settings) for part in parts]
        for at, results in self.cluster.run(_search_part, self._source(packed), tasks):
            yield parts[at], results

    def _source(self, packed: PackedRanks) -> Any:
        """Return a reference to the ranks: a path where every worker can read them there, or a copy for each worker."""
        digest = packed.digest
        if digest not in self._sources:
            on_storage = None if packed.source is None else Source(digest, path=packed.source.resolve())
            if on_storage and all(ok is True for ok in self.cluster.everywhere(_readable, on_storage)):
                self._sources[digest] = on_storage
            else:
                self._sources[digest] = self.cluster.share(Source(digest, packed=replace(packed, source=None)))
        return self._sources[digest]


def _search_part(source: Source, part: Part) -> list[SearchResult]:
    """Search the groups of a part, on a worker; one that came later than the check of versions may have another."""
    if part.version != __version__:
        raise InputError(
            f"a worker has relens {__version__}, the search began with {part.version}: results could differ. Install "
            f"the same version everywhere."
        )
    counts = [len(queries) for queries in part.members]
    packed = source.open().select_queries(np.concatenate(part.members))
    members = np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])
    return part.function(packed, members, part.numbers, part.settings)


def _readable(source: Source) -> bool:
    try:
        source.open()
    except RanksError:
        return False
    return True


def _shifted(found: SearchResult, seconds: float) -> SearchResult:
    """Return what was found with a trace that ends now: a worker's clock began with its part."""
    trace: npt.NDArray[np.float64] = found.trace.copy()
    trace[:, 0] += seconds - trace[-1, 0]
    return replace(found, trace=trace)


def _key(packed: PackedRanks, members: Sequence[QueryIndex], settings: Any) -> str:
    """Return the identity of a search: the ranks, queries of each group, how they are searched, and by which relens."""
    parts = sha256(f"{__version__} {packed.digest} {settings!r}".encode())
    for queries in members:
        parts.update(len(queries).to_bytes(8, "little"))
        parts.update(np.ascontiguousarray(queries, dtype="<i8").data)
    return parts.hexdigest()[:16]
