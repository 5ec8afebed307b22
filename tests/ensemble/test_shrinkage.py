"""Shrinkage: the formula of the design, on inputs of any scale."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relens.ensemble.grid import WEIGHT_LIMIT
from relens.ensemble.inputs import INPUTS
from relens.ensemble.pairs import Pairs
from relens.ensemble.regularisation import KAPPAS, Shrinkage
from relens.packs.thinning import ContestedViews
from tests import strategies
from tests.ensemble import oracles
from tests.ensemble.cases import NAMES, pack, random_case

pytestmark = pytest.mark.kernels


@settings(max_examples=60, deadline=None)
@given(st.data(), st.floats(0.01, 1e4))
def test_weights_follow_the_formula(data, kappa):
    n_models, n_groups = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    vectors = strategies.weights(n_models)
    table = [data.draw(vectors) for _ in range(n_groups)]
    common = data.draw(vectors)
    support = data.draw(st.lists(st.integers(1, 500), min_size=n_groups, max_size=n_groups))
    scales = data.draw(st.lists(st.floats(0.01, 1e6), min_size=n_models, max_size=n_models))
    found = Shrinkage(np.array(scales)).shrink(np.array(table), np.array(common), np.array(support), kappa)
    assert found.shape == (n_groups, n_models)
    assert (found.max(axis=1) == WEIGHT_LIMIT).all()
    for row, own, n in zip(found, table, support, strict=True):
        expected = oracles.shrunk(own, common, n, kappa, scales)
        for got, weight in zip(row.tolist(), expected, strict=True):
            assert got == pytest.approx(weight / max(expected) * WEIGHT_LIMIT, abs=0.51)


def test_no_strength_keeps_and_infinite_strength_replaces():
    table, common = np.array([[1, 2], [3, 0]]), np.array([5, 7])
    shrinkage, support = Shrinkage(np.array([1.0, 10.0])), np.array([3, 4])
    assert shrinkage.shrink(table, common, support, 0.0).tolist() == table.tolist()
    assert shrinkage.shrink(table, common, support, math.inf).tolist() == [[5, 7], [5, 7]]
    none = shrinkage.shrink(np.empty((0, 2), dtype=np.int64), common, np.empty(0, dtype=np.int64), 3.0)
    assert none.shape == (0, 2)


def test_the_strengths_to_choose_from_range_from_a_little_to_everything():
    assert KAPPAS[0] > 0
    assert KAPPAS[-1] == math.inf
    assert list(KAPPAS) == sorted(KAPPAS)


def test_more_queries_resist_more():
    shrinkage = Shrinkage(np.ones(2))
    table = shrinkage.shrink(np.array([[1, 0]] * 3), np.array([0, 1]), np.array([1, 10, 100]), 10.0)
    shares = table[:, 0] / table.sum(axis=1)
    assert shares == pytest.approx([1 / 11, 1 / 2, 100 / 110], rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_scales_are_mean_sizes_of_advantages(name):
    packed = random_case(2, n_queries=6, n_candidates=12).packed
    views, queries = ContestedViews(packed), np.array([0, 3, 5])
    pairs = Pairs.gather(packed, views.wide, queries, INPUTS[name])
    expected = [sum(abs(int(a)) for a in row) / len(row) for row in pairs.advantage]
    assert Shrinkage.from_pairs(views, queries, INPUTS[name]).scales == pytest.approx(expected, rel=1e-12)


def test_scaling_a_models_scores_scales_its_weight_alone():
    rng = np.random.default_rng(0)
    values = [rng.integers(0, 40, (8, 12)) / 1.0 for _ in range(2)]
    answers = [0] * 8
    plain, scaled = (
        ContestedViews(pack([values[0], values[1] * factor], answers, scales=[1.0, 1.0]).packed) for factor in (1, 16)
    )
    own, common, support = np.array([[16, 32]]), np.array([48, 16]), np.array([4])
    one = Shrinkage.from_pairs(plain, np.arange(8), INPUTS["score"]).shrink(own, common, support, 4.0)
    other = Shrinkage.from_pairs(scaled, np.arange(8), INPUTS["score"]).shrink(
        own // [1, 16], common // [1, 16], support, 4.0
    )
    assert other[0, 1] / other[0, 0] == pytest.approx(one[0, 1] / one[0, 0] / 16, rel=1e-4)


def test_scales_without_contested_candidates_or_without_differences_are_one():
    nothing = pack([np.array([[3.0, 1.0]])] * 2, [0]).packed
    assert Shrinkage.from_pairs(ContestedViews(nothing), np.array([0]), INPUTS["rank"]).scales.tolist() == [1.0, 1.0]
    tied = pack([np.zeros((1, 3)), np.array([[0.0, 1.0, 2.0]])], [0]).packed
    assert Shrinkage.from_pairs(ContestedViews(tied), np.array([0]), INPUTS["rank"]).scales.tolist() == [1.0, 3.0]
