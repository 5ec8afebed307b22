"""The sweep: exact along a line, against an exhaustive scan of all breakpoints, intervals and endpoints."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from relens.ensemble.grid import WEIGHT_LIMIT, uniform
from relens.ensemble.pairs import Pairs
from relens.ensemble.sweep_kernels import (
    apply_changes,
    ascend,
    breakpoints,
    deal,
    doubled_ranks,
    exchange,
    move,
    reciprocal_sum,
    total_advantage,
    values_at,
    values_without,
    walk,
)
from tests import strategies
from tests.ensemble import oracles
from tests.ensemble.cases import HUGE, SMALL, problem, problems

pytestmark = pytest.mark.kernels
few = settings(max_examples=60, deadline=None)
many = settings(max_examples=120, deadline=None)


def list_breakpoints(pairs: Pairs, weights, model, giver=None):
    """Return (at_zero, inside, position, query, change) of the line of one model, or of two."""
    near, far = np.empty(pairs.n_pairs), np.empty(pairs.n_pairs)
    for end, total in zip(oracles.ends_of(weights, model, giver), (near, far), strict=True):
        total_advantage(pairs.advantage, np.array(end, dtype=np.int64), total)
    at_zero, inside = np.empty(pairs.n_queries, np.int64), np.empty(pairs.n_queries, np.int64)
    position = np.empty(pairs.n_pairs)
    query, change = np.empty(pairs.n_pairs, np.int32), np.empty(pairs.n_pairs, np.int32)
    n = breakpoints(near, far, pairs.offsets, pairs.floor, pairs.multiplicity, at_zero, inside, position, query, change)
    return at_zero, inside, position[:n], query[:n], change[:n]


def deal_out(position, query, change, n_buckets):
    """Return (starts, position, query, change) in buckets."""
    n = len(position)
    starts = np.empty(2 * n_buckets + 1, np.int64)
    dealt = np.empty(n), np.empty(n, np.int32), np.empty(n, np.int32)
    deal(n, position, query, change, starts, *dealt)
    return starts, *dealt


def walk_line(pairs: Pairs, weights, model, n_buckets, best, after=(np.inf, 0.0, 0.0), giver=None):
    """Return (value at zero, best value inside, left, right)."""
    at_zero, inside, position, query, change = list_breakpoints(pairs, weights, model, giver)
    starts, *dealt = deal_out(position, query, change, n_buckets)
    return reciprocal_sum(at_zero), *walk(reciprocal_sum(inside), starts, *dealt, inside, best, after)


@st.composite
def lines(draw, elements=SMALL):
    """Draw pairs, weights, and a model or two whose line is not a point: (pairs, weights, model, giver or None)."""
    pairs = draw(problems(elements, min_models=2))
    model, other = draw(st.permutations(range(len(pairs.advantage))))[:2]
    giver = draw(st.sampled_from([None, other]))
    weights = draw(
        strategies.weights(len(pairs.advantage)).filter(lambda w: all(map(any, oracles.ends_of(w, model, giver))))
    )
    return pairs, weights, model, giver


def ascend_pairs(pairs: Pairs, start, least_gain=1e-9, max_rounds=50):
    start = np.array(start, dtype=np.int64)
    return ascend(pairs.advantage, pairs.offsets, pairs.floor, pairs.multiplicity, start, least_gain, max_rounds)


# --- sums and ranks -----------------------------------------------------------------------------------------------


@few
@given(st.data(), st.sampled_from([SMALL, HUGE]))
def test_totals_and_ranks_are_exact(data, elements):
    pairs = data.draw(problems(elements))
    weights = data.draw(strategies.weights(len(pairs.advantage)))
    total = np.full(pairs.n_pairs, np.nan)
    total_advantage(pairs.advantage, np.array(weights, dtype=np.int64), total)
    expected = [sum(w * int(a) for w, a in zip(weights, column, strict=True)) for column in pairs.advantage.T.tolist()]
    assert [int(t) for t in total] == expected
    doubled = np.empty(pairs.n_queries, np.int64)
    doubled_ranks(total, pairs.offsets, pairs.floor, pairs.multiplicity, doubled)
    assert reciprocal_sum(doubled) == pytest.approx(float(oracles.value_of_pairs(pairs, weights)), rel=1e-12)
    table = np.array([weights, [1] * len(weights)], dtype=np.int64)
    values = values_at(pairs.advantage, pairs.offsets, pairs.floor, pairs.multiplicity, table)
    assert values == pytest.approx([float(oracles.value_of_pairs(pairs, row.tolist())) for row in table], rel=1e-12)
    models = np.arange(len(weights))[::-1]
    left_out = np.where(np.eye(len(weights), dtype=bool), 0, table[0])[::-1]
    without = values_without(pairs.advantage, pairs.offsets, pairs.floor, pairs.multiplicity, table[0], models)
    expected = values_at(pairs.advantage, pairs.offsets, pairs.floor, pairs.multiplicity, left_out)
    assert without.tolist() == expected.tolist()


def test_the_total_of_no_weights_is_zero():
    total = np.full(2, np.nan)
    total_advantage(np.array([[1, 2], [3, 4]], dtype=np.int32), np.zeros(2, dtype=np.int64), total)
    assert total.tolist() == [0.0, 0.0]


def test_changes_are_applied_in_place_and_their_gain_returned():
    rank = np.array([6, 4])
    gain = apply_changes(1, 3, np.array([0, 0, 1, 1]), np.array([9, -4, 4, 9]), rank)
    assert rank.tolist() == [2, 8]
    assert gain == pytest.approx(2 / 2 - 2 / 6 + 2 / 8 - 2 / 4)


# --- breakpoints --------------------------------------------------------------------------------------------------


@many
@given(st.data(), st.sampled_from([SMALL, HUGE]))
def test_breakpoints_are_those_of_the_oracle(data, elements):
    pairs, weights, model, giver = data.draw(lines(elements))
    at_zero, inside, position, query, change = list_breakpoints(pairs, weights, model, giver)
    line = oracles.along(pairs, weights, model, giver)
    assert reciprocal_sum(at_zero) == pytest.approx(float(line.at_zero), rel=1e-12)
    assert reciprocal_sum(inside) == pytest.approx(float(line.inside[0]), rel=1e-12)
    # Equal breakpoints are equal floats: the quotient of exact numbers, rounded once.
    assert sorted(set(position.tolist())) == sorted({float(share) for share in line.breakpoints})
    assert all(change % 2 == 0)
    # All changes together lead to the ranks just below λ = 1.
    at_end = inside + np.bincount(query, weights=change, minlength=pairs.n_queries).astype(int)
    assert reciprocal_sum(at_end) == pytest.approx(float(line.inside[-1]), rel=1e-12)


@few
@given(lines())
def test_no_point_of_a_line_beats_its_intervals_and_endpoints(drawn):
    line = oracles.along(*drawn)
    for i, value in enumerate(line.at_breakpoints):
        assert value <= max(line.inside[i], line.inside[i + 1])


# --- deal ---------------------------------------------------------------------------------------------------------


@few
@given(
    st.lists(st.tuples(st.floats(2.0**-60, 1.0), st.integers(0, 9), st.sampled_from([-4, -2, 2, 6])), max_size=30),
    st.integers(1, 7),
)
@example([(1.0, 0, 2), (1.0, 1, -2), (2.0**-60, 2, -2)], 3)
def test_dealing_permutes_and_orders_by_bucket_and_direction(events, n_buckets):
    position = np.array([e[0] for e in events], dtype=np.float64)
    query, change = (np.array([e[i] for e in events], dtype=np.int32) for i in (1, 2))
    starts, *dealt = deal_out(position, query, change, n_buckets)
    assert (starts[0], starts[-1]) == (0, len(events))
    assert sorted(zip(*(part.tolist() for part in dealt), strict=True)) == sorted(events)
    for bucket in range(n_buckets):
        for half, helps in ((2 * bucket, True), (2 * bucket + 1, False)):
            mine = slice(starts[half], starts[half + 1])
            assert all((dealt[2][mine] < 0) == helps)
            assert all(np.minimum((dealt[0][mine] * n_buckets).astype(int), n_buckets - 1) == bucket)


# --- walk ---------------------------------------------------------------------------------------------------------


def assert_interval_has(pairs, weights, model, left, right, value, giver=None):
    """The middle of an interval must have the value it is said to have, exactly."""
    assert left < right
    middle = (Fraction(left) + Fraction(right)) / 2
    mixed = [w * (1 - middle) + v * middle for w, v in zip(*oracles.ends_of(weights, model, giver), strict=True)]
    assert float(oracles.value_of_pairs(pairs, mixed)) == pytest.approx(value, rel=1e-12)


@many
@given(st.data(), st.sampled_from([SMALL, SMALL, HUGE]), st.integers(1, 12))
def test_the_walk_finds_the_widest_best_interval(data, elements, n_buckets):
    pairs, weights, model, giver = data.draw(lines(elements))
    line = oracles.along(pairs, weights, model, giver)
    at_zero, best, left, right = walk_line(pairs, weights, model, n_buckets, 0.0, giver=giver)
    assert at_zero == pytest.approx(float(line.at_zero), rel=1e-12)
    assert best == pytest.approx(float(line.best_inside), rel=1e-12)
    assert right - left == pytest.approx(line.widest_best, rel=1e-12)
    assert_interval_has(pairs, weights, model, left, right, best, giver)
    # Nothing else on the line is better: not its ends, not a breakpoint.
    everything = [line.at_zero, line.at_one, *line.inside, *line.at_breakpoints]
    reached = max(at_zero, best, float(line.at_one))
    if elements is SMALL:
        assert reached == pytest.approx(float(max(everything)), rel=1e-12)


@many
@given(st.data(), st.integers(1, 12))
def test_the_threshold_hides_nothing_that_reaches_it(data, n_buckets):
    pairs, weights, model, giver = data.draw(lines())
    line = oracles.along(pairs, weights, model, giver)
    values = sorted({float(value) for value in line.inside})
    threshold = data.draw(st.sampled_from([*values, *(v + 1e-3 for v in values), *(v - 1e-3 for v in values)]))
    _, best, left, right = walk_line(pairs, weights, model, n_buckets, threshold, giver=giver)
    if float(line.best_inside) >= threshold - 1e-13:
        assert best == pytest.approx(float(line.best_inside), rel=1e-12)
        assert right - left == pytest.approx(line.widest_best, rel=1e-12)
        assert_interval_has(pairs, weights, model, left, right, best, giver)
    else:
        assert (best, left, right) == (threshold, 0.0, 0.0)


@few
@given(lines(), st.integers(1, 12), st.booleans())
def test_repeated_walks_visit_the_intervals_from_the_best_on(drawn, n_buckets, prune):
    pairs, weights, model, giver = drawn
    line = oracles.along(pairs, weights, model, giver)
    least = float(line.best_inside) - 1e-13 if prune else 0.0
    expected = [(value, width, left) for value, width, left in line.ordered() if value >= least]
    seen, after = [], (np.inf, 0.0, 0.0)
    while len(seen) <= len(expected):
        _, *after = walk_line(pairs, weights, model, n_buckets, least, tuple(after), giver)
        if after[1] == after[2]:
            break
        seen.append((after[0], after[2] - after[1], after[1]))
    assert len(seen) == len(expected)
    for found, wanted in zip(seen, expected, strict=True):
        assert found == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("model", range(3))
def test_long_lines_with_and_without_pruning(model):
    rng = np.random.default_rng(11)
    repeated = np.where(rng.random(120) < 0.2, 7, 1)
    pairs = problem(rng.integers(-40, 41, (3, 120)), [30, 0, 60, 30], [2, 4, 2, 8], repeated)
    weights = [3, 2, 4]
    line = oracles.along(pairs, weights, model)
    highest, widest = float(line.best_inside), line.widest_best
    for n_buckets in (1, 2, 5, 64):
        for offset in (-1.0, -1e-3, 0.0):
            _, best, left, right = walk_line(pairs, weights, model, n_buckets, highest + offset)
            assert best == pytest.approx(highest, rel=1e-12)
            assert right - left == pytest.approx(widest, rel=1e-9)
            assert_interval_has(pairs, weights, model, left, right, best)
        _, best, left, right = walk_line(pairs, weights, model, n_buckets, highest + 1e-3)
        assert (best, left, right) == (highest + 1e-3, 0.0, 0.0)


def test_equal_breakpoints_are_passed_at_once():
    """Two candidates swap places at λ = 1/2: no value is seen between the two changes."""
    pairs = problem([[1, -1, -2], [-1, 1, 2]], [3], [2], [1, 1, 1])
    _, inside, position, _, change = list_breakpoints(pairs, [1, 1], 1)
    assert position.tolist() == [0.5, 0.5, 0.5]
    assert sorted(change.tolist()) == [-2, 2, 2]
    assert inside.tolist() == [4]
    assert walk_line(pairs, [1, 1], 1, 1, 0.0) == (0.5, 0.5, 0.0, 0.5)


def test_equal_fractions_of_huge_numbers_are_equal_floats():
    pairs = problem([[3, 3 * (2**24 - 1)], [-7, -7 * (2**24 - 1)]], [2], [2], [1, 1])
    _, _, position, _, _ = list_breakpoints(pairs, [2**20 - 1, 5], 1)
    assert position[0] == position[1]


def test_multiplicity_counts_a_candidate_as_often():
    one = problem([[1, 1, 1], [-1, -1, -1]], [3], [2], [1, 1, 1])
    thrice = problem([[1], [-1]], [1], [2], [3])
    assert walk_line(one, [1, 1], 1, 1, 0.0) == walk_line(thrice, [1, 1], 1, 1, 0.0) == (1 / 4, 1.0, 0.5, 1.0)


def test_pairs_level_at_both_ends_count_half_all_along():
    pairs = problem([[0, 0], [0, 0]], [2], [2], [1, 1])
    assert walk_line(pairs, [1, 1], 0, 1, 0.0) == (0.5, 0.5, 0.0, 1.0)


def test_the_end_without_the_model_may_beat_every_interval():
    """Model 1 alone has the answer level with two candidates; any share of model 0 puts one or both ahead."""
    pairs = problem([[4, 1], [0, 0]], [2], [2], [1, 3])
    assert walk_line(pairs, [1, 1], 0, 2, 0.0) == (2 / 6, 2 / 10, 0.0, 1.0)
    line = oracles.along(pairs, [1, 1], 0)
    assert line.at_zero > max([*line.inside, *line.at_breakpoints, line.at_one])


# --- move ---------------------------------------------------------------------------------------------------------


@many
@given(st.data(), st.floats(0.0, 1.0))
def test_moving_keeps_the_others_ratios_and_the_grid(data, share):
    n = data.draw(st.integers(2, 5))
    model = data.draw(st.integers(0, n - 1))
    weights = np.array(data.draw(strategies.weights(n)), dtype=np.int64)
    moved = move(weights, model, share)
    others, was = np.delete(moved, model), np.delete(weights, model)
    assert moved.dtype == np.int64
    assert moved.min() >= 0
    assert moved.max() <= WEIGHT_LIMIT
    if was.sum() == 0:
        assert share <= 0.0 or moved.tolist() == [WEIGHT_LIMIT if i == model else 0 for i in range(n)]
    elif share <= 0.0:
        assert moved[model] == 0
        assert np.array_equal(others, was)
    elif share < 1.0:
        largest = max(was.max(), was.sum() * share / (1 - share))
        # Half a step of the grid for the model, and for every other one where the grid has no room for a factor.
        slack = 0.51 if largest > WEIGHT_LIMIT else 1e-6
        factor = WEIGHT_LIMIT / largest if largest > WEIGHT_LIMIT else WEIGHT_LIMIT // largest
        assert np.abs(others - was * factor).max() <= slack
        assert moved[model] == pytest.approx(was.sum() * (share / (1 - share)) * factor, rel=1e-9, abs=0.51)
        assert moved.max() > WEIGHT_LIMIT / 2 - 1
    else:
        assert moved.tolist() == [WEIGHT_LIMIT if i == model else 0 for i in range(n)]


def test_moving_does_not_touch_the_weights_it_starts_from():
    weights = np.array([1, 2, 3])
    assert move(weights, 0, 0.5).tolist() == [5 * 209715 // 1, 2 * 209715, 3 * 209715]
    assert weights.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("weights", "model", "share", "expected"),
    [
        ([1, 1], 0, 0.0, [0, 1]),
        ([1, 1], 0, 1.0, [2**20, 0]),
        ([0, 7], 1, 0.5, [0, 2**20]),
        ([0, 2**20, 2**19], 0, 2 / 3, [2**20, 349525, 174763]),
        ([0, 2**20], 0, 1 - 1e-12, [2**20, 0]),
        ([9, 2**20], 0, 1e-12, [0, 2**20]),
    ],
)
def test_moves_at_the_edges_of_the_grid(weights, model, share, expected):
    assert move(np.array(weights), model, share).tolist() == expected


@many
@given(st.data(), st.floats(0.0, 1.0))
def test_an_exchange_keeps_the_sum_of_two_and_the_ratios_of_the_others(data, share):
    n = data.draw(st.integers(2, 5))
    giver, taker = data.draw(st.permutations(range(n)))[:2]
    weights = np.array(data.draw(strategies.weights(n).filter(lambda w: w[giver] + w[taker] > 0)), dtype=np.int64)
    moved = exchange(weights, giver, taker, share)
    both = int(weights[giver] + weights[taker])
    wanted = [Fraction(int(w)) for w in weights]
    wanted[giver], wanted[taker] = both * (1 - Fraction(share)), both * Fraction(share)
    factor = Fraction(WEIGHT_LIMIT) / max(wanted)
    factor = Fraction(int(factor)) if factor >= 1 else factor
    assert moved.dtype == np.int64
    assert (moved.min() >= 0, 0 < moved.max() <= WEIGHT_LIMIT) == (True, True)
    for got, exact in zip(moved.tolist(), wanted, strict=True):
        assert abs(got - exact * factor) <= 0.51


# --- ascend -------------------------------------------------------------------------------------------------------


@few
@given(st.data(), st.sampled_from([1e-9, 1e-2]))
def test_the_ascent_never_decreases_and_ends_where_no_line_is_better(data, least_gain):
    pairs = data.draw(problems())
    start = data.draw(strategies.weights(len(pairs.advantage)))
    weights, value, trace = ascend_pairs(pairs, start, least_gain)
    exact = oracles.value_of_pairs(pairs, weights.tolist())
    assert value == pytest.approx(float(exact), rel=1e-12)
    assert (weights.min() >= 0, 0 < weights.max() <= WEIGHT_LIMIT) == (True, True)
    assert trace[0].tolist() == [0.0, pytest.approx(float(oracles.value_of_pairs(pairs, start)), rel=1e-12)]
    assert trace[-1, 1] == value
    assert (np.diff(trace[:, 0]) >= 0).all()
    gains = np.diff(trace[:-1, 1])
    assert (gains >= least_gain - 1e-12).all()
    if trace[-1, 0] < 50 * len(pairs.advantage):
        oracles.assert_no_line_is_better(pairs, weights.tolist(), value, least_gain)


@few
@given(problems(HUGE))
def test_the_ascent_copes_with_huge_advantages(pairs):
    weights, value, trace = ascend_pairs(pairs, uniform(len(pairs.advantage)))
    assert value == pytest.approx(float(oracles.value_of_pairs(pairs, weights.tolist())), rel=1e-12)
    assert value >= trace[0, 1]


@pytest.mark.parametrize("seed", range(4))
def test_the_ascent_on_many_pairs_uses_several_buckets(seed):
    rng = np.random.default_rng(seed)
    pairs = problem(rng.integers(-30, 31, (3, 90)), [30, 30, 30], [2, 2, 4], rng.integers(1, 4, 90))
    weights, value, trace = ascend_pairs(pairs, uniform(3))
    assert value == pytest.approx(float(oracles.value_of_pairs(pairs, weights.tolist())), rel=1e-12)
    assert value > trace[0, 1]
    oracles.assert_no_line_is_better(pairs, weights.tolist(), value, 1e-9)


def test_the_ascent_leaves_out_a_model_that_only_hurts():
    """Leaving model 0 out turns a defeat into a tie, and no positive share does better."""
    pairs = problem([[1], [0]], [1], [2], [1])
    weights, value, _ = ascend_pairs(pairs, [1, 1])
    assert (weights.tolist(), value) == ([0, 1], pytest.approx(2 / 3))


def test_the_ascent_goes_straight_to_the_end_of_a_line_that_beats_its_intervals():
    """From the left, the intervals of model 0's line have 3/2 and 1, and its end has 5/3."""
    pairs = problem([[1, 1], [0, -1]], [1, 1], [2, 2], [1, 1])
    weights, value, trace = ascend_pairs(pairs, [3, 1])
    assert (weights.tolist(), value) == ([0, 1], pytest.approx(5 / 3))
    assert trace[:2].tolist() == [[0.0, 1.0], [1.0, pytest.approx(5 / 3)]]


