"""Arrays of ranks or scores, (queries, entities), one file per model, with a query file.

Columns are entities in the sorted order of their labels, or in the order of ``entities.txt`` beside the query file.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset, Vocabulary
from relens.data.queries import EVALUATED
from relens.errors import RanksError, nearest
from relens.importers.dense import Dense, Kind, Matrix, check_columns, fit_scales, with_scales
from relens.importers.numbering import Numbering, check_in_split, triples_of
from relens.importers.query_files import QueryTable, find_query_file, read_query_file, relation_vocabulary
from relens.packs.pack import PackedRanks, PackHeader
from relens.packs.store import check_pair
from relens.records import Provenance


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
    relations = relation_vocabulary(labels, options.n_relations)
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
        relations = relation_vocabulary(table.relation_labels(), options.n_relations)
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
