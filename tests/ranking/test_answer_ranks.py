"""Metrics = the sums of fractions one would write down."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relens.ranking.answer_ranks import AnswerRanks, hits, mean_rank, mrr
from tests.oracles import tie_rules

counts = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), min_size=1, max_size=12)


def answer_ranks(pairs: list[tuple[int, int]]) -> AnswerRanks:
    ahead, tied = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return AnswerRanks(ahead, tied)


@given(counts)
@pytest.mark.parametrize("rule", ["optimistic", "realistic", "pessimistic"])
def test_measures_equal_the_fractions(rule: str, pairs: list[tuple[int, int]]) -> None:
    expected = [tie_rules(ahead, tied)[rule] for ahead, tied in pairs]
    ranks = getattr(answer_ranks(pairs), rule)
    assert ranks.dtype == np.float64
    assert ranks.tolist() == [float(rank) for rank in expected]
    assert mrr(ranks) == pytest.approx(float(sum(1 / rank for rank in expected) / len(pairs)), abs=1e-14)
    assert mean_rank(ranks) == pytest.approx(float(sum(expected) / len(pairs)), abs=1e-12)
    for k in (1, 3, 10):
        assert hits(ranks, k) == float(Fraction(sum(rank <= k for rank in expected), len(pairs)))


@pytest.mark.parametrize("n_candidates", [1, 2, 5, 14541])
def test_constant_scores_give_two_over_candidates_plus_one(n_candidates: int) -> None:
    ranks = answer_ranks([(0, n_candidates - 1)] * 3)
    assert mrr(ranks.realistic) == pytest.approx(2 / (n_candidates + 1), rel=1e-15)
    assert mrr(ranks.optimistic) == 1
    assert mrr(ranks.pessimistic) == pytest.approx(1 / n_candidates, rel=1e-15)


def test_a_tie_for_the_first_place_is_no_hit_at_1() -> None:
    assert hits(answer_ranks([(0, 1)]).realistic, 1) == 0
    assert hits(answer_ranks([(2, 0)]).realistic, 3) == 1


def test_no_queries_measure_zero() -> None:
    nothing = answer_ranks([])
    assert len(nothing) == 0
    assert mrr(nothing.realistic) == hits(nothing.realistic, 10) == mean_rank(nothing.realistic) == 0


def test_a_selection_keeps_order_and_repeats() -> None:
    chosen = answer_ranks([(0, 0), (5, 1), (7, 2)])[np.array([2, 0, 2])]
    assert (chosen.ahead.tolist(), chosen.tied.tolist()) == ([7, 0, 7], [2, 0, 2])