def test_an_interval_between_two_points_of_the_grid_is_not_taken():
    """The answer is first for weights between n : (n + 1) and (n − 1) : n, and no two weights up to 2**20 are."""
    n = 2**22
    pairs = problem([[n + 1, -n], [-n, n - 1]], [2], [2], [1, 1])
    line = oracles.along(pairs, [1, 1], 1)
    assert line.best_inside == 1 > oracles.value_of_pairs(pairs, [1, 1])
    weights, value, trace = ascend_pairs(pairs, [1, 1])
    assert (weights.tolist(), value) == ([1, 1], 0.5)
    assert trace.tolist() == [[0.0, 0.5], [2.0, 0.5]]


def test_two_models_exchange_weight_where_no_line_of_one_gains():
    rng = np.random.default_rng(5)
    exchanged = 0
    for _ in range(20):
        pairs = problem(rng.integers(-9, 10, (3, 40)), [20, 20], [2, 2], [1] * 40)
        weights, value, trace = ascend_pairs(pairs, uniform(3))
        oracles.assert_no_line_is_better(pairs, weights.tolist(), value, 1e-9)
        # A step after more than three lines without one is that of an exchange.
        exchanged += (np.diff(trace[:-1, 0]) > 3).any()
    assert exchanged > 0


def test_the_next_best_interval_is_taken_where_the_grid_misses_the_best():
    """As above, and a second query that a little more weight of model 0 puts first."""
    n = 2**22
    pairs = problem([[n + 1, -n, -10], [-n, n - 1, 11]], [2, 1], [2, 2], [1, 1, 1])
    assert oracles.value_of_pairs(pairs, [1, 1]) == Fraction(1, 2) + Fraction(1, 2)
    weights, value, _ = ascend_pairs(pairs, [1, 1])
    assert value == pytest.approx(1 / 2 + 1)
    assert weights[0] * 10 > weights[1] * 11


