import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relens.data.checks import describe
from relens.data.dataset import Dataset, cardinality_classes

N_RELATIONS = 4
triple = st.tuples(st.integers(0, 5), st.integers(0, N_RELATIONS - 1), st.integers(0, 5))


def brute_force_class(triples: list[tuple[int, int, int]], relation: int) -> str:
    pairs = {(head, tail) for head, other, tail in triples if other == relation}
    if not pairs:
        return ""
    tails_per_head = len(pairs) / len({head for head, _ in pairs})
    heads_per_tail = len(pairs) / len({tail for _, tail in pairs})
    return ("N" if heads_per_tail > 1.5 else "1") + "-" + ("N" if tails_per_head > 1.5 else "1")


@settings(deadline=None)
@given(st.lists(triple, max_size=40))
def test_classes_are_those_of_brute_force(triples) -> None:
    found = cardinality_classes(np.array(triples, dtype=int).reshape(-1, 3), N_RELATIONS)
    assert found == tuple(brute_force_class(triples, relation) for relation in range(N_RELATIONS))


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([(0, 1), (2, 3)], "1-1"),
        ([(0, 1), (0, 2), (0, 3)], "1-N"),
        ([(1, 0), (2, 0), (3, 0)], "N-1"),
        ([(0, 1), (0, 2), (3, 1), (3, 2)], "N-N"),
        ([(0, 1), (0, 2), (3, 4)], "1-1"),  # 1.5 tails per head is not yet many
        ([(0, 1), (0, 1), (0, 1)], "1-1"),  # a repeated triple is one answer
    ],
)
def test_head_side_is_written_first(pairs: list[tuple[int, int]], expected: str) -> None:
    triples = np.array([(head, 0, tail) for head, tail in pairs])
    assert cardinality_classes(triples, 2) == (expected, "")


def test_the_description_counts_unusual_triples() -> None:
    dataset = Dataset.from_labels(
        "toy",
        train=[("a", "r", "b"), ("a", "r", "b"), ("a", "r", "c"), ("a", "s", "b")],
        valid=[("a", "r", "b"), ("a", "r", "new"), ("newer", "r", "new"), ("b", "t", "a")],
        test=[("a", "r", "new"), ("a", "r", "b")],
    )
    facts = describe(dataset)
    assert json.loads(json.dumps(facts)) == facts
    assert facts["name"] == "toy"
    assert facts["fingerprint"] == dataset.fingerprint
    assert facts["counts"] == dataset.counts
    assert facts["duplicates"] == {"within_splits": 1, "across_splits": 3}
    assert facts["unseen_entities"] == {"valid": 2, "test": 1}
    assert facts["relations_absent_from_valid"] == ["s"]
    assert facts["relations"] == [
        {"relation": "r", "class": "1-N", "train": 3, "valid": 3, "test": 2},
        {"relation": "s", "class": "1-1", "train": 1, "valid": 0, "test": 0},
        {"relation": "t", "class": "", "train": 0, "valid": 1, "test": 0},
    ]


def test_description_of_empty_splits() -> None:
    facts = describe(Dataset.from_labels("toy", train=[("a", "r", "b")]))
    assert facts["duplicates"] == {"within_splits": 0, "across_splits": 0}
    assert facts["unseen_entities"] == {"valid": 0, "test": 0}
    assert facts["relations_absent_from_valid"] == ["r"]
