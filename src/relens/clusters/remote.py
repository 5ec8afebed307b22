"""Run a function over items of work on other machines, and keep every result at once.

Parts of about equal cost go out to the workers. If a worker is lost or hangs, other workers repeat its parts. If the
driver or the cluster is lost, only the parts in flight are lost: the same work resumes from its journal.
"""

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from relens import __version__
from relens.clusters.engines import Cluster, within
from relens.clusters.parallel import BATCHES_PER_JOB, batches
from relens.clusters.parts import MOST_TIMES, Patience, Timed, finished_parts
from relens.errors import ClusterError, InputError, RanksError, RelensError, counted
from relens.files import disk_errors, json_line, parse_json_line
from relens.packs.pack import PackedRanks
from relens.packs.store import load_pack
from relens.progress import SILENT, Progress

R = TypeVar("R")
PATIENCE = 600.0
"""Least time without a result, in seconds, before workers count as hanging."""
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
        """Keep the results of some items; if the disk is full, keep those that were there."""
        lines = [{"work": work, "item": item, **self.codec.encode(result)} for item, result in found.items()]
        text = "".join(map(json_line, lines)).encode()
        with disk_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab", buffering=0) as file:
                before = file.tell()
                try:
                    while text:
                        text = text[file.write(text) :]
                    os.fsync(file.fileno())
                except OSError:
                    file.truncate(before)
                    raise
        self._found |= {(work, item): result for item, result in found.items()}

    def __len__(self) -> int:
        return len(self._found)

    def remove(self) -> None:
        """Remove the file: the work is complete."""
        self.path.unlink(missing_ok=True)


class Remote(Generic[R]):
    """A cluster that does work, and the journal of its results.

    Args:
        cluster: of ``relens.clusters.connect``.
        journal: keeps each result at once.
        patience: least time without a result, in seconds, before workers count as hanging. Parts that take long by
            their cost have more time.
    """

    def __init__(self, cluster: Cluster, journal: Journal[R], patience: float = PATIENCE) -> None:
        if not patience > 0:
            raise InputError(f"patience is {patience}, expected a number of seconds above 0")
        self.cluster, self.journal, self.patience = cluster, journal, patience
        self._sources: dict[str, Any] = {}

    def run(self, work: Work[R], progress: Progress = SILENT) -> list[R]:
        """Return the result of each item, the same as one process would compute."""
        begun, key, costs = monotonic(), work.key, work.costs
        found = {at: kept for at in range(len(work.items)) if (kept := self.journal.get(key, at)) is not None}
        missing = [at for at in range(len(work.items)) if at not in found]
        with progress.task(work.description, sum(costs)) as advance:
            advance(sum(costs[at] for at in found))
            for part, results in self._kept(self._run_parts(work, missing)):
                seconds = monotonic() - begun
                arrived = {
                    at: self.journal.codec.arrived(result, seconds) for at, result in zip(part, results, strict=True)
                }
                self.journal.add(key, arrived)
                found |= arrived
                advance(sum(costs[at] for at in part))
        return [found[at] for at in range(len(work.items))]

    def _kept(self, parts: Iterator[tuple[list[int], list[R]]]) -> Iterator[tuple[list[int], list[R]]]:
        """Yield the parts; an error of the cluster also says what is kept, and how to go on."""
        try:
            yield from parts
        except ClusterError as error:
            raise ClusterError(
                f"{error} Finished parts are kept in {self.journal.path} ({counted(len(self.journal), 'result')}): run "
                f"the same command again, with the address of a running cluster, to resume."
            ) from error

    def _run_parts(self, work: Work[R], missing: list[int]) -> Iterator[tuple[list[int], list[R]]]:
        """Yield the item numbers of each part and their results, in the order of arrival."""
        if not missing:
            return
        costs = [work.costs[at] for at in missing]
        size = sum(costs) / (BATCHES_PER_JOB * self.cluster.n_workers)
        parts = [[missing[at] for at in batch] for batch in batches(costs, size)]
        tasks = [Part(work.function, [work.items[at] for at in part], part, work.settings) for part in parts]
        patience = Patience(self.patience, [sum(work.costs[at] for at in part) for part in parts])
        for at, results in finished_parts(self.cluster, _run_part, self._source(work.packed), tasks, patience):
            yield parts[at], results

    def _shared(self, source: Source) -> Any:
        """Send a copy of the ranks to each worker."""
        limit = MOST_TIMES * self.patience
        try:
            return within(limit, self.cluster.share, source)
        except TimeoutError:
            raise ClusterError(
                f"sending the ranks to the workers took more than {limit:.0f} s: end the workers that hang, or allow "
                f"more time with `patience=SECONDS`."
            ) from None

    def _source(self, packed: PackedRanks) -> Any:
        """Return a reference to the ranks: a path if every worker can read it, else a copy for each worker."""
        digest = packed.digest
        if digest not in self._sources:
            on_storage = None if packed.source is None else Source(digest, path=packed.source.resolve())
            if on_storage and all(ok is True for ok in self.cluster.everywhere(_readable, on_storage)):
                self._sources[digest] = on_storage
            else:
                self._sources[digest] = self._shared(Source(digest, packed=packed))
        return self._sources[digest]


def _run_part(source: Source, part: Part) -> Timed:
    """Run a part on a worker. A worker that joined after the check of versions may have another version."""
    begun = monotonic()
    if part.version != __version__:
        raise InputError(
            f"a worker has relens {__version__}, the search began with {part.version}: results could differ. Install "
            f"the same version everywhere."
        )
    try:
        results = part.function(source.open(), part.items, part.numbers, part.settings)
    except RelensError:
        raise
    except Exception as error:  # may not pickle, and its traceback is of no use to the user
        text = " ".join(str(error).split())
        raise ClusterError(
            f"a part of the search failed on {platform.node()}: {type(error).__name__}: {text}."
        ) from None
    return Timed(results, monotonic() - begun)


def _readable(source: Source) -> bool:
    try:
        source.open()
    except RanksError:
        return False
    return True
