"""Methods: the baselines against obvious loops or the library behind them, and methods of other packages."""

import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings

from relens.ensemble.grid import to_grid
from relens.ensemble.methods import METHODS, greedy
from relens.ensemble.methods.stacking import sample_contested
from relens.ensemble.objective import model_mrrs
from relens.errors import MissingExtraError
from relens.packs.simulation import Simulation
from relens.seeding import generator
from tests.ensemble import oracles
from tests.ensemble.cases import NAMES, cases, context_of, pack, random_case

few = settings(max_examples=25, deadline=None)


def weights_of(method, packed, name="rank", **fields):
    """Return the global weights that a method finds."""
    return METHODS[method].search(context_of(packed, name, **fields)).common


def stacking(packed, seed=0):
    """Return the weights of stacking, and its notes."""
    found = METHODS["stacking"].search(context_of(packed, seed=seed))
    return found.common, found.notes


def mrr_of(case, weights, name="rank"):
    return oracles.reciprocal_sum(case, case.everything, weights, name) / len(case.answers)


@pytest.mark.kernels
@few
@given(cases())
def test_models_mrrs_are_those_of_their_own_ranks(case):
    n = case.packed.n_models
    expected = [mrr_of(case, [int(i == j) for j in range(n)]) for i in range(n)]
    assert model_mrrs(case.packed) == pytest.approx([float(mrr) for mrr in expected], rel=1e-12)
    found = weights_of("best-single", case.packed).tolist()
    assert sum(found) == 1
    assert expected[found.index(1)] == max(expected)
    in_proportion = np.rint(np.array([float(mrr) for mrr in expected]) / float(max(expected)) * 2**20)
    assert np.abs(weights_of("mrr-mean", case.packed) - in_proportion).max() <= 1
    assert weights_of("mrr-mean", case.packed).max() == 2**20


def test_equals_are_resolved_in_favour_of_the_first_model():
    values = np.array([[1.0, 0.0, 2.0], [1.0, 0.0, 2.0]])
    assert weights_of("best-single", pack([values, values], [0, 1]).packed).tolist() == [1, 0]


@pytest.mark.parametrize("jobs", [2, 3])
def test_threads_change_no_baseline(jobs):
    packed = random_case(3, n_queries=20).packed
    assert np.array_equal(model_mrrs(packed), model_mrrs(packed, jobs=jobs))
    assert np.array_equal(weights_of("mrr-mean", packed), weights_of("mrr-mean", packed, jobs=jobs))
    assert np.array_equal(weights_of("best-single", packed), weights_of("best-single", packed, jobs=jobs))
    assert np.array_equal(weights_of("greedy", packed, "log"), weights_of("greedy", packed, "log", jobs=jobs))


# --- greedy selection -----------------------------------------------------------------------------------------------


def caruana(case, name, steps, patience):
    """Add the model that helps most, with replacement; remember the best selection; stop when none comes for long."""
    n = case.packed.n_models
    counts = [0] * n
    best, best_value, since = None, -1, 0
    for _ in range(steps):
        values = []
        for i in range(n):
            tried = list(counts)
            tried[i] += 1
            values.append(mrr_of(case, tried, name))
        counts[values.index(max(values))] += 1
        if max(values) > best_value:
            best, best_value, since = list(counts), max(values), 0
        else:
            since += 1
        if since == patience:
            break
    return best


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_greedy_is_caruanas_selection(name, seed):
    case = random_case(seed, n_models=3, n_queries=6, n_candidates=8)
    found = weights_of("greedy", case.packed, name).tolist()
    expected = caruana(case, name, greedy.STEPS, greedy.PATIENCE)
    # Sums of floats may break ties of values that are equal as fractions: what counts is the value reached.
    assert float(mrr_of(case, found, name)) == pytest.approx(float(mrr_of(case, expected, name)), rel=1e-12)


def test_greedy_steps_are_limited(monkeypatch):
    monkeypatch.setattr(greedy, "STEPS", 2)
    case = random_case(11, n_models=3, n_queries=30, levels=None)
    assert 1 <= weights_of("greedy", case.packed, "rank").sum() <= 2


