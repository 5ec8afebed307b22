"""The kernels of predictions against plain loops, on scores full of ties, zeros of both signs and missing values."""

import numpy as np
import pytest

from relens.ensemble.inputs import INPUTS
from relens.packs.packing import scale_gaps
from relens.prediction import ranking_kernels as kernels

pytestmark = pytest.mark.kernels

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, 3e38, -3e38, np.inf, -np.inf, np.nan], dtype=np.float32)


def case(seed, n_models=3, n_entities=40):
    """Return scores, known answers and weights."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n_models, n_entities)).astype(np.float32)
    scores[:, ::3] = np.round(scores[:, ::3])
    scores[:, 5] = scores[:, 9]
    return scores, rng.random(n_entities) < 0.3, rng.integers(1, 9, n_models)


def ranks_by_loop(row, competing):
    """Return the doubled rank of each score among the competing ones and itself."""
    found = []
    for e, score in enumerate(row):
        rivals = [other for r, other in enumerate(row) if competing[r] and r != e]
        found.append(2 * sum(o > score for o in rivals) + sum(o == score for o in rivals) + 2)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_ranks_are_those_of_a_loop(seed):
    rng = np.random.default_rng(seed)
    scores, known, _ = case(seed)
    scores[2] = rng.choice(SPECIAL, scores.shape[1])
    found = np.empty(scores.shape, np.int32)
    kernels.rank_rows(scores, ~known, found)
    for row, ranks in zip(scores, found, strict=True):
        expected = ranks_by_loop(row.tolist(), ~known & ~np.isnan(row))
        assert [r for r, s in zip(ranks.tolist(), row, strict=True) if s == s] == [
            r for r, s in zip(expected, row, strict=True) if s == s
        ]


def test_scores_of_every_size_are_sorted():
    rng = np.random.default_rng(0)
    row = rng.integers(0, 2**32, 3000, dtype=np.uint32).view(np.float32)
    row = np.where(np.isnan(row), np.float32(0), row)[None]
    found = np.empty(row.shape, np.int32)
    kernels.rank_rows(row, np.ones(row.shape[1], dtype=bool), found)
    order = np.sort(row[0])
    right, left = np.searchsorted(order, row[0], side="right"), np.searchsorted(order, row[0], side="left")
    np.testing.assert_array_equal(found[0], 2 * (len(order) - right) + right - left + 1)


@pytest.mark.parametrize("name", [name for name, input in INPUTS.items() if not input.needs_gaps])
def test_places_are_those_of_a_loop(name):
    scores, known, weights = case(7, n_entities=14)
    doubled = np.empty(scores.shape, np.int32)
    kernels.rank_rows(scores, ~known, doubled)
    table = INPUTS[name].cost_table(scores.shape[1])
    cost = kernels.weigh(doubled, weights, table)
    prices = table.tolist()

    def price(competing, entity):
        ranks = (ranks_by_loop(row.tolist(), competing)[entity] for row in scores)
        return sum(int(weight) * prices[rank] for weight, rank in zip(weights, ranks, strict=True))

    for entity in range(scores.shape[1]):
        assert cost[entity] == price(~known, entity)
        competing = ~known
        competing[entity] = True  # a known answer joins the candidates
        rivals = [e for e in np.flatnonzero(competing).tolist() if e != entity]
        costs, own = [price(competing, e) for e in rivals], price(competing, entity)
        expected = sum(c < own for c in costs), sum(c == own for c in costs)
        assert kernels.place_by_cost(scores, doubled, known, weights, table, cost, entity) == expected


@pytest.mark.parametrize("scale", [1e-9, 1e-5, 0.25, 1.0, 1e6])
def test_leads_are_weighted_gaps_as_they_are_stored(scale):
    scores, _, weights = case(3)
    scales = scale * np.array([1.0, 0.5, 3.0])
    for entity in (0, 5, 39):
        gaps = scale_gaps(scores, scores[:, [entity]], scales)
        expected = [sum(int(w) * int(g) for w, g in zip(weights, column, strict=True)) for column in gaps.T]
        assert kernels.lead(scores, scales, weights, entity).tolist() == expected


@pytest.mark.parametrize("spread", [1.0, 3000.0, 1e6])
@pytest.mark.parametrize("top", [1, 4, 100])
def test_the_first_by_gaps_are_those_of_a_sorted_list(spread, top):
    scores, known, weights = case(11)
    scores[0] *= np.float32(spread)
    scales = np.array([1.0, 0.5, 2.0]) / 2**16
    cost = kernels.sum_scores(scores, weights / scales)
    rows = []
    for entity in range(scores.shape[1]):
        leads = kernels.lead(scores, scales, weights, entity)
        others = [e for e in np.flatnonzero(~known).tolist() if e != entity]
        ahead, tied = sum(int(leads[e] > 0) for e in others), sum(int(leads[e] == 0) for e in others)
        rows.append((2 * ahead + tied, cost[entity], entity, ahead, tied))
    beaten = np.zeros(scores.shape[1], np.int64)
    for among in (~known, known):
        ids = np.array(sorted(np.flatnonzero(among).tolist(), key=lambda e: (cost[e], e)))
        nothing = np.zeros(len(ids), np.int64)  # is certain
        found = kernels.first_by_gaps(scores, scales, weights, known, cost, ids, nothing, beaten, top)
        expected = sorted(row for row in rows if among[row[2]])[:top]
        assert found.tolist() == [[ahead, tied, entity] for _, _, entity, ahead, tied in expected]


def test_entities_with_the_same_scores_have_the_same_sum():
    scores, _, weights = case(5)
    cost = kernels.sum_scores(scores, weights / np.array([0.3, 0.7, 0.9]))
    assert cost[5] == cost[9]
    np.testing.assert_allclose(cost, -(weights / np.array([0.3, 0.7, 0.9])) @ scores.astype(np.float64))
