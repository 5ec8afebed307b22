"""Confidence on simulated ranks whose truth is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from relens.ensemble.search import search
from relens.prediction.candidate_ranking import Place
from relens.prediction.confidence import LEAST, PLACES, Confidence, never_rising
from relens.ranking.answer_ranks import AnswerRanks
from tests import simulated


def confidence_of(places, *, group=None, answered=None, n_groups=1, tied=None):
    ahead = np.asarray(places) - 1
    return Confidence.from_ranks(
        AnswerRanks(ahead, np.zeros_like(ahead) if tied is None else np.asarray(tied)),
        np.zeros(len(ahead), dtype=np.int32) if group is None else np.asarray(group, dtype=np.int32),
        np.zeros(len(ahead), dtype=bool) if answered is None else np.asarray(answered),
        n_groups,
    )


def test_shares_are_those_of_the_queries():
    found = confidence_of([1] * 60 + [2] * 30 + [7] * 10)
    assert found.share_at(0, Place(0, 0), answered=False) == pytest.approx(0.6)
    assert found.share_at(0, Place(1, 0), answered=False) == pytest.approx(0.3)
    assert found.share_at(0, Place(4, 0), answered=False) == pytest.approx(0.1 / 5)  # places 3 to 7 are pooled
    assert found.share_at(0, Place(0, 1), answered=False) == pytest.approx(0.45)
    assert found.share_at(0, Place(50, 0), answered=False) == 0


def test_a_tied_answer_counts_in_parts():
    found = confidence_of([1] * 10, tied=[1] * 10)
    assert (
        found.share_at(0, Place(0, 0), answered=False)
        == found.share_at(0, Place(1, 0), answered=False)
        == pytest.approx(0.5)
    )
    deep = confidence_of([PLACES - 1] * 10, tied=[19] * 10)
    assert deep.shares.sum() == pytest.approx(2 / 20)


def test_a_small_group_is_drawn_to_all_of_them():
    found = confidence_of([1] * 80 + [2] * 20, group=[0] * 80 + [1] * 20, n_groups=2)
    assert found.share_at(0, Place(0, 0), answered=False) == pytest.approx((80 + 5 * 0.8) / 85)
    # Of the second group alone, none stood first: shrunk to 4/25 and 21/25, then pooled because shares never rise.
    assert (
        found.share_at(1, Place(0, 0), answered=False)
        == found.share_at(1, Place(1, 0), answered=False)
        == pytest.approx(0.5)
    )


def test_no_confidence_without_enough_queries():
    found = confidence_of([1] * 20 + [1] * (LEAST - 1), group=[0] * 20 + [1] * (LEAST - 1), n_groups=3)
    assert found.share_at(0, Place(0, 0), answered=False) == 1
    assert found.share_at(1, Place(0, 0), answered=False) is None
    assert found.share_at(2, Place(0, 0), answered=False) is None
    assert found.share_at(0, Place(0, 0), answered=True) is None  # no query had other known answers
    assert found.share_at(0, Place(PLACES, 0), answered=False) is None
    assert found.share_at(0, Place(PLACES - 1, 1), answered=False) is None


def test_queries_with_other_known_answers_are_counted_apart():
    found = confidence_of([1] * 10 + [2] * 10, answered=[False] * 10 + [True] * 10)
    assert found.share_at(0, Place(0, 0), answered=False) == 1
    assert found.share_at(0, Place(0, 0), answered=True) == 0.5


def test_it_holds_on_new_queries():
    rng = np.random.default_rng(0)
    skill = rng.uniform(0.2, 0.9, 40)  # the chance of each group to find the answer at every step down the list

    def draw(per_group):
        group = np.repeat(np.arange(40), per_group)
        return rng.geometric(skill[group]), group

    places, group = draw(30)
    found = confidence_of(places, group=group, n_groups=40)
    places, group = draw(500)
    said = np.array([found.share_at(g, Place(0, 0), answered=False) for g in group])
    for low, high in ((0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.0)):
        chosen = (said >= low) & (said < high)
        assert chosen.sum() > 1000
        assert np.mean(places[chosen] == 1) == pytest.approx(said[chosen].mean(), abs=0.06)


@given(arrays(np.float64, st.integers(0, 12), elements=st.integers(0, 5)))
def test_pooling_keeps_sums_and_never_rises(values):
    found = never_rising(values)
    assert len(found) == len(values)
    assert np.all(np.diff(found) <= 1e-12)
    assert found.sum() == pytest.approx(values.sum())
    assert np.array_equal(never_rising(np.sort(values)[::-1]), np.sort(values)[::-1])


def test_validation_ranks_of_a_run_are_counted():
    valid = simulated.packed("valid")
    weights = search(valid, method="simple", input="rank")
    unanswered = np.zeros(valid.n_queries, dtype=bool)
    found = Confidence.from_valid(valid, weights, unanswered)
    ranks = weights.answer_ranks(valid).realistic
    at_first = np.mean(ranks[weights.grouping.groups_of(valid.queries) == 6] == 1)
    assert found.queries.sum() == 60
    assert found.share_at(6, Place(0, 0), answered=False) == pytest.approx(
        (12 * at_first + 5 * np.mean(ranks == 1)) / 17
    )
    fewer = search(valid.select_models(("alpha", "beta")), method="mean", input="rank")
    assert Confidence.from_valid(valid, fewer, ~unanswered).queries.sum(axis=1).tolist() == [0, 60]