def test_the_ascent_from_a_vertex_skips_the_line_that_is_a_point():
    pairs = problem([[1], [-1]], [1], [2], [1])
    weights, value, trace = ascend_pairs(pairs, [1, 0])
    assert value == 1.0
    assert weights[1] > weights[0] > 0
    assert trace[:, 0].tolist() == [0.0, 2.0, 4.0]


def test_one_model_has_nothing_to_ascend():
    pairs = problem([[1, 0, -1]], [3], [2], [1, 1, 1])
    weights, value, trace = ascend_pairs(pairs, [5])
    assert (weights.tolist(), value) == ([5], 2 / 5)
    assert trace.tolist() == [[0.0, 2 / 5], [1.0, 2 / 5]]


def test_an_ascent_without_pairs():
    pairs = problem([[], []], [0, 0], [2, 4], [])
    weights, value, _ = ascend_pairs(pairs, [1, 1])
    assert (weights.tolist(), value) == ([1, 1], 1.5)


def test_rounds_are_limited():
    rng = np.random.default_rng(0)
    pairs = problem(rng.integers(-30, 31, (4, 60)), [20, 20, 20], [2, 2, 2], [1] * 60)
    _, short, trace = ascend_pairs(pairs, uniform(4), max_rounds=1)
    _, long, _ = ascend_pairs(pairs, uniform(4))
    assert trace[-1, 0] <= 4 + 6  # lines of one model and of two
    assert short <= long


def test_a_gain_below_the_least_is_not_worth_a_step():
    pairs = problem([[1], [-1]], [1], [200], [1])
    _, value, _ = ascend_pairs(pairs, [2, 1], least_gain=0.1)
    assert value == pytest.approx(2 / 202)
