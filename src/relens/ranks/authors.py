"""Rank files as the paper's authors lay them out.

A folder holds ``ranks/{dataset}/{model}_{valid,test}_ranks.npy`` and ``dataset/{dataset}/{valid,test}_triples.npy``.
Ranks come in two forms: one column per entity and one row per query (anchor, relation, answer); or, on OGB's data
sets, 2 · (m + 1) columns: the head answer, its m negatives, the tail answer, its m negatives.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

import numpy as np

from relens.data.dataset import Dataset
from relens.data.filters import KnownAnswers
from relens.data.queries import Queries
from relens.data.statistics import cardinality_classes
from relens.errors import RanksError, nearest
from relens.files import open_npy
from relens.ranks.dense import Dense, Matrix
from relens.ranks.directions import (
    Rows,
    directed_queries,
    find_mirror,
    find_n_relations,
    forward_triples,
    mirrored_triples,
    sampled_queries,
    twice,
)
from relens.ranks.manifest import PackHeader
from relens.ranks.model_files import SPLITS, find_models
from relens.ranks.numbering import Numbering, check_in_split
from relens.ranks.packed import Provenance

Form = Literal["auto", "all", "ogb"]
OGB_COLUMNS = 1002


@dataclass(frozen=True)
class _Questions:
    """What the rows of the rank files ask, in the ids of the files.

    ``n_relations`` is R; with ``mirrored``, ids r + R are relations of their own instead of a direction.
    """

    queries: dict[str, Queries]
    n_relations: int
    mirrored: bool = False


def read_authors(
    folder: Path,
    dataset: str | None = None,
    *,
    models: Sequence[str] | None = None,
    n_relations: int | None = None,
    filtered: bool = False,
    form: Form = "auto",
    data: Dataset | None = None,
) -> dict[str, Dense]:
    """Return what to pack for valid and test.

    Args:
        folder: holds ``ranks`` and ``dataset``.
        dataset: which folder below those; may be left out where there is one.
        models: names in the order to keep; all in alphabetical order by default.
        n_relations: R; that of ``data``, or found from the ids, by default.
        filtered: leave out known answers and rank the rest anew; otherwise ranks are taken as they are.
        form: whether the columns are ``all`` entities or samples as in ``ogb``; told by their number by default.
        data: the data set, for labels, classes of relations and the filter; without it, ids are labels.
    """
    name = _dataset_name(folder / "ranks", dataset)
    files = find_models(folder / "ranks" / name, "ranks", models)
    beside = folder / "dataset" / name
    rows = _read_splits(beside)
    if n_relations is None and data is not None:
        n_relations = len(data.relations)
    sampled = form == "ogb" or (form == "auto" and _n_columns(files) == OGB_COLUMNS)
    matrices = {
        split: [Matrix.open(paths[split], queries_per_row=2 if sampled else 1) for paths in files.values()]
        for split in SPLITS
    }
    if sampled:
        questions = _sampled_questions(rows, matrices, n_relations)
        largest = max(int(ids[:, [0, 2]].max(initial=0)) for ids in rows.values())
        n_entities = largest + 1 if data is None else len(data.entities)
    else:
        asked = {split: rows[split] for split in SPLITS}
        n_relations = n_relations or find_n_relations(asked)
        questions = _Questions({s: directed_queries(ids, n_relations) for s, ids in asked.items()}, n_relations)
        n_entities = _n_columns(files)
    for split, ids in rows.items():
        _check_ids(beside / f"{split}_triples.npy", ids, n_entities, questions.n_relations)
    numbering = Numbering.read(beside, n_entities, questions.n_relations, data)
    triples = _triples(beside, rows, questions, numbering, data)
    header = _header(name, tuple(files), questions, numbering, triples, data)
    ...
