"""Ids of files: their numbering, translated to that of a data set, and the directions of rows of ids.

Inverse rows are recognised by their relation id r + R, never by their position. R follows from the ids: where every
row (h, r, t) has its inverse (t, r + R, h), the smaller half of the ids are the forward ones.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from relens.data.candidates import Rows
from relens.data.dataset import Dataset
from relens.data.known_answers import KnownAnswers
from relens.data.queries import HEAD, TAIL, Queries
from relens.data.tsv import read_lines
from relens.data.vocabulary import Vocabulary
from relens.errors import DatasetError, RanksError
from relens.ranking.competition import Competition, Exclusions

ENTITIES, RELATIONS = "entities.txt", "relations.txt"
_FREE_IDS = {"entity": 2**24, "relation": 2**16}
"""Ids that few rows may have; as many as there are rows are always allowed. A relation has a label, and groups."""


@dataclass(frozen=True)
class Numbering:
    """The ids of files, translated to the ids of packed ranks.

    Packed ranks use the ids of a data set where one is given, and the ids of the files otherwise.

    Attributes:
        entity_of: the entity of each id in the files, (E,); where all entities are candidates, ids are columns.
        relation_of: the relation of each id in the files, (R,).
        relations: the labels of the R relations.
        entities: the labels of the E entities; None where only ids are known.
    """

    entity_of: npt.NDArray[np.int32]
    relation_of: npt.NDArray[np.int32]
    relations: Vocabulary
    entities: Vocabulary | None = None

    @classmethod
    def read(cls, folder: Path, n_entities: int, relations: Vocabulary, data: Dataset | None = None) -> Self:
        """Take the order of labels from ``entities.txt`` and ``relations.txt`` where the folder has them.

        Without these files the ids are those of the data set. Without a data set the ids of the files stay, and
        ``relations`` has the labels.
        """
        listed_entities = _listed(folder / ENTITIES, "entity")
        listed_relations = _listed(folder / RELATIONS, "relation")
        if data is not None:
            return cls(
                _translated(folder / ENTITIES, listed_entities, data.entities, n_entities),
                _translated(folder / RELATIONS, listed_relations, data.relations, len(data.relations)),
                data.relations,
                data.entities,
            )
        if listed_entities is not None:
            _check_count(folder / ENTITIES, listed_entities, n_entities)
        relations = listed_relations or relations
        entity_of, relation_of = (np.arange(n, dtype=np.int32) for n in (n_entities, len(relations)))
        return cls(entity_of, relation_of, relations, listed_entities)

    def queries(self, queries: Queries) -> Queries:
        """Translate queries from the ids of the files."""
        return Queries(
            self.entity_of[queries.anchor],
            self.relation_of[queries.relation],
            queries.direction,
            self.entity_of[queries.answer],
            queries.triple,
        )

    def triples(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        """Translate rows (head, relation, tail), (n, 3)."""
        head, relation, tail = rows.T
        return np.stack([self.entity_of[head], self.relation_of[relation], self.entity_of[tail]], axis=1)

    def mirrored(self) -> "Numbering":
        """Return the numbering in which r + R, the inverse of a relation, is a relation of its own."""
        labels = self.relations.labels
        return replace(
            self,
            relation_of=np.concatenate([self.relation_of, self.relation_of + np.int32(len(labels))]),
            relations=Vocabulary("relation", (*labels, *(f"{label}^-1" for label in labels))),
        )

    def columns(self) -> npt.NDArray[np.int32]:
        """Return the column of each entity, the inverse of ``entity_of``, (E,)."""
        columns = np.empty_like(self.entity_of)
        columns[self.entity_of] = np.arange(len(columns), dtype=np.int32)
        return columns

    def excluded(self, queries: Queries, known: KnownAnswers) -> Callable[[Rows], Exclusions]:
        """Return a function that finds the columns of the other known answers of the queries at some rows."""
        competition, column_of = Competition(queries, known), self.columns()

        def find(rows: Rows) -> Exclusions:
            offsets, entities = competition.excluded(rows)
            return offsets, column_of[entities]

        return find


def check_room(place: Path | str, kind: str, n_ids: int, n_rows: int) -> None:
    """Raise an error for ids of a ``kind`` that leave gaps no rows can fill: each id takes memory.

    Args:
        place: the file, for the error.
        kind: ``entity`` or ``relation``.
        n_ids: the largest id and one.
        n_rows: rows of ids in all files.
    """
    most = max(_FREE_IDS[kind], n_rows)
    if n_ids > most:
        raise RanksError(
            f"{place}: found the {kind} id {n_ids - 1:,} in {n_rows:,} rows, expected ids below {most:,}. Number them "
            f"from 0 without gaps, or pass the data set, `data=…`."
        )


def number_triples(triples: npt.NDArray[Any], side: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Number triples (Q, 3) by first appearance, (Q,); the two sides (Q,) of a triple get the same number.

    The k-th occurrence of a repeated triple on one side belongs to its k-th occurrence on the other.
    """
    keys = np.column_stack([triples, side]).astype(np.int64)
    order = np.lexsort(keys.T[::-1])
    fresh = np.ones(len(keys), dtype=bool)
    fresh[1:] = (np.diff(keys[order], axis=0) != 0).any(axis=1)
    place = np.arange(len(keys))
    keys[order, 3] = place - np.maximum.accumulate(np.where(fresh, place, 0))
    _, first, owner = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int32)
    number[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return number[owner.reshape(-1)]


def numbers(n_relations: int) -> Vocabulary:
    """Return the vocabulary of relations that only have ids."""
    return Vocabulary("relation", tuple(str(number) for number in range(n_relations)))


def triples_of(queries: Queries) -> npt.NDArray[np.int32]:
    """Return the triple (head, relation, tail) of each query, (Q, 3)."""
    for_head = queries.direction == HEAD
    head = np.where(for_head, queries.answer, queries.anchor)
    tail = np.where(for_head, queries.anchor, queries.answer)
    return np.stack([head, queries.relation, tail], axis=1)


def check_in_split(place: Path, triples: npt.NDArray[np.int32], data: Dataset, split: str) -> None:
    """Raise an error for triples (n, 3) that a split lacks: their file numbers entities or relations differently."""
    strange = ~np.isin(data.triple_keys(triples), data.triple_keys(data.splits[split]))
    if strange.any():
        head, relation, tail = triples[np.argmax(strange)].tolist()
        shown = ", ".join((data.entities.labels[head], data.relations.labels[relation], data.entities.labels[tail]))
        raise RanksError(
            f"{place}: ({shown}) is not a triple of {split} in {data.name}. Files number entities and relations in the "
            f"sorted order of their labels. If yours use another order, list the labels in {ENTITIES} and {RELATIONS} "
            f"beside them, or import without `data=…`."
        )


def _listed(path: Path, kind: str) -> Vocabulary | None:
    """Read one label per line, or None where there is no such file."""
    if not path.is_file():
        return None
    try:
        return Vocabulary(kind, tuple(read_lines(path)))
    except DatasetError as error:
        raise RanksError(f"{path}: {error}") from error


def _translated(path: Path, listed: Vocabulary | None, known: Vocabulary, n_expected: int) -> npt.NDArray[np.int32]:
    if n_expected != len(known):
        raise RanksError(
            f"the files have {n_expected} columns, the data set has {len(known)} entities: expected one column per "
            f"entity. They belong to different data sets."
        )
    if listed is None:
        return np.arange(n_expected, dtype=np.int32)
    _check_count(path, listed, n_expected)
    try:
        return known.ids_of(listed.labels)
    except DatasetError as error:
        raise RanksError(f"{path}: {error}") from error


def _check_count(path: Path, listed: Vocabulary, n_expected: int) -> None:
    if len(listed) != n_expected:
        raise RanksError(f"{path} has {len(listed)} lines, expected {n_expected}: one {listed.kind} per id, in order.")


IdRows = npt.NDArray[np.int64]
"""Rows of three ids, (n, 3)."""


def find_n_relations(splits: Mapping[str, IdRows]) -> int:
    """Find R from rows (anchor, relation, answer) of forward and inverse queries; all splits must agree."""
    found = {}
    for split, rows in splits.items():
        try:
            found[split] = inverse_offset(rows)
        except RanksError as problem:
            raise RanksError(
                f"cannot tell head queries from tail queries in {split}: {problem}. Expected a row (t, r + R, h) for "
                f"every row (h, r, t). Pass the number of relations, `n_relations=R`: rows with ids from R on are then "
                f"head queries."
            ) from problem
    if len(set(found.values())) > 1:
        shown = ", ".join(f"{n} in {split}" for split, n in found.items())
        raise RanksError(f"the splits disagree on the number of relations ({shown}). Pass it: `n_relations=R`.")
    return next(iter(found.values()))


def inverse_offset(rows: IdRows, *, swapped: bool = True) -> int:
    """Return the R for which the rows consist of (a, r, b) and (b, r + R, a), or raise an error with the reason.

    Without ``swapped``, the second half is (a, r + R, b).
    """
    half, odd = divmod(len(rows), 2)
    if odd or not half:
        raise RanksError(f"found {len(rows)} rows, expected an even number")
    ids = np.sort(rows[:, 1])
    offset = int(ids[half] - ids[0])
    inverse = rows[:, 1] >= ids[half]
    if inverse.sum() != half or ids[half - 1] >= offset:
        raise RanksError(f"found relation ids {ids[0]} to {ids[-1]}, which do not fall into two halves r and r + R")
    forward, backward = _sorted(rows[~inverse]), _sorted(_undo(rows[inverse], offset, swapped=swapped))
    different = (forward != backward).any(axis=1)
    if different.any():
        head, relation, tail = min(forward[different][0].tolist(), backward[different][0].tolist())
        raise RanksError(
            f"by their ids R would be {offset}, but ({head}, {relation}, {tail}) lacks one of its two rows"
        )
    return offset


def forward_triples(rows: IdRows, n_relations: int, *, swapped: bool = True) -> IdRows:
    """Return the triple (head, relation, tail) of each row (anchor, relation, answer); see ``inverse_offset``."""
    inverse = rows[:, 1] >= n_relations
    return np.where(inverse[:, None], _undo(rows, n_relations, swapped=swapped), rows)


def directed_queries(rows: IdRows, n_relations: int) -> Queries:
    """Turn rows (anchor, relation, answer) into queries; ids from ``n_relations`` on ask for heads."""
    triples = forward_triples(rows, n_relations)
    inverse = rows[:, 1] >= n_relations
    direction = np.where(inverse, HEAD, TAIL)
    triple = number_triples(triples, inverse)
    return Queries.from_columns(np.stack([rows[:, 0], triples[:, 1], direction, rows[:, 2], triple]))


def sampled_queries(rows: IdRows, triple: npt.NDArray[np.integer[Any]]) -> Queries:
    """Ask two queries per row (head, relation, tail): for its head, then for its tail; (n, 3) become 2n."""
    head, relation, tail = np.repeat(rows, 2, axis=0).T
    direction = np.tile([HEAD, TAIL], len(rows))
    for_head = direction == HEAD
    anchor, answer = np.where(for_head, tail, head), np.where(for_head, head, tail)
    return Queries.from_columns(np.stack([anchor, relation, direction, answer, np.repeat(triple, 2)]))


def twice(rows: IdRows, n_relations: int) -> IdRows:
    """Return all rows with r, then all again with r + R, (2n, 3)."""
    return np.concatenate([rows, rows + np.array([0, n_relations, 0])])


def find_mirror(splits: Mapping[str, IdRows]) -> int | None:
    """Return the only R for which every split has each row with r and with r + R, in either order, or None."""
    found = {offset for rows in splits.values() for offset in _offsets(rows)}
    return found.pop() if len(found) == 1 and all(_offsets(rows) for rows in splits.values()) else None


def mirrored_triples(rows: IdRows, n_relations: int) -> npt.NDArray[np.int32]:
    """Number the triples of rows in which each occurs with r and with r + R, in either order."""
    swapped = True in _offsets(rows).values()
    return number_triples(forward_triples(rows, n_relations, swapped=swapped), rows[:, 1] >= n_relations)


def _offsets(rows: IdRows) -> dict[int, bool]:
    """Return the R that fits the rows, if any, and whether the entities of inverse rows are swapped."""
    for swapped in (False, True):
        with suppress(RanksError):
            return {inverse_offset(rows, swapped=swapped): swapped}
    return {}


def _undo(rows: IdRows, offset: int, *, swapped: bool) -> IdRows:
    """Turn inverse rows into forward ones."""
    forward: IdRows = rows[:, [2, 1, 0] if swapped else [0, 1, 2]] - np.array([0, offset, 0])
    return forward


def _sorted(rows: IdRows) -> IdRows:
    return rows[np.lexsort(rows.T[::-1])]
