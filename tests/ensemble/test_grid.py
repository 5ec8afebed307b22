"""The grid: whole numbers that stand for any non-negative weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from relens.ensemble.grid import (
    NEAR_VERTEX,
    WEIGHT_LIMIT,
    check_weights,
    near_vertices,
    to_grid,
    uniform,
    vertices,
)
from relens.errors import InputError, WeightsError

positive = st.floats(0.0, 1e308, allow_subnormal=True)
vectors = hnp.arrays(np.float64, st.integers(1, 6), elements=positive).filter(lambda v: v.max() > 0)


@given(vectors)
def test_the_largest_weight_becomes_the_limit_and_ratios_stay_within_half_a_step(vector):
    grid = to_grid(vector)
    assert grid.dtype == np.int64
    assert grid.min() >= 0
    assert grid.max() == WEIGHT_LIMIT
    assert np.abs(grid / WEIGHT_LIMIT - vector / vector.max()).max() <= 0.5 / WEIGHT_LIMIT + 1e-15


@given(vectors)
def test_a_grid_vector_with_the_largest_weight_at_the_limit_comes_back_as_it_is(vector):
    grid = to_grid(vector)
    assert np.array_equal(to_grid(grid), grid)


def test_rows_are_scaled_one_by_one():
    assert to_grid(np.array([[1.0, 3.0], [5.0, 0.0]])).tolist() == [[round(2**20 / 3), 2**20], [2**20, 0]]


@pytest.mark.parametrize("tiny", [5e-324, 1e-310, 1e-300])
def test_the_smallest_floats_are_weights_like_any_other(tiny):
    assert to_grid(np.array([tiny, 0.0, tiny])).tolist() == [WEIGHT_LIMIT, 0, WEIGHT_LIMIT]


def test_no_grid_weight_is_rounded_up_from_below_half_a_step():
    assert to_grid(np.array([1.0, 0.49 / WEIGHT_LIMIT, 0.51 / WEIGHT_LIMIT])).tolist() == [WEIGHT_LIMIT, 0, 1]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused(bad):
    with pytest.raises(WeightsError, match="file x: found NaN or an infinite weight, expected finite numbers"):
        check_weights(np.array([1.0, bad]), "file x")


def test_negative_weights_are_refused_by_value():
    with pytest.raises(WeightsError, match=r"weights: found the negative weight -0\.5, expected numbers of at least 0"):
        to_grid(np.array([[1.0, 1.0], [1.0, -0.5]]))


@pytest.mark.parametrize("zero", [np.zeros(3), np.array([[1.0, 0.0], [0.0, 0.0]]), np.zeros(0)])
def test_a_vector_of_zeros_is_refused(zero):
    with pytest.raises(InputError, match="all weights of a vector are 0; at least one model needs a positive weight"):
        to_grid(zero)


def test_starting_points():
    assert uniform(3).tolist() == [1, 1, 1]
    assert [v.tolist() for v in vertices(2)] == [[1, 0], [0, 1]]
    assert [v.tolist() for v in near_vertices(3)] == [[NEAR_VERTEX, 1, 1], [1, NEAR_VERTEX, 1], [1, 1, NEAR_VERTEX]]
    assert [v.tolist() for v in near_vertices(1)] == [[NEAR_VERTEX]]
    assert all(v.dtype == np.int64 for v in (uniform(2), *vertices(2), *near_vertices(2)))