@pytest.mark.kernels
def test_greedy_is_never_worse_than_the_best_single_model():
    case = random_case(12, n_models=4, n_queries=10, levels=None)
    best = max(mrr_of(case, [int(i == j) for j in range(4)]) for i in range(4))
    assert mrr_of(case, weights_of("greedy", case.packed, "rank").tolist()) >= best


def test_greedy_with_one_model_stops():
    assert weights_of("greedy", random_case(0, n_models=1).packed, "rank").tolist() == [1]


# --- stacking -------------------------------------------------------------------------------------------------------


def regression(ranks, is_answer):
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression(max_iter=300).fit(ranks, is_answer).coef_[0]


def test_stacking_is_scikit_learns_regression_on_all_contested_candidates():
    pytest.importorskip("sklearn")
    case = random_case(3, n_models=3, n_queries=20, n_candidates=15)
    packed = case.packed
    rows, labels = [], []
    for q in range(20):
        rows.append([case.dense[q][i][case.answers[q]] / 2 for i in range(3)])
        labels.append(True)
    for k in range(packed.n_contested):
        rows.append([packed.contested[i, k] / 2 for i in range(3)])
        labels.append(False)
    weights = np.maximum(0.0, -regression(np.array(rows), np.array(labels)))
    assert weights.max() > 0
    found, notes = stacking(packed)
    assert notes == ()
    assert np.abs(found - np.rint(weights / weights.max() * 2**20)).max() <= 8


def test_stacking_samples_up_to_fifty_candidates_of_each_query():
    pytest.importorskip("sklearn")
    case = random_case(1, n_models=3, n_queries=8, n_candidates=200, levels=None)
    packed = case.packed
    counts = np.diff(packed.offsets)
    assert counts.max() > 50
    drawn = sample_contested(packed, generator(4, "stacking"))
    assert len(np.unique(drawn)) == len(drawn)
    per_query = np.bincount(np.searchsorted(packed.offsets, drawn, side="right") - 1, minlength=8)
    assert all(per_query[counts <= 50] == counts[counts <= 50])
    assert all((per_query[counts > 50] <= 50) & (per_query[counts > 50] > 20))
    ranks = np.concatenate([packed.answer, packed.contested[:, drawn]], axis=1).T / 2
    weights = np.maximum(0.0, -regression(ranks, np.arange(len(ranks)) < 8))
    found, _ = stacking(packed, seed=4)
    assert np.array_equal(found, to_grid(weights))
    assert not np.array_equal(found, stacking(packed, seed=5)[0])


def test_stacking_prefers_the_better_model():
    pytest.importorskip("sklearn")
    simulation = Simulation(("good", "bad"), (30,), 60, level=(2.5, 0.5), skill=0.0, noise=0.2, agreement=0.1, seed=2)
    queries = simulation.queries("valid")
    scores = simulation.scores(queries, "valid", 0)
    scores[1, np.arange(60), queries.answer] -= 2.0
    found, _ = stacking(pack(list(scores), queries.answer.tolist()).packed)
    assert found[0] > found[1]


def test_stacking_with_no_helpful_model_is_the_mean_and_says_so():
    """The answer is level with or behind every contested candidate: worse ranks speak for it."""
    pytest.importorskip("sklearn")
    ranks = [np.array([[5, 1, 5, 1, 5]] * 4), np.array([[5, 5, 1, 5, 1]] * 4)]
    found, notes = stacking(pack(ranks, [0] * 4, scores=False).packed)
    assert found.tolist() == [1, 1]
    assert notes == ("stacking: no model got a positive weight, so all weights are equal",)


def test_stacking_without_contested_candidates_is_the_mean_and_says_so():
    pytest.importorskip("sklearn")
    packed = pack([np.array([[3.0, 1.0, 2.0]])] * 2, [0]).packed
    found, notes = stacking(packed)
    assert found.tolist() == [1, 1]
    assert notes == ("stacking: no contested candidate to learn from, so all weights are equal",)


def test_stacking_without_scikit_learn_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.exceptions", None)
    with pytest.raises(MissingExtraError, match=r"method 'stacking' needs an optional .* '.\[stacking\]'"):
        stacking(random_case(0).packed)
