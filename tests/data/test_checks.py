"""Warnings about data sets, and the splits that a command requires."""

import pytest

from relens.data.checks import check_splits, suspicions
from relens.data.dataset import Dataset
from relens.data.patterns import patterns
from relens.errors import DatasetError

TRAIN = [("a", "r", "b"), ("b", "r", "c"), ("c", "s", "d"), ("d", "s", "a")]
VALID = [("a", "s", "c")]
TEST = [("b", "s", "d"), ("d", "r", "b")]


def graph(train=(), valid=(), test=()) -> Dataset:
    return Dataset.from_labels("toy", train=[*TRAIN, *train], valid=[*VALID, *valid], test=[*TEST, *test])


def test_good_data_gives_no_warning():
    assert suspicions(graph()) == []
    assert suspicions(patterns()) == []


@pytest.mark.parametrize(
    ("added", "warnings"),
    [
        (
            {"valid": [("a", "r", "b")]},
            ["train has 1 of the 2 valid triples, too: a model that memorises train will look good on valid"],
        ),
        ({"train": [("a", "r", "b")]}, ["1 triple repeats another triple of the same split"]),
        ({"train": TRAIN[:2]}, ["2 triples repeat another triple of the same split"]),
        (
            {"valid": [("a", "s", "new")]},
            ["train lacks an entity of 1 of the 2 valid triples: models learn nothing about it"],
        ),
        ({"valid": [("b", "t", "d")]}, ["train lacks 1 relation of valid: 't'"]),
        (
            {"test": [("a", "t", "c"), ("a", "u", "c"), ("a", "v", "c"), ("a", "w", "c")]},
            ["train lacks 4 relations of test: 't', 'u', 'v', …"],
        ),
        (
            {"train": [(" a", "r", "d ")]},
            ["2 labels begin or end with a space: ' a', 'd '. Remove the spaces if they are noise"],
        ),
        (
            {"train": [("c", "r ", "a"), ("e", "s", "a")]},
            [
                "1 label begins or ends with a space: 'r '. Remove the spaces if they are noise",
                "train links the two entities of 1 of the 1 valid triple the other way round: a model that finds pairs "
                "of inverse relations will look good on valid",
            ],
        ),
    ],
)
def test_each_suspicion_is_one_sentence(added, warnings):
    assert suspicions(graph(**added)) == warnings


def test_a_common_first_line_may_be_a_heading():
    heading = [("head", "relation", "tail")]
    dataset = Dataset.from_labels("toy", train=heading + TRAIN, valid=heading + VALID, test=heading + TEST)
    first, *_ = suspicions(dataset)
    assert first == (
        "train, valid and test begin with the same line, 'head relation tail': remove it if it is a heading"
    )


def test_reversed_triples_are_suspicious_above_one_half():
    back = [("d", "inverse_s", "b"), ("x", "r", "x")]
    half = graph(train=back, test=[("a", "r", "d"), ("x", "s", "x"), ("a", "r", "c"), ("b", "r", "b")])
    assert not any("the other way round" in text for text in suspicions(half)), (
        "3 of 6 are half, and loops are no pairs"
    )
    most = graph(train=back, test=[("a", "r", "d"), ("b", "r", "a"), ("c", "r", "b"), ("b", "r", "b")])
    found = [text for text in suspicions(most) if "the other way round" in text]
    assert len(found) == 1
    assert found[0].startswith("train links the two entities of 4 of the 6 test triples the other way round")


@pytest.mark.parametrize(("split", "kind"), [("valid", "validation"), ("test", "test")])
def test_an_empty_split_that_is_needed_raises_an_error(split, kind):
    dataset = Dataset.from_labels("toy", train=TRAIN)
    check_splits(dataset)
    with pytest.raises(DatasetError, match=f"'toy' has no {kind} triples, .*: move some triples from train to {split}"):
        check_splits(dataset, split)
