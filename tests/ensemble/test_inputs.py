"""Inputs: integer tables that follow their functions and keep every sum exact."""

import itertools
import math

import numpy as np
import pytest

from relens.ensemble.grid import WEIGHT_LIMIT
from relens.ensemble.inputs import (
    ADVANTAGE_LIMIT,
    INPUTS,
    MODEL_LIMIT,
    SCALED_FOR,
    available_inputs,
    check_input,
    cost_table,
)
from relens.errors import InputError, RanksError
from relens.packs.packing import MAX_GAP
from tests.ensemble.cases import random_case, without_gaps
from tests.random_packs import changed

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
        table = cost_table(name, n_candidates)
        assert table.shape == (2 * n_candidates + 1,)
        assert table.dtype == np.int32
        assert table[0] == 0
        assert np.diff(table.astype(np.int64)).min() >= 1
        assert table[-1] < ADVANTAGE_LIMIT


@pytest.mark.parametrize("name", TABLES)
def test_a_rank_costs_the_same_whatever_the_number_of_candidates(name):
    largest = cost_table(name, SCALED_FOR)
    for n_candidates in (1, 2, 3, 100, 101, 14_541, 40_943):
        assert np.array_equal(cost_table(name, n_candidates), largest[: 2 * n_candidates + 1])
    beyond = cost_table(name, 2 * SCALED_FOR)
    assert np.array_equal(cost_table(name, SCALED_FOR + 1), beyond[: 2 * SCALED_FOR + 3])


def test_a_table_cannot_be_changed_by_one_user_for_another():
    with pytest.raises(ValueError, match="read-only"):
        cost_table("log", 10)[0] = 7


@pytest.mark.parametrize("n_candidates", [1, 7, 500, 150_000])
def test_the_rank_table_is_the_identity(n_candidates):
    assert np.array_equal(cost_table("rank", n_candidates), np.arange(2 * n_candidates + 1))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("n_candidates", [50, 14_541, 150_000])
def test_tables_follow_their_functions_in_the_head(name, n_candidates):
    table = cost_table(name, n_candidates).tolist()
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
        table = cost_table(name, 150_000).tolist()
        ratio = (table[4] - table[2]) / (table[20] - table[2])
        assert ratio == pytest.approx((function(2) - function(1)) / (function(10) - function(1)), rel=1e-4)


def test_weighted_sums_of_as_many_models_as_allowed_are_exact_floats():
    assert MODEL_LIMIT * WEIGHT_LIMIT * max(ADVANTAGE_LIMIT, MAX_GAP) < 2**53


def test_scores_have_no_rank_table():
    with pytest.raises(InputError, match="input 'score' has no rank table"):
        cost_table("score", 5)


def test_unknown_inputs_are_refused_with_a_hint():
    with pytest.raises(InputError, match=r"unknown input 'ranks'; did you mean 'rank'\?"):
        check_input("ranks", random_case(0).packed)


def test_scores_need_gaps():
    packed = random_case(0).packed
    assert check_input("score", packed) == "score"
    assert available_inputs(packed) == INPUTS
    assert available_inputs(without_gaps(packed)) == TABLES
    with pytest.raises(RanksError, match=r"input 'score' needs score gaps, and these packed ranks have none\. Pack"):
        check_input("score", without_gaps(packed))


def test_too_many_models_are_refused_and_just_enough_are_not():
    packed = random_case(0).packed
    most = changed(packed, models=tuple(f"m{i}" for i in range(MODEL_LIMIT)))
    assert check_input("rank", most) == "rank"
    with pytest.raises(RanksError, match="128 models are too many for exact sums: at most 127 are possible"):
        check_input("rank", changed(packed, models=(*most.models, "one more")))
