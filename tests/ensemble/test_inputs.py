"""Inputs: tables of integers that follow their functions and keep every sum exact."""

import itertools
import math

import numpy as np
import pytest

from relens.ensemble.grid import ADVANTAGE_LIMIT, MODEL_LIMIT, WEIGHT_LIMIT
from relens.ensemble.inputs import INPUTS, available_inputs, check_input
from relens.ensemble.inputs.base import SCALED_FOR, RankInput
from relens.ensemble.inputs.log import MOST_FACTORED
from relens.errors import InputError, RanksError
from relens.packs.packing import MAX_GAP
from tests.ensemble import oracles
from tests.ensemble.cases import NAMES, pack, random_case, without_gaps

TABLES = ("rank", "log", "sqrt", "rrf")
FUNCTIONS = {
    "log": lambda r: math.log(5 + r),
    "sqrt": math.sqrt,
    "rrf": lambda r: -1 / (60 + r),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("sizes", [range(1, 201), (1000, 2**16 - 1, 2**16, 2**16 + 1, 150_000, 300_000)])
def test_tables_are_strictly_increasing_and_bounded(name, sizes):
    for n_candidates in sizes:
        table = INPUTS[name].cost_table(n_candidates)
        assert table.shape == (2 * n_candidates + 1,)
        assert table.dtype == np.int32
        assert table[0] == 0
        assert np.diff(table.astype(np.int64)).min() >= 1
        assert table[-1] < ADVANTAGE_LIMIT


@pytest.mark.parametrize("name", TABLES)
def test_a_rank_costs_the_same_whatever_the_number_of_candidates(name):
    largest = INPUTS[name].cost_table(SCALED_FOR)
    for n_candidates in (1, 2, 3, 100, 101, 14_541, 40_943):
        assert np.array_equal(INPUTS[name].cost_table(n_candidates), largest[: 2 * n_candidates + 1])
    beyond = INPUTS[name].cost_table(2 * SCALED_FOR)
    assert np.array_equal(INPUTS[name].cost_table(SCALED_FOR + 1), beyond[: 2 * SCALED_FOR + 3])


def test_a_table_cannot_be_changed_by_one_user_for_another():
    with pytest.raises(ValueError, match="read-only"):
        INPUTS["log"].cost_table(10)[0] = 7


@pytest.mark.parametrize("n_candidates", [1, 7, 500, 150_000])
def test_the_rank_table_is_the_identity(n_candidates):
    assert np.array_equal(INPUTS["rank"].cost_table(n_candidates), np.arange(2 * n_candidates + 1))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("n_candidates", [50, 14_541, 150_000])
def test_tables_follow_their_functions_in_the_head(name, n_candidates):
    table = INPUTS[name].cost_table(n_candidates).tolist()
    function = FUNCTIONS[name]
    head = [1 + d / 2 for d in range(2 * min(n_candidates, 1000) - 1)]
    unit = (table[-1] - table[2]) / (function(n_candidates) - function(1.0))
    if name == "rrf" and n_candidates > 50_000:  # the tail is stretched: neighbours are kept one apart
        unit = (table[200] - table[2]) / (function(100.0) - function(1.0))
    for rank, following in itertools.pairwise(head):
        step = table[round(2 * following)] - table[round(2 * rank)]
        # Each table value is rounded, by half a unit at most.
        assert step == pytest.approx(unit * (function(following) - function(rank)), rel=1e-3, abs=1.01)


def test_advantages_of_the_first_ranks_have_four_digits():
    for name, function in FUNCTIONS.items():
        table = INPUTS[name].cost_table(150_000).tolist()
        ratio = (table[4] - table[2]) / (table[20] - table[2])
        assert ratio == pytest.approx((function(2) - function(1)) / (function(10) - function(1)), rel=1e-4)


@pytest.mark.parametrize("n_candidates", [100, 2**16, 2**18])
def test_equal_products_of_ranks_tie_by_their_logarithms(n_candidates):
    """Compare every two factorisations of many numbers, halves of ranks included, and powers with unequal weights."""
    table = INPUTS["log"].cost_table(n_candidates).tolist()
    compared = 0
    for product in [*range(144, 3000), *(factor * 5040 for factor in range(1, 300))]:
        sums = {
            table[factor - 10] + table[product // factor - 10]
            for factor in range(12, math.isqrt(product) + 1)
            if product % factor == 0 and product // factor <= 2 * n_candidates + 10
        }
        assert len(sums) <= 1
        compared += len(sums)
    assert compared > 500
    # With weights 2 : 1, ranks 7 and 4 tie with ranks 1 and 31: 24² · 18 = 12² · 72, in doubled numbers.
    assert 2 * table[24 - 10] + table[18 - 10] == 2 * table[12 - 10] + table[72 - 10]


def test_no_more_candidates_could_be_factored(monkeypatch):
    """At the limit, costs increase strictly; beyond it they would not."""
    log, n_candidates = INPUTS["log"], 2 * MOST_FACTORED
    assert (np.diff(log.whole_table(MOST_FACTORED)) >= 1).all()
    monkeypatch.setattr("relens.ensemble.inputs.log.MOST_FACTORED", n_candidates)
    assert (np.diff(log.whole_table(n_candidates)) < 1).any()


def test_logarithms_among_very_many_candidates_are_rounded_one_by_one():
    """Beyond 2**18 candidates sums of rounded primes would not increase; the plain table still follows the function."""
    table = INPUTS["log"].cost_table(2**20).astype(np.float64)
    expected = np.log((5 + np.arange(2, 2**21 + 1) / 2) / 6)
    assert (table[2:] - table[2]) / (table[-1] - table[2]) == pytest.approx(expected / expected[-1], abs=1e-7)


@pytest.mark.parametrize("n_candidates", [2**16, 2**20])
def test_reciprocals_are_exact_up_to_rank_40_000_and_then_neighbours_stay_apart(n_candidates):
    table = INPUTS["rrf"].cost_table(n_candidates).astype(np.float64)
    ranks = np.maximum(np.arange(2 * n_candidates + 1) / 2, 1.0)
    expected = 1 / 61 - 1 / (60 + ranks)
    unit = (table[80_000] - table[2]) / (expected[80_000] - expected[2])
    error = (table[2:] - table[2]) / unit - expected[2:]
    assert np.abs(error[:80_000]).max() <= 1e-7 / 61
    assert -1e-7 / 61 <= error.min() <= error.max() <= (0.03 if n_candidates == 2**20 else 2e-4) / 61


def test_weighted_sums_of_as_many_models_as_allowed_are_exact_floats():
    assert MODEL_LIMIT * WEIGHT_LIMIT * max(ADVANTAGE_LIMIT, MAX_GAP) < 2**53


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_those_of_exact_arithmetic(name):
    assert INPUTS[name].cost_table(4000).tolist() == oracles.costs(name)


def test_scores_have_no_rank_table():
    assert INPUTS["score"].cost_table(5) is None


def test_unknown_inputs_raise_an_error_with_a_hint():
    with pytest.raises(InputError, match=r"unknown input 'ranks'; did you mean 'rank'\?"):
        INPUTS.find("ranks")


def test_inputs_keep_their_order_in_which_ties_are_decided():
    assert tuple(INPUTS) == NAMES


def test_scores_need_gaps():
    packed = random_case(0).packed
    check_input(INPUTS["score"], packed)
    assert available_inputs(packed) == tuple(INPUTS.values())
    assert tuple(input.name for input in available_inputs(without_gaps(packed))) == TABLES
    with pytest.raises(
        RanksError,
        match=r"input 'score' needs score gaps, and these packed ranks have none\. Pack .* of rank, log, sqrt, rrf\.",
    ):
        check_input(INPUTS["score"], without_gaps(packed))


def test_too_many_models_raise_an_error_and_just_enough_do_not():
    few = np.zeros((2, 1))
    most = pack([few] * MODEL_LIMIT, [0, 0]).packed
    check_input(INPUTS["rank"], most)
    with pytest.raises(RanksError, match="128 models are too many for exact sums: the most is 127"):
        check_input(INPUTS["rank"], pack([few] * (MODEL_LIMIT + 1), [0, 0]).packed)


# --- inputs of other packages ---------------------------------------------------------------------------------------


class Cube(RankInput):
    """The cube root: a decreasing function of the rank is all that an input needs."""

    name = "cube"
    description = "−∛rank"

    def value(self, rank):
        return -np.cbrt(rank)


def test_a_decreasing_function_makes_an_input():
    packed = random_case(3, n_queries=6, n_candidates=9).packed
    cube = Cube()
    table = cube.cost_table(9).astype(np.int64)
    assert np.diff(table).min() >= 1
    steps = np.cbrt(np.arange(2, 19) / 2)
    assert table[2:] / table[-1] == pytest.approx((steps - 1) / (steps[-1] - 1), abs=1e-5)
    assert (cube.needs_gaps, cube.unit) == (False, ADVANTAGE_LIMIT)
    operands = cube.operands(packed)
    assert operands.values is packed.contested
    assert operands.sign == -1


@pytest.mark.parametrize("value", [lambda rank: rank, lambda rank: 0 * rank, lambda rank: np.log(rank - 1)])
def test_any_other_function_raises_an_error(monkeypatch, value):
    monkeypatch.setattr(Cube, "value", lambda self, rank: value(rank))
    with (
        np.errstate(divide="ignore", invalid="ignore"),
        pytest.raises(InputError, match="input 'cube': its values must be finite and decrease from rank 1 to 65536"),
    ):
        Cube().cost_table(5)
