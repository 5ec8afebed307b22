"""Run a function over items of work on other machines, and keep every result at once.

Parts of about equal cost go out to the workers. If a worker is lost, other workers repeat its parts. If the driver is
lost, only the parts in flight are lost: the same work resumes from its journal.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from relens import __version__
from relens.clusters.engines import Cluster
from relens.clusters.parallel import BATCHES_PER_JOB, batches
from relens.errors import InputError, RanksError
from relens.files import json_line, parse_json_line
from relens.packs.pack import PackedRanks
from relens.packs.store import load_pack
from relens.progress import SILENT, Progress

R = TypeVar("R")
PartFunction = Callable[[PackedRanks, Sequence[Any], Sequence[int], Any], list[R]]
"""Takes packed ranks, some items, their numbers in the whole work, and settings; returns a result for each item."""


@dataclass(frozen=True)
class Work(Generic[R]):
    """A function to run over items, and the packed ranks it reads.

    Attributes:
        function: what to run; workers import it by name.
        packed: the packed ranks.
        items: one per result; they must pickle.
        settings: plain values that the function needs.
        identity: names the items and how they are computed; a journal is used for the same identity only.
        costs: relative cost of each item.
        description: shown with the progress.
    """

    function: PartFunction[R]
    packed: PackedRanks
    items: Sequence[Any]
    settings: Any
    identity: str
    costs: Sequence[float]
    description: str = "working"

    @property
    def key(self) -> str:
        """Identity of the work, the ranks, and the version of relens."""
        return sha256(f"{__version__} {self.packed.digest} {self.identity}".encode()).hexdigest()[:16]


class Codec(Protocol[R]):
    """How results are written to a journal."""

    def encode(self, result: R) -> dict[str, Any]:
        """Return a result as plain JSON values."""
        ...

    def decode(self, entry: dict[str, Any]) -> R:
        """Rebuild a result; raise ValueError, KeyError or TypeError for anything else."""
        ...

    def arrived(self, result: R, seconds: float) -> R:
        """Return a result as it is kept, ``seconds`` after the work began: clocks of workers begin with their part."""
        ...


class Part(NamedTuple):
    """The message to a worker: what to run on which items, and the version of relens that asks."""

    function: PartFunction[Any]
    items: list[Any]
    numbers: list[int]
    settings: Any
    version: str = __version__


@dataclass(frozen=True)
class Source:
    """Packed ranks as workers get them: a folder on shared storage, or a copy."""

    digest: str
    path: Path | None = None
    packed: PackedRanks | None = None

    def open(self) -> PackedRanks:
        """Return the ranks; raise an error if the folder is missing or holds other ranks."""
        if self.packed is not None:
            return self.packed
        assert self.path is not None
        found = load_pack(self.path)
        if found.digest != self.digest:
            raise RanksError(f"{self.path} holds other ranks on a worker than here: is it the same storage?")
        return found


class Journal(Generic[R]):
    """A file with one line per result. A line that a kill cut off is dropped."""

    def __init__(self, path: Path, codec: Codec[R]) -> None:
        self.path, self.codec = path, codec
        self._found: dict[tuple[str, int], R] = {}
        *lines, unfinished = path.read_bytes().split(b"\n") if path.exists() else [b""]
        for number, line in enumerate(lines, 1):
            self._read(line, number)
        if unfinished:
            os.truncate(path, path.stat().st_size - len(unfinished))

    def _read(self, line: bytes, number: int) -> None:
        try:
            entry = parse_json_line(line.decode())
            self._found[entry["work"], entry["item"]] = self.codec.decode(entry)
        except (ValueError, KeyError, TypeError) as error:
            raise RanksError(
                f"{self.path}, line {number}: expected a result of a search "
                f"({type(error).__name__}: {error}). Remove the file to search from the beginning."
            ) from error

    def get(self, work: str, item: int) -> R | None:
        """Return the result of an item, or None if it is not known."""
        return self._found.get((work, item))

    def add(self, work: str, found: dict[int, R]) -> None:
        """Keep the results of some items."""
        self._found |= {(work, item): result for item, result in found.items()}
        lines = [{"work": work, "item": item, **self.codec.encode(result)} for item, result in found.items()]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(map(json_line, lines))
            file.flush()
            os.fsync(file.fileno())

    def remove(self) -> None:
        """Remove the file: the work is complete."""
        self.path.unlink(missing_ok=True)


class Remote(Generic[R]):
    """A cluster that does work, and the journal of its results."""

    def __init__(self, cluster: Cluster, journal: Journal[R]) -> None:
        self.cluster, self.journal = cluster, journal
        self._sources: dict[str, Any] = {}

    def run(self, work: Work[R], progress: Progress = SILENT) -> list[R]:
        """Return the result of each item, the same as one process would compute."""
        begun, key, costs = monotonic(), work.key, work.costs
        found = {at: kept for at in range(len(work.items)) if (kept := self.journal.get(key, at)) is not None}
        missing = [at for at in range(len(work.items)) if at not in found]
        with progress.task(work.description, sum(costs)) as advance:
            advance(sum(costs[at] for at in found))
            for part, results in self._run_parts(work, missing):
                seconds = monotonic() - begun
                arrived = {
                    at: self.journal.codec.arrived(result, seconds) for at, result in zip(part, results, strict=True)
                }
                self.journal.add(key, arrived)
                found |= arrived
                advance(sum(costs[at] for at in part))
        return [found[at] for at in range(len(work.items))]

    def _run_parts(self, work: Work[R], missing: list[int]) -> Iterator[tuple[list[int], list[R]]]:
        """Yield the item numbers of each part and their results, in the order of arrival."""
        if not missing:
            return
        costs = [work.costs[at] for at in missing]
        size = sum(costs) / (BATCHES_PER_JOB * self.cluster.n_workers)
        parts = [[missing[at] for at in batch] for batch in batches(costs, size)]
        tasks = [Part(work.function, [work.items[at] for at in part], part, work.settings) for part in parts]
        for at, results in self.cluster.run(_run_part, self._source(work.packed), tasks):
            yield parts[at], results

    def _source(self, packed: PackedRanks) -> Any:
        """Return a reference to the ranks: a path if every worker can read it, else a copy for each worker."""
        digest = packed.digest
        if digest not in self._sources:
            on_storage = None if packed.source is None else Source(digest, path=packed.source.resolve())
            if on_storage and all(ok is True for ok in self.cluster.everywhere(_readable, on_storage)):
                self._sources[digest] = on_storage
            else:
                self._sources[digest] = self.cluster.share(Source(digest, packed=packed))
        return self._sources[digest]


def _run_part(source: Source, part: Part) -> list[Any]:
    """Run a part on a worker. A worker that joined after the check of versions may have another version."""
    if part.version != __version__:
        raise InputError(
            f"a worker has relens {__version__}, the search began with {part.version}: results could differ. Install "
            f"the same version everywhere."
        )
    return part.function(source.open(), part.items, part.numbers, part.settings)


def _readable(source: Source) -> bool:
    try:
        source.open()
    except RanksError:
        return False
    return True
