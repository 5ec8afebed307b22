"""Relation by relation: who is good where, what the ensemble adds there, and whether that could be chance."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.queries import DIRECTIONS, EVALUATED
from relens.evaluation import model_ranks
from relens.reports.material import Material
from relens.significance import PairedTest, paired_test

MIN_QUERIES = 10
"""Fewer test queries are not tested: of 2^n sign patterns too few could ever be extreme."""
ALPHA = 0.05
RESAMPLES = (999, 9_999)
"""Fewest and most sign patterns of a test."""
FLIPS = 2_000_000_000
"""Signs to flip in all tests together; large splits get fewer patterns."""

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RelationRow:
    """One relation in one direction.

    Attributes:
        relation, direction: their labels.
        cardinality: class of the relation; empty where unknown.
        valid, test: queries of each split.
        mrr: test MRR of each model, (N,); NaN without test queries.
        ensemble: test MRR of the ensemble.
        weights: of the models in the ensemble, summing to 1, (N,).
        gain: MRR of the ensemble minus that of the best single model.
        own: whether the weights were searched here, or are the fallback.
        paired: the ensemble against the best single model; None with fewer than ``MIN_QUERIES`` test queries.
        adjusted: p of ``paired``, adjusted for all rows tested (Benjamini-Hochberg).
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
    def best(self) -> int | None:
        """The model with the highest test MRR here, the first of equals; None without test queries."""
        return int(np.argmax(self.mrr)) if self.test else None

    @property
    def equal(self) -> bool:
        """Whether the search left the models with equal weights: no others were better on validation."""
        return self.own and all_equal(self.weights)

    @property
    def significant(self) -> bool:
        """Whether the difference survives the adjustment."""
        return self.adjusted is not None and self.adjusted < ALPHA


def relation_rows(material: Material) -> list[RelationRow]:
    """Return a row for every relation and direction that has queries, the largest relations first."""
    test, weights = material.test, material.comparison.weights[material.ensemble].of_packed(material.test)
    sizes = {split: _sizes(material, split) for split in EVALUATED}  # (R, 2) each
    singles = np.array([1 / model_ranks(test, model).realistic for model in test.models])  # (N, Q)
    ours = 1 / weights.answer_ranks(test).realistic  # (Q,)
    baseline = singles[test.model_index(material.comparison.best_single)]
    normalised = weights.normalised()
    relation_size = (sizes["valid"] + sizes["test"]).sum(axis=1)
    rows, tests = [], []
    for r in np.argsort(-relation_size, kind="stable"):
        for d, direction in enumerate(DIRECTIONS):
            if not sizes["valid"][r, d] + sizes["test"][r, d]:
                continue
            at = np.flatnonzero((test.queries.relation == r) & (test.queries.direction == d))
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


def _sizes(material: Material, split: str) -> npt.NDArray[np.int64]:
    queries = (material.valid if split == "valid" else material.test).queries
    n = len(material.test.relations)
    return np.bincount(2 * queries.relation.astype(np.int64) + queries.direction, minlength=2 * n).reshape(n, 2)


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
    """Say whether several models have the same weight, (N,)."""
    return len(weights) > 1 and bool(np.all(weights == weights[0]))


def adjusted_p_values(p_values: Values) -> Values:
    """Adjust ``p_values`` (m,) for m comparisons (Benjamini and Hochberg 1995), (m,).

    Calling everything below α significant then makes at most the share α of those calls false, on average.
    """
    m = len(p_values)
    order = np.argsort(p_values)[::-1]
    scaled = p_values[order] * m / np.arange(m, 0, -1)
    adjusted = np.empty(m)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled), 1.0)
    return adjusted
