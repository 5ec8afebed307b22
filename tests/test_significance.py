"""Intervals that cover, and a test whose p-values are shares of sign patterns."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relens import significance
from relens.significance import EXACT_UP_TO, Interval, bootstrap_interval, paired_test

pair_of_ranks = st.tuples(st.integers(1, 6), st.integers(1, 6))


def enumerated_p(ours: Sequence[int], theirs: Sequence[int], triples: Sequence[int]) -> Fraction:
    """Flip the sign of every triple's difference of reciprocal ranks, in every possible way."""
    difference = dict.fromkeys(triples, Fraction(0))
    for our_rank, their_rank, triple in zip(ours, theirs, triples, strict=True):
        difference[triple] += Fraction(1, our_rank) - Fraction(1, their_rank)
    observed = abs(sum(difference.values()))
    patterns = list(product((1, -1), repeat=len(difference)))
    sums = [sum(s * d for s, d in zip(signs, difference.values(), strict=True)) for signs in patterns]
    return Fraction(sum(abs(total) >= observed for total in sums), len(patterns))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(pair_of_ranks, st.integers(0, 7)), min_size=1, max_size=14))
def test_few_triples_are_enumerated_exactly(queries: list[tuple[tuple[int, int], int]]) -> None:
    ours, theirs = zip(*(ranks for ranks, _ in queries), strict=True)
    triples = [triple for _, triple in queries]
    found = paired_test(1 / np.array(ours), 1 / np.array(theirs), np.array(triples), reference="rotate")
    assert found.exact
    assert found.p_value == float(enumerated_p(ours, theirs, triples))


def test_an_interval_is_printed_for_people() -> None:
    assert f"{Interval(0.9550846989815739, 0.9703810733143119)}" == "0.9551–0.9704"
    assert str(Interval(-0.0129927, 0.0047256)) == "-0.0130 to 0.0047"
    assert str(Interval(-1e-9, 0.0)) == "0.0000 to 0.0000"
    assert repr(Interval(0.25, 0.5)) == "Interval(low=0.25, high=0.5)"


def test_sampled_flips_approach_the_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    ours, theirs = rng.integers(1, 5, 24).tolist(), rng.integers(1, 7, 24).tolist()
    triples = np.repeat(np.arange(12), 2).tolist()
    exact = float(enumerated_p(ours, theirs, triples))
    monkeypatch.setattr(significance, "EXACT_UP_TO", 3)
    sampled = paired_test(
        1 / np.array(ours), 1 / np.array(theirs), np.array(triples), reference="rotate", resamples=20_000
    )
    assert not sampled.exact
    assert 0.05 < exact < 0.95
    assert sampled.p_value == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 20_000))


def test_a_sampled_p_value_counts_the_observed_pattern() -> None:
    n = EXACT_UP_TO + 40
    found = paired_test(np.full(n, 1.0), np.full(n, 0.5), np.arange(n), reference="rotate", resamples=99)
    assert (found.p_value, found.exact, found.difference) == (1 / 100, False, 0.5)
    assert found.interval == (0.5, 0.5)


def test_equal_ranks_have_p_1_however_many() -> None:
    values = 1 / np.arange(1.0, 101)
    found = paired_test(values, values, np.arange(100), reference="itself")
    assert (found.difference, found.p_value, found.exact) == (0, 1, True)
    assert found.interval == (0, 0)


def test_rounding_makes_no_difference_out_of_none() -> None:
    # 1/2 + 1/6 = 1/3 + 1/3, though not in floating point.
    ours, theirs = np.array([1 / 2, 1 / 6] * 50), np.array([1 / 3, 1 / 3] * 50)
    assert (ours - theirs)[:2].sum() != 0
    assert paired_test(ours, theirs, np.repeat(np.arange(50), 2), reference="rotate").p_value == 1


def test_queries_of_a_triple_are_flipped_together() -> None:
    ours, theirs = np.array([1.0, 1.0]), np.array([0.5, 0.5])
    assert paired_test(ours, theirs, np.array([4, 4]), reference="rotate").p_value == 1
    assert paired_test(ours, theirs, np.array([4, 9]), reference="rotate").p_value == 0.5


def test_swapping_the_sides_turns_the_difference_and_keeps_p() -> None:
    rng = np.random.default_rng(0)
    ours, theirs, triple = 1 / rng.integers(1, 9, 60), 1 / rng.integers(1, 9, 60), np.repeat(np.arange(30), 2)
    forth = paired_test(ours, theirs, triple, reference="b", seed=5)
    back = paired_test(theirs, ours, triple, reference="a", seed=5)
    assert back.difference == pytest.approx(-forth.difference)
    assert back.p_value == forth.p_value
    assert back.interval == pytest.approx((-forth.interval.high, -forth.interval.low))


def test_the_interval_is_that_of_every_possible_resample() -> None:
    values, triple = np.array([1.0, 0.5, 0.25, 1.0]), np.array([0, 0, 0, 1])
    # Triple 0 has three queries, so a mixed resample weights it 3 to 1: sum over count, not mean of means.
    means = [7 / 12, 2.75 / 4, 2.75 / 4, 1.0]
    found = bootstrap_interval(values, triple, resamples=4000)
    assert found == pytest.approx((min(means), max(means)))


def test_one_triple_leaves_no_room() -> None:
    assert bootstrap_interval(np.array([0.5, 0.25]), np.array([7, 7]), resamples=50) == (0.375, 0.375)


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    triple = np.repeat(np.arange(80), 2)
    covered = 0
    for seed in range(200):
        # A triple's queries share their luck: resampling by query would cover the truth, .5, far too rarely.
        values = np.repeat(rng.random(80), 2)
        low, high = bootstrap_interval(values, triple, seed=seed, resamples=300)
        covered += low <= 0.5 <= high
    assert 180 <= covered <= 198


def test_the_seed_decides_and_memory_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    ours, theirs, triple = rng.random(66), rng.random(66), np.repeat(np.arange(33), 2)
    whole = paired_test(ours, theirs, triple, reference="b", seed=1)
    assert whole == paired_test(ours, theirs, triple, reference="b", seed=1)
    assert whole != paired_test(ours, theirs, triple, reference="b", seed=2)
    monkeypatch.setattr(significance, "_CHUNK", 7)
    assert whole == paired_test(ours, theirs, triple, reference="b", seed=1)
