"""Evidence on candidates, compared with loops over them."""

from math import log, log1p

import numpy as np
import pytest

from relens.data.dataset import Dataset
from relens.prediction.candidate_ranking import CandidateRanking
from relens.prediction.evidence import AHEAD, Candidates, evidence_of, in_usual_units, self_related


def place_by_loop(values, entity, possible):
    others = [values[e] for e in possible if e != entity]
    return 1 + sum(v > values[entity] for v in others) + sum(v == values[entity] for v in others) / 2


def evidence_by_loop(asked, entity, scales):
    shares = [w / sum(asked.weights.tolist()) for w in asked.weights.tolist()]
    voters = [i for i in range(len(shares)) if shares[i]]
    n_entities = asked.scores.shape[1]
    mean = [sum(shares[i] * float(asked.scores[i, e]) / scales[i] for i in voters) for e in range(n_entities)]
    possible = [e for e in range(n_entities) if asked.possible[e]]
    place = place_by_loop([-c for c in asked.cost.tolist()], entity, possible)
    others = sorted((asked.cost[e], e) for e in possible if e != entity)[:AHEAD]
    lead = mean[entity] - sum(mean[e] for _, e in others) / len(others) if others else 0
    agreement = -sum(shares[i] * log(place_by_loop(asked.scores[i].tolist(), entity, possible)) for i in voters)
    known = asked.known.tolist()
    margin = mean[entity] - sum(mean[e] for e in known) / len(known) if known else 0
    return place, [-log(place), lead, agreement, mean[entity], margin, -log1p(len(known)) if known else 0]


@pytest.mark.parametrize("seed", range(12))
def test_evidence_is_that_of_loops(seed):
    rng = np.random.default_rng(seed)
    n_entities = int(rng.choice([3, 8, 30]))
    scores = rng.integers(0, 6, (3, n_entities)).astype(np.float32)  # many ties
    weights = np.array([3, 0, 2]) if seed % 2 else np.array([1, 5, 2])
    known = rng.choice(n_entities, seed % 3, replace=False)
    possible = np.ones(n_entities, dtype=bool)
    possible[known] = False
    possible[int(rng.integers(n_entities))] = False  # the anchor, perhaps
    scales = np.array([0.5, 2.0, 1.0])
    asked = Candidates(scores, weights, -(weights @ scores), possible, known)
    found = evidence_of(asked, np.arange(n_entities), scales)
    for entity in range(n_entities):
        place, features = evidence_by_loop(asked, entity, scales)
        assert found.places[entity] == place
        np.testing.assert_allclose(found.features[entity], features, atol=1e-9)


def test_usual_units_shift_heights_and_scale_heights_and_margins():
    features = np.array([[-1.0, 2.0, -3.0, 10.0, -4.0, -0.5]])
    found = in_usual_units(features, np.array([[6.0, 2.0]]))
    assert found.tolist() == [[-1.0, 2.0, -3.0, 2.0, -2.0, -0.5]]
    assert features[0, 3] == 10.0  # the input is left as it is


def test_the_anchor_takes_no_place_unless_train_relates_entities_to_themselves():
    dataset = Dataset.from_labels(
        "loops",
        train=[("a", "likes", "a"), ("a", "knows", "b")],
        valid=[("a", "likes", "b")],
        test=[("b", "knows", "b")],
    )
    assert dict(zip(dataset.relations.labels, self_related(dataset).tolist(), strict=True)) == {
        "knows": False, "likes": True,
    }  # fmt: skip
    ranking = CandidateRanking(np.array([[3, 2, 1, 0]], dtype=np.float32), np.array([1]), np.array([1]))
    assert Candidates.of(ranking, 0, np.array([1])).possible.tolist() == [False, False, True, True]
    assert Candidates.of(ranking, None, np.array([1])).possible.tolist() == [True, False, True, True]
    assert ranking.known.tolist() == [False, True, False, False]
