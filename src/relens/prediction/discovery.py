"""Discovery: the best new facts of a graph, relation by relation, without an array of all pairs.

``docs/discover.md`` defines which facts are considered and how they are ordered.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from hashlib import sha256
from heapq import merge
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from relens.data.queries import DIRECTIONS, HEAD, TAIL, Queries
from relens.ensemble.inputs import INPUTS
from relens.errors import InputError, RelensError
from relens.files import LOCK, is_left_over, locked, open_npy, whole_file
from relens.prediction.names import Names
from relens.prediction.slots import Slots, check_rule
from relens.progress import SILENT, Progress
from relens.records import DISCOVERY

if TYPE_CHECKING:
    from relens.prediction.ensemble import Ensemble

DEPTH = 50
"""Answers of a query that are considered."""
TOP = 100
"""Facts that are returned unless something else is asked for."""
PAIRS = 2**22
"""Pairs that the lists of one relation and direction hold; relations with more anchors have shorter lists."""
MEMORY = 2**31
"""Bytes that a batch of queries may take."""
RECORD = "discovery.json"

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Wanted:
    """Which new facts are asked for.

    Attributes:
        relations: labels of relations; empty for all.
        entities: labels or names of entities, one of which must be in the fact; empty for any.
        top: how many facts, the best ones; None for all that have the confidence.
        confidence: the lowest confidence; None for any, or none at all.
        each: whether ``top`` counts for each relation instead of all together.
        candidates: the rule that says which entities are considered, see ``relens.prediction.slots``.
        depth: how many of the best answers of a query are considered.
    """

    relations: Sequence[str] = ()
    entities: Sequence[str] = ()
    top: int | None = None
    confidence: float | None = None
    each: bool = False
    candidates: str = "likely"
    depth: int = DEPTH

    def checked(self) -> "Wanted":
        """Return the same request with lists as tuples and ``TOP`` filled in; raise an error if it makes no sense."""
        if self.top is not None and self.top < 1:
            raise InputError(f"`top={self.top}` asks for no facts: expected at least 1")
        if self.confidence is not None and not 0 < self.confidence <= 1:
            raise InputError(f"`confidence={self.confidence:g}` is no share: expected more than 0, and 1 at most")
        if self.depth < 1:
            raise InputError(f"`depth={self.depth}` considers no answers: expected at least 1")
        check_rule(self.candidates)
        top = TOP if self.top is None and self.confidence is None else self.top
        return Wanted(
            tuple(self.relations), tuple(self.entities), top, self.confidence, self.each, self.candidates, self.depth
        )


@dataclass(frozen=True)
class NewFact:
    """A fact that is not in the data set.

    Attributes:
        head, relation, tail: labels.
        head_name, tail_name: readable names; None if the data set has none.
        confidence: the geometric mean of the confidences of both directions; None if one of them has none.
        tail_rank: the rank of the tail in the query for tails, as ``Ensemble.rank_of`` returns it.
        head_rank: the rank of the head in the query for heads.
        margin: how far the scores stand out from the other candidates' of both queries: the weighted mean, over models
            and directions, of the distance from the median in interquartile ranges.
    """

    head: str
    relation: str
    tail: str
    head_name: str | None
    tail_name: str | None
    confidence: float | None
    tail_rank: float
    head_rank: float
    margin: float

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Pairs of head and tail of one relation, and their values in the queries of one direction.

    Attributes:
        keys: ``head · E + tail``, sorted and distinct, (P,) int64.
        rank: the rank of the answer, (P,) float64.
        confidence: its confidence, (P,) float64; NaN where there is none.
        margin: its margin, (P,) float64.
    """

    keys: Ids
    rank: npt.NDArray[np.float64]
    confidence: npt.NDArray[np.float64]
    margin: npt.NDArray[np.float64]

    @classmethod
    def join(cls, parts: "Sequence[_Pairs]") -> "_Pairs":
        """Join parts; the same pair has the same values in all of them."""
        columns = [
            np.concatenate([np.empty(0, dtype), *(getattr(part, name) for part in parts)])
            for name, dtype in (("keys", np.int64), ("rank", float), ("confidence", float), ("margin", float))
        ]
        keys, first = np.unique(columns[0], return_index=True)
        return cls(keys, *(column[first] for column in columns[1:]))


