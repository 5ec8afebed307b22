"""Numbering: the ids of files, translated to the ids of a data set."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from relens.data.candidates import Rows
from relens.data.dataset import Dataset, Vocabulary
from relens.data.known_answers import KnownAnswers
from relens.data.queries import HEAD, Queries
from relens.data.tsv import read_lines
from relens.errors import DatasetError, RanksError
from relens.ranking.competition import Competition, Exclusions

ENTITIES, RELATIONS = "entities.txt", "relations.txt"


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
            relations=Vocabulary("relation", labels + tuple(f"{label}^-1" for label in labels)),
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
