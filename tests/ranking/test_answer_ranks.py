"""Ranks of answers under each tie rule, compared with exact fractions."""

import numpy as np
import pytest
from hypothesis import given

from tests.oracles import tie_rules
from tests.strategies import answer_ranks, tie_counts


@given(tie_counts)
@pytest.mark.parametrize("rule", ["optimistic", "realistic", "pessimistic"])
def test_ranks_equal_the_fractions(rule: str, pairs: list[tuple[int, int]]) -> None:
    ranks = getattr(answer_ranks(pairs), rule)
    assert ranks.dtype == np.float64
    assert ranks.tolist() == [float(tie_rules(ahead, tied)[rule]) for ahead, tied in pairs]


def test_no_queries_have_no_ranks() -> None:
    nothing = answer_ranks([])
    assert len(nothing) == len(nothing.realistic) == 0


def test_a_selection_keeps_order_and_repeats() -> None:
    chosen = answer_ranks([(0, 0), (5, 1), (7, 2)])[np.array([2, 0, 2])]
    assert (chosen.ahead.tolist(), chosen.tied.tolist()) == ([7, 0, 7], [2, 0, 2])
