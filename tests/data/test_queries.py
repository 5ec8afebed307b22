import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from relens.data.queries import DIRECTIONS, HEAD, TAIL, Queries

TRIPLES = [[4, 0, 7], [7, 2, 4], [5, 1, 5]]
ids = st.integers(0, 2**31 - 1)
triples = st.lists(st.tuples(ids, ids, ids), max_size=20).map(lambda rows: np.array(rows, dtype=int).reshape(-1, 3))


def test_directions_are_named_in_the_order_of_their_numbers() -> None:
    assert DIRECTIONS[TAIL] == "tail"
    assert DIRECTIONS[HEAD] == "head"


@settings(deadline=None)
@given(triples)
def test_each_triple_asks_for_its_tail_then_for_its_head(rows) -> None:
    expected = []
    for number, (head, relation, tail) in enumerate(rows.tolist()):
        expected.append([head, relation, TAIL, tail, number])
        expected.append([tail, relation, HEAD, head, number])
    queries = Queries.from_triples(rows)
    assert len(queries) == len(expected)
    assert queries.columns().T.tolist() == expected
    assert queries.columns().dtype == np.int32


@settings(deadline=None)
@given(triples)
def test_columns_round_trip_with_their_fingerprint(rows) -> None:
    queries = Queries.from_triples(rows)
    again = Queries.from_columns(queries.columns())
    assert again.columns().tolist() == queries.columns().tolist()
    assert again.fingerprint() == queries.fingerprint()


def test_index_selects_rows_of_every_column() -> None:
    queries = Queries.from_triples(TRIPLES)
    assert queries[np.array([5, 0])].columns().T.tolist() == [[5, 1, HEAD, 5, 2], [4, 0, TAIL, 7, 0]]
    assert len(queries[queries.direction == TAIL]) == 3


def test_fingerprint_sees_order_and_every_column() -> None:
    queries = Queries.from_triples(TRIPLES)
    digests = {queries.fingerprint(), queries[::-1].fingerprint(), queries[:-1].fingerprint()}
    for column in range(5):
        changed = queries.columns()
        changed[column, 0] += 1
        digests.add(Queries.from_columns(changed).fingerprint())
    assert len(digests) == 8
    assert all(len(digest) == 16 for digest in digests)
