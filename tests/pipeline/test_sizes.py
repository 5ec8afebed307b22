"""Sizes for a budget: shares of the steps of presets, each slower than the one before."""

from itertools import pairwise

import pytest

from relens.pipeline.sizes import SLOWER, same_but_length, sizes_of, with_steps
from relens.training.pace import Pace
from relens.training.settings import TrainSettings

SMALL = TrainSettings("transe", {"dim": 8}, steps=1_000, stop_after=3, log_every=20)
LARGE = TrainSettings("transe", {"dim": 80}, steps=4_000, schedule="steps", milestones=(2_000, 3_000))
PACES = {"small": Pace(1, 0.01, 1), "large": Pace(1, 0.1, 2)}


def test_sizes_are_shares_of_the_presets_steps():
    found = sizes_of([("small", SMALL), ("large", LARGE)], PACES, 3)
    assert [(size.preset, size.settings.steps) for size in found] == [
        ("small", 250), ("small", 500), ("small", 1_000), ("large", 2_000), ("large", 4_000), ("large", 8_000),
        ("large", 16_000),
    ]  # fmt: skip
    assert found[2].train == pytest.approx(1 + 1_000 * 0.01 + 8 * 1)
    assert found[2].per_step == pytest.approx(0.01 + 8 / 1_000)
    assert [size.rank for size in found] == [3, 3, 3, 6, 6, 6, 6]
    assert all(later.train >= SLOWER * size.train for size, later in pairwise(found))


def test_sizes_that_are_hardly_slower_are_left_out():
    found = sizes_of([("small", SMALL), ("large", LARGE)], {"small": Pace(0, 0.1, 1), "large": Pace(0, 0.01, 0)}, 1)
    assert [(size.preset, size.settings.steps) for size in found] == [
        ("small", 250), ("small", 500), ("small", 1_000), ("large", 16_000)
    ]  # fmt: skip


def test_presets_that_are_too_slow_to_measure_are_left_out_but_for_the_smallest():
    slow = Pace(0, 9.0, 0, exact=False)
    assert {size.preset for size in sizes_of([("small", SMALL), ("large", LARGE)], {**PACES, "large": slow}, 1)} == {
        "small"
    }
    assert sizes_of([("small", SMALL), ("large", LARGE)], {"small": slow}, 1)[0].train == 250 * 9.0


def test_what_the_user_chose_stays():
    (given,) = sizes_of([("small", SMALL)], PACES, 1, ("steps", "validate_every"))
    assert (given.settings.steps, given.settings.validate_every, given.per_step) == (1_000, 1_000, 0)
    assert with_steps(SMALL, 80, ("stop_after",)).stop_after == 3


def test_another_length_moves_milestones_validations_and_records():
    shorter = with_steps(LARGE, 400)
    assert (shorter.steps, shorter.milestones) == (400, (200, 300))
    assert (shorter.validate_every, shorter.log_every, shorter.stop_after) == (50, 10, None)
    assert with_steps(LARGE, 1).milestones == (1,)
    assert same_but_length(with_steps(LARGE, 400), with_steps(LARGE, 4_000))
    assert not same_but_length(SMALL, LARGE)
