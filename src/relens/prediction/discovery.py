"""Discovery: the best new facts of a graph, relation by relation, without an array of all pairs.

``docs/discover.md`` defines which facts are considered and how they are ordered.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from heapq import merge
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import numpy.typing as npt

from relens.checksums import array_checksum, verify_file
from relens.data.queries import HEAD, TAIL
from relens.data.restriction import Restriction
from relens.errors import DamagedError, InputError
from relens.files import LOCK, is_left_over, locked, open_npy, whole_file
from relens.prediction.candidates import KEYWORDS, CandidatesOption, restriction_for
from relens.prediction.names import Names
from relens.prediction.relation_search import Ids, Pairs, RelationSearch, Side
from relens.progress import SILENT, Progress
from relens.records import DISCOVERY

if TYPE_CHECKING:
    from relens.prediction.ensemble import Ensemble

DEPTH = 50
"""Answers of a query that are considered."""
TOP = 100
"""Facts that are returned unless something else is asked for."""
LIKELY, ALL = "likely", "all"
"""Words for candidates beside those of ``relens.prediction.candidates``."""
RECORD = "discovery.json"
READ = 2**10
"""Rows of a part that are read together."""
COLUMNS = ("no confidence", "-confidence", "-margin", "head", "tail", "tail rank", "head rank")
"""Columns of a part; its rows are sorted by the first five."""


class Request(TypedDict, total=False):
    """The names and types of what is asked for; ``Wanted`` explains them."""

    relations: Sequence[str]
    entities: Sequence[str]
    top: int | None
    confidence: float | None
    each: bool
    candidates: CandidatesOption
    depth: int


@dataclass(frozen=True)
class Wanted:
    """The facts that are asked for.

    Attributes:
        relations: labels or readable names; empty for all.
        entities: labels or readable names; every fact has one of these entities. Empty for any.
        top: how many facts; None for ``TOP``, or with ``confidence`` for all of them.
        confidence: leave out facts with less, or without one.
        each: return the best ``top`` of each relation, one relation after the other.
        candidates: the entities that may be in a fact: ``likely``, ``all``, or what
            ``relens.prediction.candidates`` takes. Ranks are those among all entities.
        depth: how many of the best answers of each query are considered.
    """

    relations: Sequence[str] = ()
    entities: Sequence[str] = ()
    top: int | None = None
    confidence: float | None = None
    each: bool = False
    candidates: CandidatesOption = LIKELY
    depth: int = DEPTH

    def checked(self) -> "Wanted":
        """Return the same request with ``TOP`` filled in; raise an error if it makes no sense."""
        if self.top is not None and self.top < 1:
            raise InputError(f"`top={self.top}` asks for no facts: expected at least 1")
        if self.confidence is not None and not 0 < self.confidence <= 1:
            raise InputError(f"`confidence={self.confidence:g}` is no share: expected more than 0, and 1 at most")
        if self.depth < 1:
            raise InputError(f"`depth={self.depth}` considers no answers: expected at least 1")
        for name in ("relations", "entities"):
            if isinstance(getattr(self, name), str):
                raise InputError(f"`{name}={getattr(self, name)!r}` is one text: expected a list of names")
        return replace(self, top=TOP) if self.top is None and self.confidence is None else self


@dataclass(frozen=True)
class NewFact:
    """A fact that is not in the data set.

    Attributes:
        head, relation, tail: labels.
        head_name, relation_name, tail_name: readable names; None if the data set has none.
        confidence: the geometric mean of the confidences in both directions; None if one of them has none.
        tail_rank: the rank of the tail in the query for tails, as ``Ensemble.rank_of`` returns it.
        head_rank: the rank of the head in the query for heads.
        margin: how far its scores are above the median of the candidates, in interquartile ranges: the mean over both
            directions of the weighted mean over the models.
    """

    head: str
    relation: str
    tail: str
    head_name: str | None
    relation_name: str | None
    tail_name: str | None
    confidence: float | None
    tail_rank: float
    head_rank: float
    margin: float

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


class Discovery:
    """A search for the new facts of an ensemble's graph, in parts that are kept: one per relation.

    Attributes:
        relations: ids of the relations, in the order of the parts.
    """

    def __init__(self, ensemble: "Ensemble", wanted: Wanted) -> None:
        if ensemble.facts is not None:
            raise InputError("a discovery reads the graph of training alone: open the ensemble without `facts=…`")
        self.ensemble, self.wanted = ensemble, wanted.checked()
        dataset, names = ensemble.dataset, Names(ensemble.dataset)
        self._names, self._n_entities = names, len(dataset.entities)
        self._entities = np.unique(np.array([names.entity(name) for name in wanted.entities], dtype=np.int64))
        asked = list(dict.fromkeys(names.relation(name) for name in wanted.relations))
        self.relations = asked or list(range(len(dataset.relations)))
        self._restriction = _restriction(ensemble, wanted.candidates)
        self._check_someone_is_left(named=bool(asked))

    def facts(self, parts: Path | None, progress: Progress = SILENT) -> Iterator[NewFact]:
        """Return an iterator over the facts; ``parts`` is a folder that keeps finished relations, or None."""
        if parts is not None:
            self._check_parts(parts)
        return self._stream(parts, progress)

    def _check_someone_is_left(self, *, named: bool) -> None:
        """Raise an error if a relation that was named, or every one, has no anchor."""
        empty = [relation for relation in self.relations if not self._n_queries(relation)]
        if not empty or (not named and len(empty) < len(self.relations)):
            return
        label, train = self.ensemble.dataset.relations.labels[empty[0]], self.ensemble.dataset.train
        if not (train[:, 1] == empty[0]).any():
            reason = f"relation {label!r} has no facts in train, which would say what it relates"
        else:
            whom = "none of the given entities" if len(self._entities) else "no entity"
            of = repr(label) if named else "any relation"
            reason = f"`candidates={self.wanted.candidates}` leaves nobody: {whom} can be a head or tail of {of}"
        raise InputError(f"{reason}. Consider all entities with `candidates=all`.")

    def sides(self, relation: int) -> tuple[Side, Side]:
        """Return the queries for tails and those for heads of a relation."""
        if self._restriction is None:
            heads = tails = np.arange(self._n_entities)
        else:
            heads, tails = (self._restriction.allowed(relation, side).astype(np.int64) for side in (HEAD, TAIL))
        if not (len(heads) and len(tails)):
            heads = tails = np.empty(0, dtype=np.int64)
        return Side(relation, TAIL, self._anchors(heads), tails), Side(relation, HEAD, self._anchors(tails), heads)

    def _anchors(self, among: Ids) -> Ids:
        return np.intersect1d(among, self._entities) if self.wanted.entities else among

    def _n_queries(self, relation: int) -> int:
        """Return the number of queries whose best answers are considered."""
        return sum(len(side.anchors) for side in self.sides(relation))

    def identity(self) -> dict[str, Any]:
        """Return what decides the facts, as plain JSON values."""
        ensemble, weights = self.ensemble, self.ensemble.weights
        used = np.flatnonzero(weights.table.any(axis=0)).tolist()
        return {
            **asdict(self.wanted),
            "candidates": ALL if self._restriction is None else self._restriction.name,
            "relations": [ensemble.dataset.relations.labels[relation] for relation in self.relations],
            "entities": [ensemble.dataset.entities.labels[entity] for entity in self._entities],
            "data set": ensemble.dataset.fingerprint,
            "models": {weights.models[i]: ensemble.run.member(weights.models[i]).digest for i in used},
            "weights": sha256(json.dumps(weights.to_json(), sort_keys=True).encode()).hexdigest()[:16],
            "calibration": None if ensemble.confidence is None else ensemble.confidence.digest,
            "device": str(ensemble.models.device).partition(":")[0],
        }

    def _check_parts(self, folder: Path) -> None:
        """Raise an error if a folder holds the parts of another discovery, or something else."""
        if not (folder / RECORD).is_file():
            if _is_in_the_way(folder):
                raise InputError(
                    f"{folder} holds no parts of a discovery, and would be their folder. Move it away, or choose "
                    f"another output."
                )
            return
        found = DISCOVERY.read(folder / RECORD)
        for key, value in self.identity().items():
            if found.get(key) != value:
                raise InputError(
                    f"{folder} holds parts of another discovery: {key} {_short(found.get(key))} there, {_short(value)} "
                    f"here. Repeat that discovery to complete it, choose another output, or discard its parts with "
                    f"`force=True`."
                )

    def _stream(self, parts: Path | None, progress: Progress) -> Iterator[NewFact]:
        with TemporaryDirectory() if parts is None else nullcontext(parts) as place:
            folder = Path(place)
            with locked(folder):
                if not (folder / RECORD).is_file():
                    DISCOVERY.write(folder / RECORD, self.identity())
                self._search(folder, progress)
                yield from self._merged(folder)

    def _search(self, folder: Path, progress: Progress) -> None:
        """Write the parts that are missing."""
        missing = [relation for relation in self.relations if _part(folder, relation) is None]
        if len(missing) < len(self.relations):
            done = len(self.relations) - len(missing)
            progress.note(f"{folder}: resuming, {done:,} of {len(self.relations):,} relations are done")
        with progress.task("discovering", sum(map(self._n_queries, missing))) as advance:
            search = RelationSearch(self.ensemble, self.wanted.depth, advance)
            for relation in missing:
                _write(folder, relation, self.rows(search.both_sides(*self.sides(relation))))

    def rows(self, both: tuple[Pairs, Pairs]) -> npt.NDArray[np.float64]:
        """Return the best new facts of a relation, sorted, (n, ``COLUMNS``), of those that a search found."""
        by_tail, by_head = both
        confidence = np.sqrt(by_tail.confidence * by_head.confidence)
        none = np.isnan(confidence)
        margin = (by_tail.margin + by_head.margin) / 2
        heads, tails = np.divmod(by_tail.keys, self._n_entities)
        columns = (none, -np.where(none, 0.0, confidence), -margin, heads, tails, by_tail.rank, by_head.rank)
        rows = np.stack([column.astype(np.float64) for column in columns], axis=1)
        if self.wanted.confidence is not None:
            rows = rows[~none & (confidence >= self.wanted.confidence)]
        return rows[np.lexsort(rows[:, 4::-1].T)][: self.wanted.top]

    def _merged(self, folder: Path) -> Iterator[NewFact]:
        """Yield the facts of all parts: relation by relation, or the best of all first."""
        streams = (self._read(folder, relation) for relation in self.relations)
        if self.wanted.each:
            return map(self._fact, chain.from_iterable(streams))
        return map(self._fact, islice(merge(*streams), self.wanted.top))

    def _read(self, folder: Path, relation: int) -> Iterator["Sorted"]:
        """Yield the rows of a part, of which few are in memory; the file is open only while it is read."""
        part = _part(folder, relation)
        if part is None:
            raise DamagedError(f"{folder} lost the part of relation {relation}. {DISCOVERY.remedy}")
        verify_file(part, part.stem.rpartition("-")[2], DISCOVERY.remedy)
        shape, dtype = open_npy(part).shape, open_npy(part).dtype
        if len(shape) != 2 or shape[1] != len(COLUMNS) or dtype != np.float64:
            raise DamagedError(
                f"{part} has the shape {shape} of {dtype}, expected (facts, {len(COLUMNS)}) of float64. "
                f"{DISCOVERY.remedy}"
            )
        for begin in range(0, shape[0], READ):
            rows = open_npy(part)[begin : begin + READ]
            ids = rows[:, 3:5]
            if not np.isfinite(rows).all() or not ((ids >= 0) & (ids < self._n_entities)).all():
                raise DamagedError(f"{part} does not hold facts of the graph. {DISCOVERY.remedy}")
            for values in map(tuple, rows.tolist()):
                yield values[:3], relation, values[3:]

    def _fact(self, row: "Sorted") -> NewFact:
        dataset = self.ensemble.dataset
        (none, confidence, margin), relation, (head_id, tail_id, tail_rank, head_rank) = row
        head, tail = dataset.entities.labels[int(head_id)], dataset.entities.labels[int(tail_id)]
        label = dataset.relations.labels[relation]
        return NewFact(
            head=head,
            relation=label,
            tail=tail,
            head_name=dataset.names.get(head),
            relation_name=dataset.relation_names.get(label),
            tail_name=dataset.names.get(tail),
            confidence=None if none else abs(confidence),
            tail_rank=tail_rank,
            head_rank=head_rank,
            margin=-margin,
        )


Sorted = tuple[tuple[float, ...], int, tuple[float, ...]]
"""A row of a part, with the relation at its place in the order of all facts."""


def discard_parts(folder: Path) -> None:
    """Remove the parts of a discovery; raise an error if the folder holds something else, or is in use."""
    if not folder.exists():
        return
    if not (folder / RECORD).is_file() and _is_in_the_way(folder):
        raise InputError(f"{folder} holds no parts of a discovery, and is not removed. Move it away.")
    with locked(folder):
        rmtree(folder)


def _restriction(ensemble: "Ensemble", candidates: CandidatesOption) -> Restriction | None:
    """Return the entities that are considered; None for all."""
    if candidates == ALL:
        return None
    if candidates == LIKELY:
        return ensemble.likely
    try:
        return restriction_for(ensemble.dataset, candidates)
    except InputError as error:
        if isinstance(candidates, str) and candidates not in KEYWORDS and not Path(candidates).exists():
            raise InputError(f"{error}; or one of the words {LIKELY} and {ALL}") from error
        raise


def _is_in_the_way(folder: Path) -> bool:
    """Say whether a path is something else than a folder that only a lock and leftovers of killed processes are in."""
    if not folder.is_dir():
        return folder.exists()
    return any(entry.name != LOCK and not is_left_over(entry) for entry in folder.iterdir())


def _part(folder: Path, relation: int) -> Path | None:
    """Return the part of a relation, whose name ends with its checksum; None if it is missing."""
    return next(folder.glob(f"{relation:06d}-*.npy"), None)


def _write(folder: Path, relation: int, rows: npt.NDArray[np.float64]) -> None:
    """Write the part of a relation."""
    file = BytesIO()
    np.save(file, rows, allow_pickle=False)
    checksum = array_checksum(np.frombuffer(file.getbuffer(), dtype=np.uint8))
    with whole_file(folder / f"{relation:06d}-{checksum}.npy") as aside:
        aside.write_bytes(file.getbuffer())


def _short(value: Any) -> str:
    """Return a value for a message, cut if it is long."""
    text = str(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
