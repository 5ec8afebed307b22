"""First lines that name columns instead of stating a fact."""

import pytest

from relens.data.dataset import Dataset
from relens.data.headings import FEWEST, are_column_names, first_lines_like_headings, role_of
from relens.data.patterns import patterns

FACTS = [(f"e{i}", f"r{i % 3}", f"e{i + 1}") for i in range(FEWEST)]


@pytest.mark.parametrize(
    ("name", "role"),
    [("Head", "head"), (" subject ", "head"), ("#source", "head"), ("Relation Type", "relation"),
     ("PREDICATE", "relation"), ('"object"', "tail"), (":END", "tail"), ("y-name", "tail"), ("weight", None),
     ("", None), ("Paris", None)],
)  # fmt: skip
def test_roles_of_known_names(name, role):
    assert role_of(name) == role


@pytest.mark.parametrize(
    ("fields", "expected"),
    [(["head", "relation", "tail"], True), (["drug", "predicate", "object"], True), (["s", "p", "o", "weight"], True),
     (["head", "is", "round"], False), (["source", "subject", "x"], False), (["from", "to", "source"], False)],
)  # fmt: skip
def test_column_names_have_two_roles_once_each(fields, expected):
    assert are_column_names(fields) is expected


def warnings(train, valid=FACTS[:1], test=FACTS[1:2]):
    return first_lines_like_headings(Dataset.from_labels("toy", train=train, valid=valid, test=test))


def test_each_kind_of_heading_is_named():
    named = warnings([("head", "relation", "tail"), *FACTS])
    assert named == [
        "train begins with the line, 'head relation tail', which is read as a triple. If it is a heading, remove "
        "it, or let "
        "`relens data prepare toy NEW_FOLDER --header` do so"
    ]
    alone = warnings([("drug", "effect", "disease"), *FACTS])
    assert alone[0].startswith("train begins with the line, 'drug effect disease'")
    (shared,) = warnings([("a", "r0", "e3"), *FACTS], [("a", "r0", "e3")], [("a", "r0", "e3")])
    assert shared.startswith("train, valid and test begin with the same line, 'a r0 e3'")
    (two,) = warnings([("s", "p", "o"), *FACTS], [("s", "p", "o"), *FACTS[:1]])
    assert two.startswith("train and valid begin with the same line, 's p o'")


@pytest.mark.parametrize(
    "first",
    [
        ("1", "2", "3"),
        ("drug", "r1", "disease"),
        ("e3", "effect", "disease"),
        ("drug", "effect", "drug2"),
        ("head", "r1", "tail"),
    ],
)
def test_a_first_fact_is_no_heading(first):
    again = [("drug2", "r2", "e1")] if first[2] == "drug2" else []
    assert warnings([first, *FACTS, *again]) == []


def test_a_tiny_graph_may_have_facts_that_stand_alone():
    assert warnings([("a", "r", "b"), ("c", "s", "d")], [("c", "s", "d")], []) == []
    assert first_lines_like_headings(patterns()) == []
