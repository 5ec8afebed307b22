import shutil

import numpy as np
import pytest

from relens.data.grouping import Grouping
from relens.evaluation import model_ranks
from relens.reports.material import gather
from relens.reports.relations import MIN_QUERIES, adjusted_p_values, relation_rows
from relens.runs import Run
from relens.significance import paired_test


def adjusted_by_loops(p_values):
    """The smallest level at which the step-up procedure of Benjamini and Hochberg rejects each hypothesis."""
    m, found = len(p_values), []
    for p in p_values:
        larger = [q for q in p_values if q >= p]
        found.append(min(1.0, *(q * m / sum(r <= q for r in p_values) for q in larger), 1.0))
    return found


@pytest.mark.parametrize("p_values", [[0.01], [0.02, 0.01, 0.03, 0.8], [0.5, 0.5, 0.001], [1.0, 0.9]])
def test_adjusted_p_values_are_those_of_the_step_up_procedure(p_values):
    assert adjusted_p_values(np.array(p_values)).tolist() == pytest.approx(adjusted_by_loops(p_values))


def test_nothing_to_adjust():
    assert adjusted_p_values(np.array([])).tolist() == []


@pytest.fixture(scope="module")
def material(tiny_run, tmp_path_factory):
    return gather(Run.open(shutil.copytree(tiny_run, tmp_path_factory.mktemp("relations") / "run")))


def test_rows_hold_the_numbers_of_the_evaluations(material):
    rows = relation_rows(material)
    ours = material.evaluation(material.ensemble).by_group
    labels = [f"{row.relation} [{row.direction}]" for row in rows]
    assert sorted(labels) == sorted(ours)
    for label, row in zip(labels, rows, strict=True):
        assert row.test == ours[label].queries
        assert row.ensemble == pytest.approx(ours[label].mrr, abs=1e-12)
        for model, value in zip(material.test.models, row.mrr, strict=True):
            assert value == pytest.approx(material.evaluation(model).by_group[label].mrr, abs=1e-12)
        best = material.evaluation(material.comparison.best_single).by_group[label].mrr
        assert row.gain == pytest.approx(ours[label].mrr - best, abs=1e-12)
        assert row.mrr[row.best] == max(row.mrr)
        assert row.weights.sum() == pytest.approx(1)


def test_the_largest_relations_come_first_and_their_directions_stay_together(material):
    rows = relation_rows(material)
    assert [(row.relation, row.direction) for row in rows[:3]] == [
        ("relation 3", "tail"), ("relation 3", "head"), ("relation 2", "tail")
    ]  # fmt: skip
    assert [row.valid for row in rows] == [12, 12, 9, 9, 6, 6, 3, 3]


def test_rows_with_enough_queries_are_tested_and_adjusted_together(material):
    rows = relation_rows(material)
    test, weights = material.test, material.comparison.weights[material.ensemble]
    group = Grouping.by_relation_and_direction(test.relations).groups_of(test.queries)
    ours = 1 / weights.answer_ranks(test).realistic
    best = 1 / model_ranks(test, material.comparison.best_single).realistic
    p_values = []
    for row in rows:
        assert (row.paired is not None) == (row.test >= MIN_QUERIES) == (row.adjusted is not None)
        if row.paired is not None:
            at = group == 2 * int(row.relation.split()[1]) + ("tail", "head").index(row.direction)
            alone = paired_test(ours[at], best[at], test.queries.triple[at], reference="x", resamples=9_999)
            assert row.paired.p_value == alone.p_value
            p_values.append(alone.p_value)
    assert len(p_values) == 2
    assert [row.adjusted for row in rows[:2]] == pytest.approx(adjusted_by_loops(p_values))
