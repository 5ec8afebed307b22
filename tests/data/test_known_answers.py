from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relens.data.known_answers import KnownAnswers
from relens.data.queries import HEAD, TAIL, Queries
from relens.errors import DatasetError

N_ENTITIES, N_RELATIONS = 5, 3
triple = st.tuples(st.integers(0, N_ENTITIES - 1), st.integers(0, N_RELATIONS - 1), st.integers(0, N_ENTITIES - 1))
splits = st.lists(st.lists(triple, max_size=15).map(lambda rows: np.array(rows, dtype=int).reshape(-1, 3)), max_size=3)


def brute_force(known: list, queries: Queries) -> list[list[int]]:
    """Known answers of each query other than its own, by looking at every triple for every query."""
    result = []
    for anchor, relation, direction, answer, _ in queries.columns().T.tolist():
        found = set()
        for rows in known:
            for head, other, tail in rows.tolist():
                if other == relation and direction == TAIL and head == anchor:
                    found.add(tail)
                if other == relation and direction == HEAD and tail == anchor:
                    found.add(head)
        result.append(sorted(found - {answer}))
    return result


@settings(deadline=None)
@given(known=splits, asked=st.lists(triple, max_size=10))
def test_known_answers_are_those_of_brute_force(known, asked) -> None:
    queries = Queries.from_triples(np.array(asked, dtype=int).reshape(-1, 3))
    offsets, answers = KnownAnswers.build(known, N_ENTITIES, N_RELATIONS).other_answers(queries)
    assert offsets.dtype == np.int64
    assert answers.dtype == np.int32
    assert offsets.shape == (len(queries) + 1,)
    assert offsets[-1] == len(answers)
    found = [answers[begin:end].tolist() for begin, end in pairwise(offsets)]
    assert found == brute_force(known, queries)


def test_a_query_keeps_its_own_answer() -> None:
    known = KnownAnswers.build([np.array([[0, 0, 1], [0, 0, 2]]), np.array([[0, 0, 1]])], 3, 1)
    offsets, answers = known.other_answers(Queries.from_triples([[0, 0, 1]]))
    assert offsets.tolist() == [0, 1, 1]
    assert answers.tolist() == [2]


def test_large_graphs_keep_their_answers_apart() -> None:
    n_entities, n_relations = 2_500_000, 535
    last = [n_entities - 1, n_relations - 1, n_entities - 2]
    known = KnownAnswers.build([np.array([last, [n_entities - 1, n_relations - 1, 0]])], n_entities, n_relations)
    offsets, answers = known.other_answers(Queries.from_triples([last]))
    assert offsets.tolist() == [0, 1, 1]
    assert answers.tolist() == [0]


def test_no_entities_at_all() -> None:
    offsets, answers = KnownAnswers.build([], 0, 0).other_answers(Queries.from_triples([]))
    assert offsets.tolist() == [0]
    assert answers.tolist() == []


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([3, 0, 0], "anchor ids run from 0 to 3, expected 0 to 2: .* different data sets"),
        ([0, 2, 0], "relation ids run from 2 to 2, expected 0 to 1"),
        ([0, -1, 0], "relation ids run from -1 to -1"),
    ],
)
def test_ids_of_another_data_set_are_refused(row: list[int], message: str) -> None:
    known = KnownAnswers.build([np.array([[0, 0, 1]])], 3, 2)
    with pytest.raises(DatasetError, match=message):
        known.other_answers(Queries.from_triples([row]))
    with pytest.raises(DatasetError, match=message):
        KnownAnswers.build([np.array([row])], 3, 2)


def test_answer_of_another_data_set_is_refused() -> None:
    columns = np.array([[0], [0], [TAIL], [3], [0]])
    with pytest.raises(DatasetError, match="answer ids run from 3 to 3, expected 0 to 2"):
        KnownAnswers.build([], 3, 2).other_answers(Queries.from_columns(columns))


def test_keys_that_would_overflow_are_refused() -> None:
    with pytest.raises(DatasetError, match="2,147,483,647 entities and 3 relations are too many to filter"):
        KnownAnswers.build([], 2**31 - 1, 3)
