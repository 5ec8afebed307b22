"""Weights in other formats: the paper authors' ``.npy`` tables, and CSV."""

import csv
import io
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.grouping import Grouping
from relens.data.queries import HEAD, TAIL
from relens.ensemble.grid import WEIGHT_LIMIT, Weights, check_weights, to_grid, uniform
from relens.ensemble.inputs.rank import RANK
from relens.ensemble.weights import EnsembleWeights
from relens.errors import WeightsError, nearest
from relens.files import open_npy, whole_file
from relens.packs.pack import PackedRanks

FALLBACK_LABEL = "(fallback)"
IMPLIED_INPUT = RANK.name
"""The input of weights in a file that does not name one, as these formats do not."""
ROUNDING = Fraction(1, 2**50)
"""Most error of a ratio of two numbers that were divided by their sum in float64."""


def export_npy(weights: EnsembleWeights, path: Path) -> None:
    """Write the authors' table: float64, a row per group, each scaled to sum 1, models in order.

    Grouped by relation, row r is relation r. Otherwise there are 2R rows: row r is for tails of relation r, row r + R
    for its heads.
    """
    normalised = weights.normalised()
    groups = weights.grouping.table
    rows = (
        groups[:, TAIL] if weights.grouping.scheme == "relation" else np.concatenate([groups[:, TAIL], groups[:, HEAD]])
    )
    with whole_file(path) as aside, aside.open("wb") as file:
        np.save(file, normalised[rows], allow_pickle=False)


def import_npy(path: Path, packed: PackedRanks, models: Sequence[str], input: str = IMPLIED_INPUT) -> EnsembleWeights:
    """Read an authors' table for the models, relations and data set of ``packed``; ``models`` names its columns.

    Weights have the ratio of each row, exactly if that is one of whole numbers up to 2**20, as in exported tables.
    Up to R rows are one per relation. More rows, up to 2R, are one per relation and direction as in ``export_npy``. The
    authors' tables stop at the largest id in the split; missing rows at the end fall back to equal weights.
    """
    table = open_npy(path)
    n_relations = len(packed.relations)
    if table.ndim != 2 or table.shape[1] != len(models) or not 1 <= len(table) <= 2 * n_relations:
        raise WeightsError(
            f"{path}: found an array of shape {table.shape}, expected (rows, {len(models)}): a column for each of "
            f"{', '.join(models)} and at most {2 * n_relations} rows, one per relation and direction"
        )
    if not np.issubdtype(table.dtype, np.number) or np.iscomplexobj(table):
        raise WeightsError(f"{path}: found values of type {table.dtype}, expected real numbers")
    rows = [_grid_weights(vector, f"{path}, row {row}") for row, vector in enumerate(np.asarray(table, np.float64))]
    if len(table) <= n_relations:
        grouping = Grouping.by_relation(packed.relations)
        groups = grouping.table[: len(table), TAIL]
    else:
        grouping = Grouping.by_relation_and_direction(packed.relations)
        groups = np.concatenate([grouping.table[:, TAIL], grouping.table[: len(table) - n_relations, HEAD]])
    vectors = dict(zip(groups.tolist(), rows, strict=True))
    return _imported(packed, models, grouping, vectors, uniform(len(models)), input, path)


def export_csv(weights: EnsembleWeights) -> str:
    """Return a CSV table: group, validation queries, the grid weight of each model; the fallback comes last."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["group", "queries", *weights.models])
    for g in np.flatnonzero(weights.own):
        writer.writerow([weights.grouping.labels[g], int(weights.support[g]), *weights.table[g].tolist()])
    writer.writerow([FALLBACK_LABEL, "", *weights.fallback.tolist()])
    return text.getvalue()


def import_csv(path: Path, packed: PackedRanks, group: str, input: str = IMPLIED_INPUT) -> EnsembleWeights:
    """Read a table as ``export_csv`` writes it; ``group`` says which grouping its labels belong to.

    The column ``queries`` and the row ``(fallback)`` may be missing. Weights may be any non-negative numbers.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header, *lines = list(csv.reader(file)) or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise WeightsError(f"{path} cannot be read as CSV: {error}") from error
    models = [column for column in header[1:] if column != "queries"]
    if header[:1] != ["group"] or not models:
        raise WeightsError(f"{path}: the first line is {header}, expected group, queries and the names of the models")
    grouping = Grouping.from_spec(group, packed.relations)
    number = {label: g for g, label in enumerate(grouping.labels)}
    vectors: dict[str, Weights] = {}
    for at, line in enumerate(lines, start=2):
        if not line:
            continue
        where = f"{path}, line {at}"
        if len(line) != len(header):
            raise WeightsError(f"{where}: found {len(line)} fields, expected {len(header)}")
        label = line[0]
        if label not in number and label != FALLBACK_LABEL:
            raise WeightsError(f"{where}: unknown group {label!r}; {nearest(label, number)}")
        if label in vectors:
            raise WeightsError(f"{where}: group {label!r} has two lines; keep one")
        vectors[label] = _numbers([line[header.index(model)] for model in models], where)
    fallback = vectors.pop(FALLBACK_LABEL, uniform(len(models)))
    by_group = {number[label]: vector for label, vector in vectors.items()}
    return _imported(packed, models, grouping, by_group, fallback, input, path)


def _numbers(fields: list[str], where: str) -> Weights:
    try:
        real = np.array([float(field) for field in fields])
    except ValueError:
        raise WeightsError(f"{where}: found {fields}, expected numbers") from None
    return _grid_weights(real, where)


def _grid_weights(real: npt.NDArray[np.float64], where: str) -> Weights:
    """Return grid weights in the ratio of ``real`` (N,): exactly where the grid has it, rounded otherwise."""
    check_weights(real, where)
    if real.max() <= WEIGHT_LIMIT and np.array_equal(np.rint(real), real):
        return real.astype(np.int64)
    # Different ratios of grid weights are 2**-40 apart: what is as close as rounding to one of them comes from it.
    shares = [Fraction(share) for share in (real / real.max()).tolist()]
    near = [share.limit_denominator(WEIGHT_LIMIT) for share in shares]
    largest = math.lcm(*(share.denominator for share in near))
    if largest > WEIGHT_LIMIT or any(abs(a - b) > ROUNDING for a, b in zip(near, shares, strict=True)):
        return to_grid(real)
    return np.array([int(share * largest) for share in near], dtype=np.int64)


def _imported(
    packed: PackedRanks,
    models: Sequence[str],
    grouping: Grouping,
    vectors: dict[int, npt.NDArray[Any]],
    fallback: Weights,
    input: str,
    path: Path,
) -> EnsembleWeights:
    for model in models:
        packed.model_index(model)
    if len(set(models)) != len(models):
        raise WeightsError(f"{path}: a model is named twice among {', '.join(models)}; each needs one column")
    table = np.tile(fallback, (len(grouping), 1))
    own = np.zeros(len(grouping), dtype=bool)
    for g, vector in vectors.items():
        table[g], own[g] = vector, True
    return EnsembleWeights(
        models=tuple(models),
        relations=packed.relations,
        grouping=grouping,
        table=table,
        own=own,
        fallback=fallback,
        support=np.bincount(grouping.groups_of(packed.queries), minlength=len(grouping)).astype(np.int64),
        input=input,
        settings={"method": "imported", "file": path.name, "input": input},
        dataset=(packed.provenance.dataset, packed.provenance.fingerprint),
        gap_scales=None if packed.gap_scales is None else packed.select_models(models).gap_scales,
    )
