"""RowRanks against loops over Python integers, on scores full of ties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

import torch

from relens.ensemble.inputs import INPUTS
from relens.prediction.candidate_ranking import CandidateRanking
from relens.prediction.row_ranks import RowRanks
from tests.prediction.test_candidate_ranking import place_by_loop


@st.composite
def batches(draw):
    """Draw the scores of b queries (n, b, E), their known answers and anchors, and how they are weighed."""
    n_models, n_queries, n_entities = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(2, 12))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    # Quarters and powers of two, so that the sums of floats in the loops are exact; some gaps are too large to store.
    scores = rng.integers(-3, 4, (n_models, n_queries, n_entities)).astype(np.float32) / 4
    scores *= draw(st.sampled_from([np.float32(1), np.float32(2**27)]))
    known = rng.random((n_queries, n_entities)) < draw(st.sampled_from([0.0, 0.3, 0.9]))
    anchors, weights = rng.integers(0, n_entities, n_queries), rng.integers(1, 4, n_models)
    return scores, known, anchors, weights, draw(st.sampled_from(list(INPUTS))), 2.0 ** rng.integers(-4, 2, n_models)


def ranked(batch):
    scores, known, anchors, weights, name, scales = batch
    return RowRanks(list(torch.from_numpy(scores)), torch.from_numpy(known), anchors, weights, INPUTS[name], scales)


def case_of(batch, row):
    """Return one query in the form of the loops for ``CandidateRanking``."""
    scores, known, _, weights, name, scales = batch
    return scores[:, row], set(np.flatnonzero(known[row]).tolist()), weights, name, scales


@given(batches())
def test_every_candidate_has_the_place_that_a_loop_counts(batch):
    known = batch[1]
    n_queries, n_entities = known.shape
    places = ranked(batch).places(np.tile(np.arange(n_entities), (n_queries, 1)))
    for row, entity in zip(*np.nonzero(~known), strict=True):
        expected = place_by_loop(case_of(batch, row), int(entity))
        assert (places.ahead[row, entity], places.tied[row, entity]) == expected


def standing(case):
    scores, known, weights, name, scales = case
    return CandidateRanking(scores, np.array(sorted(known), dtype=np.int64), weights, INPUTS[name], scales)


@given(batches(), st.integers(1, 14), st.booleans(), st.data())
def test_the_best_are_those_with_the_lowest_costs(batch, depth, with_anchor, data):
    known, anchors = batch[1:3]
    among = data.draw(st.sets(st.integers(0, known.shape[1] - 1), min_size=1).map(sorted))
    found = ranked(batch).best(depth, torch.tensor(among), with_anchor=with_anchor)
    assert found.shape == (len(known), min(depth, len(among)))
    for row, entities in enumerate(found.tolist()):
        cost = standing(case_of(batch, row)).cost.tolist()
        allowed = [e for e in among if not known[row, e] and (with_anchor or e != anchors[row])]
        expected = sorted(allowed, key=lambda e: (cost[e], e))[:depth]
        assert sorted(entities[: len(expected)]) == sorted(expected)
        assert set(entities[len(expected) :]) <= {-1}


@given(batches())
def test_a_margin_is_the_distance_from_the_median_in_interquartile_ranges(batch):
    scores, known, _, weights, *_ = batch
    places = ranked(batch).places(np.tile(np.arange(known.shape[1]), (len(known), 1)))
    for row, entity in zip(*np.nonzero(~known), strict=True):
        total = 0.0
        for of_model, weight in zip(scores[:, row].tolist(), weights.tolist(), strict=True):
            rest = sorted(score for score, out in zip(of_model, known[row], strict=True) if not out)
            lower, middle, upper = (rest[part * (len(rest) - 1) // 4] for part in (1, 2, 3))
            total += weight * ((of_model[entity] - middle) / (upper - lower) if upper > lower else 0.0)
        assert places.margin[row, entity] == pytest.approx(total / weights.sum(), rel=1e-12)


def test_close_scores_are_compared_in_whole_units():
    # By the sum of scores 1 is ahead of 0; in whole units of gaps they are level.
    scores = np.array([[[0.0, 0.7, -9.0]], [[0.0, -0.6, -9.0]]], dtype=np.float32)
    batch = scores, np.zeros((1, 3), dtype=bool), np.array([2]), np.array([1, 1]), "score", np.array([1.0, 1.0])
    places = ranked(batch).places(np.array([[0, 1, 2]]))
    assert (places.ahead.tolist(), places.tied.tolist()) == ([[0, 0, 2]], [[1, 1, 0]])
