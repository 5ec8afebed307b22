"""Thresholds: the search against brute force, examples of both protocols, no look at test in the fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relens.data.dataset import Dataset
from relens.data.known_answers import KnownAnswers
from relens.prediction.answer_ranking import RankedAnswers
from relens.prediction.thresholds import Examples, Thresholds, best_threshold, fit_thresholds, hard_negatives
from relens.ranking.answer_ranks import AnswerRanks

NUMBERS = st.integers(-4, 4).map(lambda n: n / 2)


def accuracy(threshold, examples):
    """Count right verdicts with plain loops."""
    return sum((value >= threshold) == true for value, true in examples)


@given(st.lists(st.tuples(NUMBERS, st.booleans()), min_size=1, max_size=12), NUMBERS.map(lambda n: n + 0.1))
def test_no_threshold_is_better(examples, near):
    values, true = map(np.array, zip(*examples, strict=True))
    found = best_threshold(values, true, near)
    every = sorted({value for value, _ in examples})
    tried = [every[0] - 1, *(v + step for v in every for step in (0, 0.01)), near]
    best = max(accuracy(threshold, examples) for threshold in tried)
    assert accuracy(found, examples) == best
    if accuracy(near, examples) == best:
        assert found == near


@pytest.mark.parametrize(
    ("values", "true", "near", "expected"),
    [
        ([1.0, 2.0, 3.0], [0, 1, 1], 9.0, 1.5),  # the middle of the gap
        ([1.0, 2.0, 3.0], [0, 1, 1], 1.2, 1.2),  # near lies in the gap
        ([1.0, 2.0], [1, 1], 5.0, 1.0),  # all are true: the least value
        ([1.0, 2.0], [0, 0], 0.0, np.nextafter(2.0, np.inf)),  # none is
        ([1.0, 2.0, 3.0, 4.0], [0, 1, 0, 1], 9.0, 3.5),  # two are equally good: the one closest to near
        ([1.0, 2.0, 3.0, 4.0], [0, 1, 0, 1], -9.0, 1.5),
    ],
)
def test_of_equal_thresholds_it_is_the_closest_one(values, true, near, expected):
    assert best_threshold(np.array(values), np.array(true, dtype=bool), near) == expected


def test_relations_without_examples_have_the_threshold_of_all():
    values = np.array([1.0, 2.0, 3.0, 10.0, 20.0, 30.0])
    true, relation = np.array([0, 1, 1, 0, 1, 1], dtype=bool), np.array([0, 0, 0, 2, 2, 2])
    by_relation, own, fallback = fit_thresholds(values, true, relation, 4)
    assert by_relation.tolist() == [1.5, fallback, 15.0, fallback]
    assert own.tolist() == [True, False, True, False]
    assert fallback == best_threshold(values, true, 6.5)


def ranked(scores, ranks):
    """Return the ranked answers to both queries of some triples."""
    ahead = np.repeat(np.array(ranks) - 1, 2)
    return RankedAnswers(AnswerRanks(ahead, np.zeros_like(ahead)), np.repeat(np.array(scores, dtype=float), 2))


def test_the_statistic_with_the_best_accuracy_on_the_other_half_is_chosen():
    rng = np.random.default_rng(0)
    true = np.arange(200) < 100
    examples = Examples(np.zeros((200, 3), dtype=np.int32), true, "given negatives")
    noise, telling = rng.normal(size=200), np.where(true, 1, 50)
    assert Thresholds.fit(examples, ranked(noise, telling), 1, 0).statistic == "rank"
    found = Thresholds.fit(examples, ranked(-telling, rng.integers(1, 90, 200)), 1, 0)
    assert (found.statistic, found.tried["score"], found.protocol) == ("score", 1.0, "given negatives")
    assert found.by_relation.tolist() == [found.fallback]


def graph(tmp_path, rows, **splits):
    """Write and read a data set with 9 entities."""
    from relens.data.dataset import read_folder

    for split, part in ({"train": rows, "valid": [], "test": []} | splits).items():
        (tmp_path / f"{split}.txt").write_text("".join("\t".join(row) + "\n" for row in part))
    return read_folder(tmp_path)


def test_hard_negatives_have_entities_of_the_relation_and_are_not_known():
    rng = np.random.default_rng(1)
    every = np.unique(rng.integers(0, [12, 3, 12], size=(150, 3)), axis=0)
    train, valid = every[::2], every[1::2]
    known = KnownAnswers.build([train, valid], 12, 3)
    found = hard_negatives(valid, train, known, np.random.default_rng(2))
    assert len(found) == len(valid)
    facts = set(map(tuple, every.tolist()))
    hard = 0
    for old, new in zip(valid.tolist(), found.tolist(), strict=True):
        assert tuple(new) not in facts
        (side,) = (side for side in (0, 2) if old[side] != new[side])
        assert old[1] == new[1]
        hard += any(row[1] == new[1] and row[side] == new[side] for row in train.tolist())
    assert hard == len(found)
    again = hard_negatives(valid, train, known, np.random.default_rng(2))
    assert again.tolist() == found.tolist()


def test_a_triple_without_a_false_one_is_left_out_and_any_entity_is_better_than_none():
    complete = np.array([[h, 0, t] for h in range(2) for t in range(2)])
    known = KnownAnswers.build([complete], 2, 1)
    assert hard_negatives(complete, complete, known, np.random.default_rng(0)).shape == (0, 3)
    known = KnownAnswers.build([complete], 3, 1)
    found = hard_negatives(complete, complete, known, np.random.default_rng(0))
    assert len(found) == 4
    assert all(2 in (row[0], row[2]) for row in found.tolist())


def test_given_negatives_come_first_and_validation_does_not_look_at_test(tmp_path):
    rows = [(f"e{i}", "r", f"e{(i + 1) % 9}") for i in range(9)]
    valid, test = [("e0", "r", "e2"), ("e1", "r", "e3")], [("e2", "r", "e4")]
    negatives = [("head", "relation", "tail"), ("e5", "r", "e0")]
    dataset = graph(tmp_path, rows, valid=valid, test=test, valid_negatives=negatives)
    examples = Examples.of_split(dataset, "valid", filtered=("train", "valid"), seed=0)
    assert (examples.protocol, examples.true.tolist()) == ("given negatives", [True, True, False])
    assert examples.triples.tolist() == [*dataset.valid.tolist(), [5, 0, 0]]
    examples = Examples.of_split(dataset, "test", filtered=("train", "valid", "test"), seed=4)
    assert (examples.protocol, examples.true.tolist()) == ("sampled hard negatives, seed 4", [True, False])
    parts = dataset.entities, dataset.relations, dataset.train, dataset.valid
    every = np.array([[h, 0, t] for h in range(9) for t in range(9)])
    sampled = [
        Examples.of_split(Dataset("other", *parts, test), "valid", filtered=("train", "valid"), seed=0).triples.tolist()
        for test in (dataset.test, every)
    ]
    assert sampled[0] == sampled[1]
