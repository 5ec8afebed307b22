"""Query files: the queries of the rows of an array, one per row, in order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Vocabulary
from relens.data.queries import DIRECTIONS, Queries
from relens.data.tsv import read_lines, read_rows
from relens.errors import DatasetError, RanksError
from relens.files import open_npy
from relens.importers.numbering import Numbering, number_triples, numbers, triples_of

FIELDS = ("anchor", "relation", "direction", "answer")


@dataclass(frozen=True)
class LabelTable:
    """Queries as text: a column of Q labels for each of ``FIELDS``."""

    path: Path
    columns: Sequence[Sequence[str]]

    @classmethod
    def read(cls, path: Path) -> "LabelTable":
        """Read lines ``anchor TAB relation TAB direction TAB answer``."""
        rows = read_rows(path, FIELDS)
        if not rows:
            raise RanksError(f"{path} is empty: expected a line {' TAB '.join(FIELDS)} per query.")
        return cls(path, list(zip(*rows, strict=True)))

    def relation_labels(self) -> set[str]:
        """Return the labels of all relations in the file."""
        return set(self.columns[1])

    def queries(self, numbering: Numbering) -> Queries:
        """Look up the labels; entities without labels are given by the numbers of their columns."""
        entities, hint = numbering.entities, ""
        if entities is None:
            hint = (
                " Without a data set, entities are the numbers of their columns: pass the data set of these labels, "
                "`data=…`, or list the labels in entities.txt beside this file."
            )
            entities = Vocabulary("entity", tuple(str(column) for column in range(len(numbering.entity_of))))
        kinds = (entities, numbering.relations, Vocabulary("direction", DIRECTIONS), entities)
        hints = (hint, "", "", hint)
        return _queries([self._ids(*column) for column in zip(self.columns, kinds, hints, strict=True)])

    def _ids(self, labels: Sequence[str], vocabulary: Vocabulary, hint: str) -> npt.NDArray[np.int32]:
        try:
            return vocabulary.ids_of(labels)
        except DatasetError as error:
            row = next(row for row, label in enumerate(labels) if label not in vocabulary)
            problem = f"unknown entity {labels[row]!r}." if hint else str(error)
            lines = [number for number, line in enumerate(read_lines(self.path), start=1) if line]
            raise RanksError(f"{self.path}, line {lines[row]}: {problem}{hint}") from error


@dataclass(frozen=True)
class IdTable:
    """Queries as numbers, (4, Q): ids, and direction 0 (tail) or 1 (head)."""

    path: Path
    ids: npt.NDArray[np.int64]

    @classmethod
    def read(cls, path: Path) -> "IdTable":
        """Read an array of whole numbers, (Q, 4)."""
        rows = open_npy(path)
        if rows.ndim != 2 or rows.shape[1] != len(FIELDS) or rows.dtype.kind not in "iu" or not len(rows):
            raise RanksError(
                f"{path} has shape {rows.shape} of {rows.dtype}, expected (queries, 4) whole numbers: "
                f"{', '.join(FIELDS)} (0 tail, 1 head)."
            )
        return cls(path, rows.T.astype(np.int64))

    def relation_labels(self) -> set[str]:
        """Return all relations in the file, as labels."""
        return {str(relation) for relation in np.unique(self.ids[1]).tolist()}

    def queries(self, numbering: Numbering) -> Queries:
        """Translate the ids."""
        n_entities, n_relations = len(numbering.entity_of), len(numbering.relation_of)
        sizes = np.array([n_entities, n_relations, len(DIRECTIONS), n_entities])
        strange = ((self.ids < 0) | (self.ids >= sizes[:, None])).T
        if strange.any():
            row, field = np.argwhere(strange)[0].tolist()
            found = f"{FIELDS[field]} {self.ids[field, row]}"
            raise RanksError(f"{self.path}, row {row}: found {found}, expected 0 to {sizes[field] - 1}.")
        anchor, relation, direction, answer = self.ids
        return _queries(
            [numbering.entity_of[anchor], numbering.relation_of[relation], direction, numbering.entity_of[answer]]
        )


QueryTable = LabelTable | IdTable


def read_query_file(path: Path) -> QueryTable:
    """Read a query file: numbers if it is ``.npy``, else text."""
    return IdTable.read(path) if path.suffix == ".npy" else LabelTable.read(path)


def find_query_file(folder: Path, split: str) -> QueryTable:
    """Read the query file of a split, ``{split}_queries.tsv`` or ``.npy``."""
    names = [f"{split}_queries{ending}" for ending in (".tsv", ".npy")]
    found = [folder / name for name in names if (folder / name).is_file()]
    if len(found) != 1:
        problem = "has both {} and {}" if found else "has neither {} nor {}"
        raise RanksError(f"{folder} {problem.format(*names)}: expected one file with the queries of {split}.")
    return read_query_file(found[0])


def relation_vocabulary(labels: set[str], n_relations: int | None = None) -> Vocabulary:
    """Return the relations of query files without a data set: the numbers 0..R-1, or sorted labels."""
    ids = [int(label) for label in labels if label.isascii() and label.isdigit()]
    if len(ids) < len(labels):
        return Vocabulary.from_labels("relation", labels)
    return numbers(n_relations or max(ids) + 1)


def _queries(columns: Sequence[npt.NDArray[Any]]) -> Queries:
    """Build queries from four columns (Q,); queries of the same triple get the same triple number."""
    queries = Queries.from_columns(np.stack([*columns, np.zeros(len(columns[0]), dtype=np.int32)]))
    return replace(queries, triple=number_triples(triples_of(queries), queries.direction))
