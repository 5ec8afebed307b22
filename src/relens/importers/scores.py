"""Arrays with a query file: the score matrices of a folder, or arrays of scores or ranks named one by one.

A folder holds ``{model}_{valid,test}_scores.npy``, (queries, entities), and ``{valid,test}_queries.tsv`` or ``.npy``.
Columns are entities in the sorted order of their labels, or in that of ``entities.txt`` beside the query file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset, Vocabulary
from relens.data.queries import EVALUATED
from relens.errors import RanksError
from relens.importers.dense import Dense, Kind, Matrix, check_columns, check_scores, check_shapes
from relens.importers.model_files import check_models, find_models
from relens.importers.numbering import Numbering, check_in_split, triples_of
from relens.importers.query_files import QueryTable, find_query_file, read_query_file, relation_vocabulary
from relens.packs.pack import PackedRanks, PackHeader
from relens.packs.packing import fit_gap_scales
from relens.packs.store import check_pair
from relens.records import Provenance

SAMPLED_ROWS = 64
"""Validation queries that gap scales are fitted on: millions of gaps on graphs of the usual sizes."""


@dataclass(frozen=True)
class ArrayOptions:
    """How arrays with a query file are read.

    Attributes:
        data: the data set, for labels, the filter and classes of relations; without it, ids are labels.
        n_relations: R, where relations are numbers and neither a data set nor ``relations.txt`` tells it.
        filtered: leave out known answers and rank the rest; None means yes for scores with a data set.
        gaps: pack score gaps beside the ranks; None means yes for scores.
    """

    data: Dataset | None = None
    n_relations: int | None = None
    filtered: bool | None = None
    gaps: bool | None = None


def read_scores(
    folder: Path, *, models: Sequence[str] | None = None, options: ArrayOptions | None = None
) -> dict[str, Dense]:
    """Return what to pack for valid and test; models in alphabetical order or in the order of ``models``."""
    options = options or ArrayOptions()
    files = find_models(folder, "scores", models)
    matrices = {split: {name: Matrix.open(of[split]) for name, of in files.items()} for split in EVALUATED}
    every_matrix = [matrix for of_split in matrices.values() for matrix in of_split.values()]
    _check_entities(every_matrix, options.data)
    check_columns(every_matrix)
    tables = {split: find_query_file(folder, split) for split in EVALUATED}
    if len({type(table) for table in tables.values()}) > 1:
        raise RanksError(f"{folder} has query files of labels and of ids: expected the same kind for both splits.")
    labels = set[str]().union(*(table.relation_labels() for table in tables.values()))
    relations = relation_vocabulary(labels, options.n_relations)
    numbering = Numbering.read(folder, every_matrix[0].file_columns, relations, options.data)
    digest = _digest([table.queries(numbering).fingerprint() for table in tables.values()])
    dense = {
        split: _dense("scores", matrices[split], table, numbering, Provenance(folder.name, digest, split), options)
        for split, table in tables.items()
    }
    if options.gaps is not False:
        scales = fit_scales(dense["valid"])
        dense = {split: _with_scales(of_split, scales) for split, of_split in dense.items()}
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
    """Return what to pack for one split, from one file per model name.

    ``other`` is the pack of the other split where there is one, which this one must fit: without a data set the
    relations are those of ``other``, and the scales of score gaps are always those of valid.
    """
    options = options or ArrayOptions()
    check_models(list(files))
    matrices = {name: Matrix.open(path) for name, path in files.items()}
    _check_entities(list(matrices.values()), options.data)
    table = read_query_file(query_file)
    if other is None:
        relations = relation_vocabulary(table.relation_labels(), options.n_relations)
    else:
        relations = Vocabulary("relation", other.relations)
    n_columns = next(iter(matrices.values())).file_columns
    numbering = Numbering.read(query_file.parent, n_columns, relations, options.data)
    digest = _digest([str(n_columns), *numbering.relations.labels])
    name = query_file.resolve().parent.name if other is None else other.provenance.dataset
    dense = _dense(kind, matrices, table, numbering, Provenance(name, digest, split), options)
    gaps = kind == "scores" if options.gaps is None else options.gaps
    if gaps:
        dense = _with_scales(dense, _scales(dense, other))
    if other is not None:
        check_pair(*((dense.header, other) if split == "valid" else (other, dense.header)))
    return dense


def fit_scales(dense: Dense) -> npt.NDArray[np.float64]:
    """Fit the scales of score gaps on queries spread evenly over the validation split, (N,)."""
    check_shapes(dense)
    n_queries = len(dense.header.queries)
    rows = np.unique(np.linspace(0, n_queries - 1, min(n_queries, SAMPLED_ROWS)).astype(np.int64))
    sample = []
    for matrix in dense.matrices:
        picked = np.concatenate([matrix.rows(row, row + 1) for row in rows.tolist()])
        for row, values in zip(rows.tolist(), picked, strict=True):
            check_scores(matrix, values[None], row)
        sample.append(picked)
    return fit_gap_scales(sample, dense.answer_column[rows], dense.left_out(rows))


def _check_entities(matrices: Sequence[Matrix], data: Dataset | None) -> None:
    """Refuse a matrix without a column for each entity of the data set."""
    for matrix in matrices:
        if data is not None and matrix.file_columns != len(data.entities):
            raise RanksError(
                f"{matrix.place} has {matrix.file_columns} columns, the data set {data.name!r} has "
                f"{len(data.entities)} entities: expected one column per entity. Export it again from that data set."
            )


def _dense(
    kind: Kind,
    matrices: Mapping[str, Matrix],
    table: QueryTable,
    numbering: Numbering,
    provenance: Provenance,
    options: ArrayOptions,
) -> Dense:
    queries, data = table.queries(numbering), options.data
    filtered = options.filtered
    if filtered is None:
        filtered = kind == "scores" and data is not None
    if data is None:
        if filtered:
            raise RanksError("known answers are those of a data set: name it with --data, or do not filter.")
        header = PackHeader(tuple(matrices), numbering.relations.labels, queries, provenance)
    else:
        check_in_split(table.path, triples_of(queries), data, provenance.split)
        provenance = replace(
            provenance,
            dataset=data.name,
            fingerprint=data.fingerprint,
            filter_splits=tuple(data.splits) if filtered else (),
        )
        header = PackHeader(
            tuple(matrices), data.relations.labels, queries, provenance, cardinalities=data.cardinalities
        )
    known = None
    if filtered and data is not None:
        known = numbering.known(data.known_answers)
    return Dense(header, kind, list(matrices.values()), numbering.columns()[queries.answer], known)


def _scales(dense: Dense, other: PackedRanks | None) -> npt.NDArray[np.float64]:
    """Return the scales of a split: fitted on valid, taken over from it for test."""
    if dense.kind == "ranks":
        raise RanksError("ranks have no score gaps: give scores, or --no-gaps.")
    if dense.header.provenance.split == "valid":
        return fit_scales(dense)
    if other is None or other.gap_scales is None:
        raise RanksError("score gaps of test use the scales of valid: pack the scores of valid first, or --no-gaps.")
    return other.gap_scales


def _with_scales(dense: Dense, scales: npt.NDArray[np.float64]) -> Dense:
    return replace(dense, header=replace(dense.header, gap_scales=scales))


def _digest(parts: Sequence[str]) -> str:
    """Return what stands for the data set where none is given."""
    return sha256("\n".join(parts).encode()).hexdigest()[:16]