@dataclass(frozen=True, eq=False)
class _Side:
    """One direction of one relation: its anchors, and the answers that are considered."""

    relation: int
    direction: int
    anchors: Ids
    answers: Ids

    def keys(self, anchors: Ids, answers: Ids, n_entities: int) -> Ids:
        """Return the key of each pair of anchor and answer."""
        heads, tails = (anchors, answers) if self.direction == TAIL else (answers, anchors)
        return heads * n_entities + tails

    def ends(self, keys: Ids, n_entities: int) -> tuple[Ids, Ids]:
        """Return the anchors and the answers of pairs."""
        heads, tails = np.divmod(keys, n_entities)
        return (heads, tails) if self.direction == TAIL else (tails, heads)


def discover(
    ensemble: "Ensemble", wanted: Wanted, parts: Path | None = None, progress: Progress = SILENT
) -> Iterator[NewFact]:
    """Return an iterator over the new facts that are asked for, best first; see ``Ensemble.discover``."""
    if ensemble.facts is not None:
        raise InputError("a discovery reads the graph of training alone: open the ensemble without `facts=…`")
    wanted = wanted.checked()
    search = _Discovery(ensemble, wanted)
    if parts is not None:
        search.check_parts(parts)
    return search.stream(parts, progress)


class _Discovery:
    """The search for the new facts of an ensemble's graph."""

    def __init__(self, ensemble: "Ensemble", wanted: Wanted) -> None:
        self.ensemble, self.wanted, self.dataset = ensemble, wanted, ensemble.dataset
        dataset, names = ensemble.dataset, Names(ensemble.dataset)
        self.n_entities, self.n_relations = len(dataset.entities), len(dataset.relations)
        self.slots = Slots.from_train(dataset.train, self.n_entities, self.n_relations)
        train = dataset.train
        self.loops = np.bincount(train[train[:, 0] == train[:, 2], 1], minlength=self.n_relations) > 0
        self.entities = np.unique(np.array([names.entity(name) for name in wanted.entities], dtype=np.int64))
        asked = dict.fromkeys(names.relation(name) for name in wanted.relations)
        self.relations = list(asked) or list(range(self.n_relations))
        self.sides = {relation: self._sides(relation) for relation in self.relations}
        self._check_someone_is_left(named=bool(asked))

    def _check_someone_is_left(self, *, named: bool) -> None:
        """Raise an error if a relation that was named, or everything, has no candidates."""
        empty = [relation for relation, sides in self.sides.items() if not any(len(side.anchors) for side in sides)]
        if not empty or (not named and len(empty) < len(self.sides)):
            return
        label, rule = self.dataset.relations.labels[empty[0]], self.wanted.candidates
        if not (self.dataset.train[:, 1] == empty[0]).any():
            reason = f"relation {label!r} has no facts in train, which would say what it relates"
        elif named:
            reason = f"no given entity can be a head or a tail of {label!r} by the rule `candidates={rule}`"
        else:
            reason = f"no given entity can be in a fact by the rule `candidates={rule}`"
        raise InputError(f"{reason}: consider all entities with `candidates=all`")

    def _sides(self, relation: int) -> tuple[_Side, _Side]:
        rule = self.wanted.candidates
        heads = self.slots.admitted(relation, rule)  # type: ignore[arg-type]  # it was checked
        tails = self.slots.admitted(relation + self.n_relations, rule)  # type: ignore[arg-type]
        if not (len(heads) and len(tails)):
            heads = tails = np.empty(0, dtype=np.int64)
        anchors = [ends if not len(self.entities) else np.intersect1d(ends, self.entities) for ends in (heads, tails)]
        return _Side(relation, TAIL, anchors[TAIL], tails), _Side(relation, HEAD, anchors[HEAD], heads)

    def identity(self) -> dict[str, Any]:
        """Return what decides the facts and their values, as plain JSON values."""
        ensemble = self.ensemble
        used = [m for m, weighed in zip(ensemble.weights.models, ensemble.weights.table.any(axis=0), strict=True) if weighed]
        return {
            **asdict(self.wanted),
            "relations": list(self.wanted.relations),
            "entities": list(self.wanted.entities),
            "fingerprint": self.dataset.fingerprint,
            "models": {model: ensemble.run.model(model).digest for model in used},
            "weights": sha256(json.dumps(ensemble.weights.to_json(), sort_keys=True).encode()).hexdigest()[:16],
            "valid": ensemble.run.ranks("valid").digest if ensemble.run.has_ranks("valid") else "",
            "device": str(ensemble.models.device).partition(":")[0],
        }

    def check_parts(self, folder: Path) -> None:
        """Raise an error if a folder holds the parts of another discovery, or something else."""
        if not (folder / RECORD).is_file():
            strange = [] if not folder.exists() else [folder] if not folder.is_dir() else [
                entry for entry in folder.iterdir() if entry.name != LOCK and not is_left_over(entry)
            ]  # fmt: skip
            if strange:
                raise InputError(
                    f"{folder} is in the way of the parts of this discovery: it is no such folder. Move it away, or "
                    f"choose another output."
                )
            return
        found, expected = DISCOVERY.read(folder / RECORD), self.identity()
        differing = [key for key, value in json.loads(json.dumps(expected)).items() if found.get(key) != value]
        if differing:
            key = differing[0]
            raise InputError(
                f"{folder} holds the parts of another discovery: its {key} is {found.get(key)!r}, here {expected[key]!r}. "
                f"Repeat that discovery to complete it, choose another output, or discard the parts with `force=True`."
            )

    def stream(self, parts: Path | None, progress: Progress) -> Iterator[NewFact]:
        """Search the relations that have no part yet, and yield the facts of all."""
        with TemporaryDirectory() if parts is None else nullcontext(str(parts)) as place:
            folder = Path(place)
            with locked(folder):
                DISCOVERY.write(folder / RECORD, self.identity())
                self._search(folder, progress)
                yield from self._merged(folder)

    def _search(self, folder: Path, progress: Progress) -> None:
        missing = [relation for relation in self.relations if not _part(folder, relation).is_file()]
        if len(missing) < len(self.relations):
            progress.note(f"resuming: {len(self.relations) - len(missing):,} of {len(self.relations):,} relations are done")
        total = sum(len(side.anchors) for relation in missing for side in self.sides[relation])
        with progress.task("discovering", total) as advance:
            for relation in missing:
                found = self.facts_of(relation)
                with whole_file(_part(folder, relation)) as aside, aside.open("wb") as file:
                    np.save(file, found, allow_pickle=False)
                advance(sum(len(side.anchors) for side in self.sides[relation]))

    def facts_of(self, relation: int) -> npt.NDArray[np.float64]:
        """Return the best new facts of a relation in order, (n, 7): head, tail, ``-confidence`` (0 for none), \
``-margin``, tail rank, head rank, and whether there is a confidence."""
        tail_side, head_side = self.sides[relation]
        nothing = np.empty(0, dtype=np.int64)
        by_tail = self._score(tail_side, tail_side.anchors, nothing)
        by_head = self._score(head_side, head_side.anchors, by_tail.keys)
        lacking = np.setdiff1d(by_head.keys, by_tail.keys, assume_unique=True)
        by_tail = _Pairs.join([by_tail, self._score(tail_side, nothing, lacking)])
        heads, tails = np.divmod(by_tail.keys, self.n_entities)
        confidence = np.sqrt(by_tail.confidence * by_head.confidence)
        some = ~np.isnan(confidence)
        columns = (
            heads, tails, -np.where(some, confidence, 0.0), -(by_tail.margin + by_head.margin) / 2, by_tail.rank,
            by_head.rank, some,
        )  # fmt: skip
        rows = np.stack([column.astype(np.float64) for column in columns], axis=1)
        if self.wanted.confidence is not None:
            rows = rows[some & (confidence >= self.wanted.confidence)]
        order = np.lexsort((rows[:, 1], rows[:, 0], rows[:, 3], rows[:, 2], -rows[:, 6]))
        return rows[order[: self.wanted.top]]

    def _score(self, side: _Side, anchors: Ids, wanted: Ids) -> _Pairs:
        """Return the pairs of the best answers to the queries of ``anchors``, and the ``wanted`` pairs."""
        asked, answers = side.ends(wanted, self.n_entities)
        by_anchor = np.argsort(asked, kind="stable")
        asked, answers = asked[by_anchor], answers[by_anchor]
        rows = np.union1d(anchors, asked)
        listed = np.isin(rows, anchors, assume_unique=True)
        begins = np.searchsorted(asked, np.append(rows, self.n_entities))
        found = []
        size = self._rows()
        for at in range(0, len(rows), size):
            part = slice(at, min(at + size, len(rows)))
            chosen = answers[begins[part.start] : begins[part.stop]]
            found.append(self._score_batch(side, rows[part], listed[part], chosen, np.diff(begins[part.start : part.stop + 1])))
        return _Pairs.join(found)

    def _rows(self) -> int:
        """Return how many queries are ranked together. A GPU takes more, to be busy."""
        models = self.ensemble.models
        at_once = 1 if str(models.device).startswith("cpu") else 8
        per_query = self.n_entities * (4 * len(self.ensemble.weights.models) + 48)
        return max(1, min(at_once * models.rows, MEMORY // per_query))

    def _score_batch(
        self, side: _Side, anchors: Ids, listed: npt.NDArray[np.bool_], answers: Ids, counts: Ids
    ) -> _Pairs:
        """Score the queries of b anchors.

        Args:
            side: the relation and direction.
            anchors: the anchors, (b,).
            listed: those whose best answers are considered, (b,).
            answers: the answers of wanted pairs, anchor by anchor.
            counts: how many of them each anchor has, (b,).
        """
        import torch

        from relens.prediction.row_ranks import RowRanks

        ensemble, weights = self.ensemble, self.ensemble.weights
        group = int(ensemble.groups[side.relation, side.direction])
        used = np.flatnonzero(weights.table[group])
        queries = Queries.from_columns(
            np.stack([anchors, *(np.full_like(anchors, n) for n in (side.relation, side.direction, 0, 0))])
        )
        scores = [ensemble.models.scores_on_device(weights.models[model], queries) for model in used]
        for model, of_model in zip(used, scores, strict=True):
            if not of_model.isfinite().all():
                raise RelensError(
                    f"model {weights.models[model]!r} gives scores that are no finite numbers: train it again"
                )
        known = torch.zeros(scores[0].shape, dtype=torch.bool, device=scores[0].device)
        offsets, columns = self.dataset.known_answers.answers_to(queries)
        owners = np.repeat(np.arange(len(anchors)), np.diff(offsets))
        known[torch.as_tensor(owners, device=known.device), torch.as_tensor(columns, device=known.device).long()] = True
        scales = None if weights.gap_scales is None else weights.gap_scales[used]
        ranks = RowRanks(scores, known, anchors, weights.table[group, used], INPUTS[weights.input], scales)

        wanted = np.full((len(anchors), counts.max(initial=0)), -1, dtype=np.int64)
        wanted[np.arange(wanted.shape[1]) < counts[:, None]] = answers
        if listed.any():
            depth = max(1, min(self.wanted.depth, PAIRS // len(side.anchors)))
            among = torch.as_tensor(side.answers, device=known.device)
            best = ranks.best(depth, among, with_anchor=bool(self.loops[side.relation]))
            wanted = np.concatenate([wanted, np.where(listed[:, None], best, -1)], axis=1)
        places = ranks.places(wanted)
        hides = not self.loops[side.relation]
        ahead, tied = places.ahead - (places.anchor_ahead & hides), places.tied - (places.anchor_tied & hides)
        chosen = wanted >= 0
        answered = np.broadcast_to(np.diff(offsets)[:, None] > 0, chosen.shape)
        keys = side.keys(np.broadcast_to(anchors[:, None], chosen.shape)[chosen], wanted[chosen], self.n_entities)
        confidence = ensemble.confidences(group, answered[chosen], ahead[chosen], tied[chosen])
        return _Pairs.join([_Pairs(keys, (places.ahead + places.tied / 2 + 1)[chosen], confidence, places.margin[chosen])])

    def _merged(self, folder: Path) -> Iterator[NewFact]:
        """Yield the facts of all parts: relation by relation, or the best of all first."""
        parts = ((relation, open_npy(_part(folder, relation))) for relation in self.relations)
        if self.wanted.each:
            for relation, rows in parts:
                yield from (self._fact(relation, row.tolist()) for row in rows)
            return
        streams = [_keyed(relation, rows) for relation, rows in parts]
        for _, _, _, relation, _, _, row in islice(merge(*streams), self.wanted.top):
            yield self._fact(relation, row)

    def _fact(self, relation: int, row: list[float]) -> NewFact:
        labels, names = self.dataset.entities.labels, self.dataset.names
        head, tail = labels[int(row[0])], labels[int(row[1])]
        return NewFact(
            head=head,
            relation=self.dataset.relations.labels[relation],
            tail=tail,
            head_name=names.get(head),
            tail_name=names.get(tail),
            confidence=-row[2] + 0.0 if row[6] else None,
            tail_rank=row[4],
            head_rank=row[5],
            margin=-row[3],
        )


Keyed = tuple[float, float, float, int, float, float, list[float]]


def _keyed(relation: int, rows: npt.NDArray[np.float64]) -> Iterator[Keyed]:
    """Yield the rows of a relation with the key that all facts are ordered by."""
    for row in map(np.ndarray.tolist, rows):
        yield -row[6], row[2], row[3], relation, row[0], row[1], row


def _part(folder: Path, relation: int) -> Path:
    return folder / f"{relation:06d}.npy"
