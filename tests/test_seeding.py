"""Generators are addressed by name: the same whatever ran before, and different from all others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relens.seeding import generator

names = st.text(min_size=1, max_size=8)
numbers = st.integers(1, 2**32 - 1)
addresses = st.lists(st.one_of(names, numbers), max_size=4).map(tuple)


def draws(seed: int, *address: str | int) -> list[int]:
    return generator(seed, *address).integers(2**63, size=4).tolist()


@given(st.integers(0, 2**32 - 1), addresses)
def test_an_address_names_one_stream(seed, address):
    np.random.default_rng(0).random(3)  # what ran before does not matter
    assert draws(seed, *address) == draws(seed, *address)


@given(st.integers(0, 2**32 - 1), addresses, addresses)
def test_other_addresses_name_other_streams(seed, one, other):
    if one != other:
        assert draws(seed, *one) != draws(seed, *other)


@given(st.integers(0, 2**32 - 2), addresses)
def test_other_seeds_give_other_streams(seed, address):
    assert draws(seed, *address) != draws(seed + 1, *address)


def test_order_and_boundaries_of_an_address_matter():
    streams = [draws(0, *address) for address in [("a", "b"), ("b", "a"), ("ab",), ("a", 1), ("a", 2), ("a",), ()]]
    assert len({tuple(stream) for stream in streams}) == len(streams)


def test_neighbours_are_not_correlated():
    values = np.array([generator(0, "search", "tpe", group).random(2000) for group in range(20)])
    between = np.corrcoef(values)[np.triu_indices(20, 1)]
    assert np.abs(between).max() < 0.1
    assert abs(values.mean() - 0.5) < 0.01


def test_a_stream_is_not_shared_with_the_global_generator():
    np.random.seed(0)  # noqa: NPY002
    first = draws(3, "x")
    np.random.seed(1)  # noqa: NPY002
    assert draws(3, "x") == first


@pytest.mark.parametrize("seed", [-1])
def test_negative_seeds_are_refused(seed):
    with pytest.raises(ValueError, match="non-negative"):
        generator(seed, "x")
