"""Arrays of ranks or scores, (queries, entities), one file per model, with a query file.

Columns are entities in the sorted order of their labels, or in the order of ``entities.txt`` beside the query file.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset
from relens.data.queries import DIRECTIONS, EVALUATED, Queries
from relens.data.tsv import read_lines, read_rows
from relens.data.vocabulary import Vocabulary
from relens.errors import DatasetError, RanksError, nearest
from relens.files import open_npy
from relens.importers.dense import Dense, Kind, Matrix, check_columns, fit_scales, with_scales
from relens.importers.numbering import Numbering, check_in_split, check_room, number_triples, numbers, triples_of
from relens.packs.pack import PackedRanks, PackHeader
from relens.packs.store import check_pair
from relens.records import Provenance

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
        negative = np.flatnonzero(self.ids[1] < 0)
        if len(negative):
            raise RanksError(
                f"{self.path}, row {negative[0]}: found relation {self.ids[1, negative[0]]}, expected 0 or more."
            )
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


def relation_vocabulary(place: Path, labels: set[str], n_relations: int | None = None) -> Vocabulary:
    """Return the relations of query files without a data set: the numbers 0..R-1, or sorted labels.

    ``place`` names the files in errors.
    """
    if not all(label.isascii() and label.isdigit() for label in labels):
        return Vocabulary.from_labels("relation", labels)
    if n_relations is None:
        longest = max(labels, key=len)
        n_relations = 1 + (max(map(int, labels)) if len(longest) < 20 else 10**20)
        check_room(place, "relation", n_relations, len(labels))
    return numbers(n_relations)


def _queries(columns: Sequence[npt.NDArray[Any]]) -> Queries:
    """Build queries from four columns (Q,); queries of the same triple get the same triple number."""
    queries = Queries.from_columns(np.stack([*columns, np.zeros(len(columns[0]), dtype=np.int32)]))
    return replace(queries, triple=number_triples(triples_of(queries), queries.direction))


@dataclass(frozen=True)
class ArrayOptions:
    """How arrays with a query file are read.

    Attributes:
        data: the data set, for labels, known answers and classes of relations; without it, ids are labels.
        n_relations: R, where relations are numbers, without a data set and without ``relations.txt``.
        filtered: leave out known answers and rank the rest; None means yes for scores with a data set.
        gaps: pack score gaps beside the ranks; None means yes for scores.
    """

    data: Dataset | None = None
    n_relations: int | None = None
    filtered: bool | None = None
    gaps: bool | None = None


def scores_with_queries(
    folder: Path, matrices: Mapping[str, Mapping[str, Matrix]], options: ArrayOptions
) -> dict[str, Dense]:
    """Combine the scores of valid and test, by split and model, with the query files of ``folder``."""
    every_matrix = [matrix for by_name in matrices.values() for matrix in by_name.values()]
    check_entities(every_matrix, options.data)
    check_columns(every_matrix)
    tables = {split: find_query_file(folder, split) for split in EVALUATED}
    if len({type(table) for table in tables.values()}) > 1:
        raise RanksError(f"{folder} has query files of labels and of ids: expected the same kind for both splits.")
    labels = set[str]().union(*(table.relation_labels() for table in tables.values()))
    relations = relation_vocabulary(folder, labels, options.n_relations)
    numbering = Numbering.read(folder, every_matrix[0].file_columns, relations, options.data)
    digest = digest_of([table.queries(numbering).fingerprint() for table in tables.values()])
    dense = {
        split: dense_split("scores", matrices[split], table, numbering, Provenance(folder.name, digest, split), options)
        for split, table in tables.items()
    }
    if options.gaps is not False:
        scales = fit_scales(dense["valid"])
        dense = {split: with_scales(scores, scales) for split, scores in dense.items()}
    return dense


def read_arrays(
    kind: Kind,
    files: Mapping[str, Path],
    query_file: Path,
    split: str,
    *,
    other: PackedRanks | None = None,
    options: ArrayOptions | None = None,
) -> Dense:
    """Read the arrays of one split, a file per model.

    ``other`` is the pack of the other split, if there is one. The new split must fit it. Without a data set the
    relations are those of ``other``. The scales of score gaps are always those of valid.
    """
    options = options or ArrayOptions()
    check_models(list(files))
    matrices = {name: Matrix.open(path) for name, path in files.items()}
    check_entities(list(matrices.values()), options.data)
    table = read_query_file(query_file)
    if other is None:
        relations = relation_vocabulary(query_file, table.relation_labels(), options.n_relations)
    else:
        relations = Vocabulary("relation", other.relations)
    n_columns = next(iter(matrices.values())).file_columns
    numbering = Numbering.read(query_file.parent, n_columns, relations, options.data)
    digest = digest_of([str(n_columns), *numbering.relations.labels])
    name = query_file.resolve().parent.name if other is None else other.provenance.dataset
    dense = dense_split(kind, matrices, table, numbering, Provenance(name, digest, split), options)
    gaps = kind == "scores" if options.gaps is None else options.gaps
    if gaps:
        dense = with_scales(dense, _scales(dense, other))
    if other is not None:
        check_pair(*((dense.header, other) if split == "valid" else (other, dense.header)))
    return dense


def find_models(folder: Path, kind: Kind, chosen: Sequence[str] = ()) -> dict[str, dict[str, Path]]:
    """Return the file of each model and split, ``{model: {split: path}}``.

    Models are in alphabetical order, or in the order of ``chosen``. Every model must have a file for both splits.
    """
    if not folder.is_dir():
        raise RanksError(f"{folder} is not a folder; expected one with files such as transe_valid_{kind}.npy")
    pattern = re.compile(rf"(.+)_({'|'.join(EVALUATED)})_{kind}\.npy")
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        if match := pattern.fullmatch(path.name):
            found.setdefault(match[1], {})[match[2]] = path
    if not found:
        raise RanksError(f"{folder} has no files named MODEL_valid_{kind}.npy and MODEL_test_{kind}.npy")
    names = check_models(chosen or list(found))
    for name in names:
        if name not in found:
            raise RanksError(f"{folder} has no model {name!r}; {nearest(name, found)}")
        missing = [split for split in EVALUATED if split not in found[name]]
        if missing:
            raise RanksError(
                f"model {name!r} has no {name}_{missing[0]}_{kind}.npy in {folder}: expected a file for each of "
                f"{' and '.join(EVALUATED)}. Add it, or choose the other models with `models=…`."
            )
    return {name: found[name] for name in names}


def check_models(names: Sequence[str]) -> Sequence[str]:
    """Raise an error for names that differ only in case, and for names that tables cannot show."""
    seen: dict[str, str] = {}
    for name in names:
        if not name.strip() or not name.isprintable():
            raise RanksError(f"{name!r} cannot name a model: expected printable text. Rename it.")
        if name.casefold() in seen:
            raise RanksError(f"two models are called {seen[name.casefold()]!r} and {name!r}: rename or leave out one.")
        seen[name.casefold()] = name
    return names


def check_entities(matrices: Sequence[Matrix], data: Dataset | None) -> None:
    """Raise an error for a matrix without a column for each entity of the data set."""
    for matrix in matrices:
        if data is not None and matrix.file_columns != len(data.entities):
            raise RanksError(
                f"{matrix.place} has {matrix.file_columns} columns, the data set {data.name!r} has "
                f"{len(data.entities)} entities: expected one column per entity. Export it again from that data set."
            )


def dense_split(
    kind: Kind,
    matrices: Mapping[str, Matrix],
    table: QueryTable,
    numbering: Numbering,
    provenance: Provenance,
    options: ArrayOptions,
) -> Dense:
    """Return the arrays of a split, to be packed without score gaps."""
    queries, data = table.queries(numbering), options.data
    filtered = options.filtered
    if filtered is None:
        filtered = kind == "scores" and data is not None
    if data is None:
        if filtered:
            raise RanksError("known answers are those of a data set: pass `data=…`, or `filtered=False`.")
        header = PackHeader(tuple(matrices), tuple(numbering.relations.labels), queries, provenance)
    else:
        check_in_split(table.path, triples_of(queries), data, provenance.split)
        provenance = replace(
            provenance,
            dataset=data.name,
            fingerprint=data.fingerprint,
            filter_splits=tuple(data.splits) if filtered else (),
        )
        header = PackHeader(
            tuple(matrices), tuple(data.relations.labels), queries, provenance, cardinalities=data.cardinalities
        )
    excluded = numbering.excluded(queries, data.known_answers) if filtered and data is not None else None
    return Dense(header, kind, list(matrices.values()), numbering.columns()[queries.answer], excluded)


def _scales(dense: Dense, other: PackedRanks | None) -> npt.NDArray[np.float64]:
    """Return the scales of a split: fitted on valid, and reused for test."""
    if dense.kind == "ranks":
        raise RanksError("ranks have no score gaps: pass scores, or `gaps=False`.")
    if dense.header.provenance.split == "valid":
        return fit_scales(dense)
    if other is None or other.gap_scales is None:
        raise RanksError(
            "score gaps of test use the scales of valid: pack the scores of valid first, or pass `gaps=False`."
        )
    return other.gap_scales


def digest_of(parts: Sequence[str]) -> str:
    """Return an identity for the data set where none is given."""
    return sha256("\n".join(parts).encode()).hexdigest()[:16]
