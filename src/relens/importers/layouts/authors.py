"""Rank files in the layout of the paper's authors.

A folder holds ``ranks/{dataset}/{model}_{valid,test}_ranks.npy`` and ``dataset/{dataset}/{valid,test}_triples.npy``.
Ranks have one of two forms. The first has a column per entity and a row per query (anchor, relation, answer). The
second, for OGB's data sets, has 2 · (m + 1) columns: the head answer, its m negatives, the tail answer, its m
negatives.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset, cardinality_classes
from relens.data.known_answers import KnownAnswers
from relens.data.queries import EVALUATED, Queries
from relens.errors import RanksError, nearest
from relens.files import open_npy
from relens.importers.arrays import find_models
from relens.importers.dense import Dense, Matrix, check_columns
from relens.importers.importer import DATA, FILTER, MODELS, RELATIONS, Importer
from relens.importers.numbering import (
    IdRows,
    Numbering,
    check_in_split,
    check_room,
    directed_queries,
    find_mirror,
    find_n_relations,
    forward_triples,
    mirrored_triples,
    numbers,
    sampled_queries,
    twice,
)
from relens.options import Option
from relens.packs.pack import PackHeader
from relens.records import Provenance

Form = Literal["auto", "all", "ogb"]
OGB_COLUMNS = 1002


@dataclass(frozen=True)
class _Source:
    """The files of one data set: the rank files by model and split, and the rows of triples of each split."""

    name: str
    beside: Path
    files: dict[str, dict[str, Path]]
    rows: dict[str, IdRows]

    @classmethod
    def open(cls, folder: Path, dataset: str | None, models: Sequence[str]) -> Self:
        name = _dataset_name(folder / "ranks", dataset)
        beside = folder / "dataset" / name
        files = find_models(folder / "ranks" / name, "ranks", models)
        rows = {split: _read_rows(_triples_file(beside, split)) for split in EVALUATED}
        if _triples_file(beside, "train").is_file():
            rows = {"train": _read_rows(_triples_file(beside, "train")), **rows}
        return cls(name, beside, files, rows)

    @property
    def asked(self) -> dict[str, IdRows]:
        return {split: self.rows[split] for split in EVALUATED}

    @property
    def n_rows(self) -> int:
        return sum(map(len, self.rows.values()))

    @property
    def n_columns(self) -> int:
        return Matrix.open(next(iter(self.files.values()))["valid"]).file_columns

    def matrices(self, queries_per_row: int) -> dict[str, list[Matrix]]:
        found = {
            split: [Matrix.open(files[split], queries_per_row) for files in self.files.values()] for split in EVALUATED
        }
        check_columns([matrix for matrices in found.values() for matrix in matrices])
        return found


@dataclass(frozen=True)
class _Questions:
    """The queries of the rank files, in their own ids.

    ``n_relations`` is R. With ``mirrored``, ids r + R are relations of their own instead of a direction. With
    ``sampled``, the answer is column 0; otherwise columns are entities.
    """

    queries: dict[str, Queries]
    matrices: dict[str, list[Matrix]]
    n_entities: int
    n_relations: int
    sampled: bool = False
    mirrored: bool = False


def read_authors(
    folder: Path,
    dataset: str | None = None,
    *,
    models: Sequence[str] = (),
    n_relations: int | None = None,
    filtered: bool = False,
    form: Form = "auto",
    data: Dataset | None = None,
) -> dict[str, Dense]:
    """Read the ranks of valid and test.

    Args:
        folder: holds ``ranks`` and ``dataset``.
        dataset: the folder below those; may be omitted where there is only one.
        models: names in the order to keep; by default all, in alphabetical order.
        n_relations: R; by default that of ``data``, or found from the ids.
        filtered: leave out known answers and rank the rest again; otherwise ranks are taken as they are.
        form: whether the columns are ``all`` entities or samples as in ``ogb``; by default their number decides.
        data: the data set, for labels, classes of relations and known answers; without it, ids are labels.
    """
    source = _Source.open(folder, dataset, models)
    if data is not None and n_relations is None:
        n_relations = len(data.relations)
    sampled = form == "ogb" or (form == "auto" and source.n_columns == OGB_COLUMNS)
    if sampled and filtered:
        raise RanksError("sampled candidates cannot be filtered: the files do not say which entities they are.")
    questions = _ask_samples(source, n_relations, data) if sampled else _ask_all(source, n_relations)
    return _dense_splits(source, questions, data, filtered=filtered)


def _dense_splits(source: _Source, questions: _Questions, data: Dataset | None, *, filtered: bool) -> dict[str, Dense]:
    numbering = Numbering.read(source.beside, questions.n_entities, numbers(questions.n_relations), data)
    if len(numbering.relations) != questions.n_relations:
        raise RanksError(
            f"the triples of {source.beside} have {questions.n_relations} relations, the data set or the list of "
            f"relations has {len(numbering.relations)}. Pass the right number, `n_relations=R`, or omit it."
        )
    triples = _triples(source, questions, numbering, data)
    known = KnownAnswers.build(triples.values(), questions.n_entities, questions.n_relations) if filtered else None
    provenance = Provenance(
        dataset=source.name if data is None else data.name,
        fingerprint=_fingerprint(questions) if data is None else data.fingerprint,
        split="",
        filter_splits=tuple(triples) if filtered else (),
        candidates="sampled" if questions.sampled else "all",
    )
    cardinalities: tuple[str, ...] = ()
    if questions.mirrored:
        numbering = numbering.mirrored()
    elif "train" in triples:
        cardinalities = cardinality_classes(triples["train"], questions.n_relations)
    dense = {}
    for split, queries in questions.queries.items():
        header = PackHeader(
            models=tuple(source.files),
            relations=tuple(numbering.relations.labels),
            queries=numbering.queries(queries),
            provenance=replace(provenance, split=split),
            cardinalities=cardinalities,
        )
        column = np.zeros_like(queries.answer) if questions.sampled else queries.answer
        excluded = None if known is None else numbering.excluded(header.queries, known)
        dense[split] = Dense(header, "ranks", questions.matrices[split], column, excluded)
    return dense


def _ask_all(source: _Source, n_relations: int | None) -> _Questions:
    """Read a query per row; all entities are candidates."""
    if n_relations is None:
        n_relations = find_n_relations(source.asked)
        check_room(source.beside, "relation", n_relations, source.n_rows)
    n_entities = source.n_columns
    _check_ids(source, n_entities, 2 * n_relations)
    queries = {split: directed_queries(rows, n_relations) for split, rows in source.asked.items()}
    return _Questions(queries, source.matrices(queries_per_row=1), n_entities, n_relations)


def _ask_samples(source: _Source, n_relations: int | None, data: Dataset | None) -> _Questions:
    """Read two queries per row. There is one row per triple, or one with r and one with r + R."""
    matrices, n_relations_given = source.matrices(queries_per_row=2), n_relations
    n_ids = 1 + max(int(rows[:, 1].max(initial=0)) for rows in source.rows.values())
    n_entities = 1 + max(int(rows[:, [0, 2]].max(initial=0)) for rows in source.rows.values())
    ratios = {split: _rows_per_triple(source, split, matrices[split][0]) for split in EVALUATED}
    if len(set(ratios.values())) > 1:
        found = " and ".join(f"{ratio} rows per triple in {split}" for split, ratio in ratios.items())
        raise RanksError(f"the rank files have {found}: expected the same. Export both splits in the same way.")
    queries = {}
    if ratios["valid"] == 2:
        n_relations = n_relations or n_ids
        mirrored = True
        for split, rows in source.asked.items():
            queries[split] = sampled_queries(twice(rows, n_relations), np.tile(np.arange(len(rows)), 2))
    else:
        n_relations = n_relations or find_mirror(source.asked) or n_ids
        mirrored = n_ids > n_relations
        for split, rows in source.asked.items():
            triple = mirrored_triples(rows, n_relations) if mirrored else np.arange(len(rows))
            queries[split] = sampled_queries(rows, triple)
    n_entities = n_entities if data is None else len(data.entities)
    for kind, n, known in (("relation", n_ids, n_relations_given), ("entity", n_entities, data)):
        if known is None:
            check_room(source.beside, kind, n, source.n_rows)
    _check_ids(source, n_entities, 2 * n_relations if mirrored else n_relations)
    return _Questions(queries, matrices, n_entities, n_relations, sampled=True, mirrored=mirrored)


def _rows_per_triple(source: _Source, split: str, matrix: Matrix) -> int:
    n_rows, n_triples = matrix.shape[0] // 2, len(source.rows[split])
    if n_rows not in (n_triples, 2 * n_triples):
        raise RanksError(
            f"{matrix.place} has {n_rows} rows, {_triples_file(source.beside, split)} has {n_triples}: expected one "
            f"rank row per triple, or two (r, then r + R). They belong to different data sets."
        )
    return n_rows // max(n_triples, 1)


def _triples(
    source: _Source, questions: _Questions, numbering: Numbering, data: Dataset | None
) -> Mapping[str, npt.NDArray[np.int32]]:
    """Return the triples of all splits; a data set must have the triples of the queries."""
    n_relations = questions.n_relations
    found = {
        split: numbering.triples(
            rows[rows[:, 1] < n_relations] if questions.mirrored else forward_triples(rows, n_relations)
        )
        for split, rows in source.rows.items()
    }
    if data is None:
        return found
    for split in EVALUATED:
        check_in_split(_triples_file(source.beside, split), found[split], data, split)
    return data.splits


def _fingerprint(questions: _Questions) -> str:
    """Return an identity for the data set where none is given: a digest of the queries of both splits."""
    digests = " ".join(queries.fingerprint() for queries in questions.queries.values())
    return sha256(digests.encode()).hexdigest()[:16]


def _dataset_name(folder: Path, chosen: str | None) -> str:
    if not folder.is_dir():
        raise RanksError(f"{folder} is not a folder; expected {folder}/DATASET/MODEL_valid_ranks.npy and so on.")
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    if chosen is None and len(names) == 1:
        return names[0]
    if chosen is None:
        raise RanksError(f"{folder} has the data sets {', '.join(names) or '(none)'}: choose one with `dataset=…`.")
    if chosen not in names:
        raise RanksError(f"{folder} has no data set {chosen!r}; {nearest(chosen, names)}")
    return chosen


def _triples_file(folder: Path, split: str) -> Path:
    return folder / f"{split}_triples.npy"


def _read_rows(path: Path) -> IdRows:
    rows = open_npy(path)
    if rows.ndim != 2 or rows.shape[1] != 3 or rows.dtype.kind not in "iu":
        raise RanksError(f"{path} has shape {rows.shape} of {rows.dtype}, expected (n, 3) whole numbers: rows of ids.")
    if not len(rows):
        raise RanksError(f"{path} is empty: expected a row of ids per query.")
    return rows.astype(np.int64)


def _check_ids(source: _Source, n_entities: int, n_relations: int) -> None:
    sizes = np.array([n_entities, n_relations, n_entities])
    for split, rows in source.rows.items():
        strange = ((rows < 0) | (rows >= sizes)).any(axis=1)
        if strange.any():
            row = int(np.argmax(strange))
            raise RanksError(
                f"{_triples_file(source.beside, split)}, row {row}: found ids {tuple(rows[row].tolist())}, expected "
                f"entities below {n_entities} and relations below {n_relations}: ranks and triples belong to "
                f"different data sets, or `n_relations=R` is wrong."
            )


class AuthorsImporter(Importer):
    """Reads the authors' ranks."""

    name = "authors"
    description = (
        "DIR/ranks/DATASET/MODEL_{valid,test}_ranks.npy and DIR/dataset/DATASET/{valid,test}_triples.npy, as the "
        "paper's repository documents them"
    )
    order = 1
    options: Mapping[str, Option] = {
        "dataset": Option("Folder below DIR/ranks, if there are several."),
        "form": Option("Columns: all entities, or OGB's answers with samples.", "auto", words=get_args(Form)),
        "data": DATA,
        "models": MODELS,
        "n_relations": RELATIONS,
        "filtered": FILTER,
    }

    def read(self, folder: Path, **options: Any) -> dict[str, Dense]:
        """Return the ranks to pack, by split."""
        return read_authors(folder, **{**options, "filtered": bool(options["filtered"])})


AUTHORS = AuthorsImporter()
