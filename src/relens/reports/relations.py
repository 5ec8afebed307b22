"""The relations in a report: MRR of the models and the ensemble per relation and direction, with paired tests."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.queries import DIRECTIONS, EVALUATED, Queries
from relens.evaluation import model_ranks
from relens.reports.material import Material
from relens.reports.style import method_label, p, signed
from relens.significance import PairedTest, paired_test
from relens.tables.table import Column, Look, Row, Table, Value

MIN_QUERIES = 10
"""Rows with fewer test queries are not tested, because too few of their 2^n sign patterns could be extreme."""
ALPHA = 0.05
RESAMPLES = (999, 9_999)
"""Lowest and highest number of sign patterns of a test."""
FLIPS = 2_000_000_000
"""Signs to flip in all tests together, so that large splits get fewer patterns."""

FIXED_COLUMNS = 11
"""Columns of the table of relations that do not depend on the number of models."""
GAIN = FIXED_COLUMNS - 4
"""Position of the gain among them; its p follows."""
LISTED = 2_000
"""Number of relations in a table of the page, the largest; a CSV file beside the page has all."""

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RelationRow:
    """One relation in one direction.

    Attributes:
        relation, direction: their labels.
        cardinality: class of the relation; empty if unknown.
        valid, test: number of queries of each split.
        mrr: test MRR of each model, (N,); NaN without test queries.
        ensemble: test MRR of the ensemble.
        weights: weights of the models in the ensemble, (N,); their sum is 1.
        gain: MRR of the ensemble minus that of the best single model.
        own: whether the weights were searched for this group; otherwise they are the fallback.
        paired: paired test of the ensemble against the best single model; None with fewer than ``MIN_QUERIES`` test
            queries.
        adjusted: p-value of ``paired``, adjusted for the number of tests (Benjamini-Hochberg).
    """

    relation: str
    direction: str
    cardinality: str
    valid: int
    test: int
    mrr: Values
    ensemble: float
    weights: Values
    own: bool
    gain: float
    paired: PairedTest | None = None
    adjusted: float | None = None

    @property
    def verdict(self) -> str:
        """The result of the test: ``untested``, ``open`` (no clear difference), ``better`` or ``worse``."""
        if self.paired is None:
            return "untested"
        return "open" if not self.significant else "better" if self.gain > 0 else "worse"

    @property
    def best(self) -> int | None:
        """The model with the highest test MRR here, the first of equals; None without test queries."""
        return int(np.argmax(self.mrr)) if self.test else None

    @property
    def equal(self) -> bool:
        """Whether the search found no weights that were better on validation than equal ones."""
        return self.own and all_equal(self.weights)

    @property
    def significant(self) -> bool:
        """Whether the adjusted p-value is below ``ALPHA``."""
        return self.adjusted is not None and self.adjusted < ALPHA


def relation_rows(material: Material) -> list[RelationRow]:
    """Return a row for every relation and direction that has queries, the largest relations first."""
    test, weights = material.test, material.comparison.weights[material.ensemble].aligned_to(material.test)
    sizes = {split: _sizes(material, split) for split in EVALUATED}  # (R, 2) each
    singles = np.array([1 / model_ranks(test, model).realistic for model in test.models])  # (N, Q)
    ours = 1 / weights.answer_ranks(test).realistic  # (Q,)
    baseline = singles[test.model_index(material.comparison.best_single)]
    normalised = weights.normalised()
    relation_size = (sizes["valid"] + sizes["test"]).sum(axis=1)
    ends = np.cumsum(sizes["test"])
    order = np.argsort(_pairs(test.queries), kind="stable")  # the queries of pair i end at ends[i]
    rows, tests = [], []
    for r in np.argsort(-relation_size, kind="stable"):
        for d, direction in enumerate(DIRECTIONS):
            if not sizes["valid"][r, d] + sizes["test"][r, d]:
                continue
            end = ends[2 * r + d]
            at = order[end - sizes["test"][r, d] : end]
            group = weights.grouping.table[r, d]
            rows.append(
                RelationRow(
                    relation=test.relations[r],
                    direction=direction,
                    cardinality=test.cardinalities[r] if test.cardinalities else "",
                    valid=int(sizes["valid"][r, d]),
                    test=len(at),
                    mrr=singles[:, at].mean(axis=1) if len(at) else np.full(test.n_models, np.nan),
                    ensemble=float(ours[at].mean()) if len(at) else np.nan,
                    weights=normalised[group],
                    own=bool(weights.own[group]),
                    gain=float((ours[at] - baseline[at]).mean()) if len(at) else np.nan,
                )
            )
            tests.append(_paired(material, ours[at], baseline[at], test.queries.triple[at]))
    return _with_tests(rows, tests)


def relation_table(material: Material, rows: Sequence[RelationRow]) -> Table:
    """Return a table of rows for the page: ``FIXED_COLUMNS``, then an MRR and a weight for each model."""
    models = material.test.models
    reference = material.test.model_index(material.comparison.best_single)
    shown = tuple(_table_row(row, models, reference) for row in rows)
    return Table("All relations, both directions", _columns(material), shown)


def relations_csv(material: Material, rows: Sequence[RelationRow]) -> str:
    """Return all rows as CSV, with the columns of ``relation_table`` and exact values."""
    models = material.test.models
    reference = material.test.model_index(material.comparison.best_single)
    exact = tuple(Row(_values(row, models, reference)) for row in rows)
    return Table("", _columns(material), exact).to_csv()


def _columns(material: Material) -> tuple[Column, ...]:
    ensemble, reference = method_label(material.ensemble), material.comparison.best_single
    return (
        Column("relation", align="left"),
        Column("direction", align="left"),
        Column("test queries", ",d"),
        Column("validation queries", ",d"),
        Column("class", align="left"),
        Column(f"MRR of {ensemble}", ".4f"),
        Column(f"MRR of {reference}", ".4f"),
        Column(f"gain over {reference}"),
        Column("p of that gain", better="lower"),
        Column("best model here", align="left"),
        Column("its MRR", ".4f"),
        *(Column(model, ".4f", group="MRR") for model in material.test.models),
        *(Column(model, ".3f", group="weight") for model in material.test.models),
    )


def _table_row(row: RelationRow, models: Sequence[str], reference: int) -> Row:
    values = list(_values(row, models, reference))
    values[GAIN] = f"{signed(row.gain)}{'*' if row.significant else ''}"
    values[GAIN + 1] = None if row.adjusted is None else p(row.adjusted)
    looks = {GAIN: Look(css="s")} if row.significant else {}
    if row.test:
        looks |= {FIXED_COLUMNS + i: Look(value) for i, value in enumerate(row.mrr.tolist())}
    css = "f" if not row.own else "e" if row.equal else ""
    first = FIXED_COLUMNS + len(models)
    looks |= {first + i: Look(None if row.equal else value, css) for i, value in enumerate(row.weights.tolist())}
    return Row(tuple(values), css=row.verdict, looks=looks)


def _values(row: RelationRow, models: Sequence[str], reference: int) -> tuple[Value, ...]:
    """Return the exact values of a row, by the columns of the table."""
    mrr, weights = [value if row.test else None for value in row.mrr.tolist()], row.weights.tolist()
    best = (None, None) if row.best is None else (models[row.best], mrr[row.best])
    ours, gain = (row.ensemble, row.gain) if row.test else (None, None)
    facts = (row.relation, row.direction, row.test, row.valid, row.cardinality or None)
    return (*facts, ours, mrr[reference], gain, row.adjusted, *best, *mrr, *weights)


def _sizes(material: Material, split: str) -> npt.NDArray[np.int64]:
    queries = (material.valid if split == "valid" else material.test).queries
    n = len(material.test.relations)
    return np.bincount(_pairs(queries), minlength=2 * n).reshape(n, 2)


def _pairs(queries: Queries) -> npt.NDArray[np.int64]:
    """Return the number 2r + d of the relation and direction of each query, (Q,)."""
    return 2 * queries.relation.astype(np.int64) + queries.direction


def _paired(material: Material, ours: Values, baseline: Values, triple: npt.NDArray[Any]) -> PairedTest | None:
    if len(ours) < MIN_QUERIES:
        return None
    seed = material.evaluation(material.ensemble).seed
    resamples = int(np.clip(FLIPS // material.test.n_queries, *RESAMPLES))
    return paired_test(
        ours, baseline, triple, reference=material.comparison.best_single, seed=seed, resamples=resamples
    )


def _with_tests(rows: list[RelationRow], tests: list[PairedTest | None]) -> list[RelationRow]:
    done = [i for i, test in enumerate(tests) if test is not None]
    adjusted = adjusted_p_values(np.array([test.p_value for test in tests if test is not None]))
    found = dict(zip(done, adjusted.tolist(), strict=True))
    return [
        replace(row, paired=test, adjusted=found.get(i)) for i, (row, test) in enumerate(zip(rows, tests, strict=True))
    ]


def all_equal(weights: Values) -> bool:
    """Return whether there are several models and all have the same weight, (N,)."""
    return len(weights) > 1 and bool(np.all(weights == weights[0]))


def adjusted_p_values(p_values: Values) -> Values:
    """Adjust ``p_values`` (m,) for m comparisons (Benjamini and Hochberg 1995), (m,).

    Of the rows with an adjusted p-value below α, at most the share α is expected to be a false alarm.
    """
    m = len(p_values)
    order = np.argsort(p_values)[::-1]
    scaled = p_values[order] * m / np.arange(m, 0, -1)
    adjusted = np.empty(m)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled), 1.0)
    return adjusted
