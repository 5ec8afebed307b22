"""Candidates are checked when they are read, and their files name the data set they belong to."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from relens.data.candidates import PADDING, Candidates, check_candidates, write_candidates
from relens.data.dataset import Dataset
from relens.data.queries import Queries
from relens.errors import DatasetError, InputError
from relens.files import read_json

DATASET = Dataset.from_labels(
    "toy",
    train=[("a", "r", "b"), ("c", "s", "d"), ("e", "s", "f")],
    valid=[("a", "s", "c")],
    test=[("b", "r", "d"), ("f", "r", "a")],
)
# Entities a … f are 0 … 5; the answers of the test queries are d, b, a, f.
TEST = np.array([[0, 1, 2], [0, 5, PADDING], [1, 2, 3], [PADDING] * 3], dtype=np.int32)
VALID = np.array([[3, 4, 5], [1, 2, 3]], dtype=np.int32)
CANDIDATES = {"valid": Candidates(VALID, "by hand", ("train",)), "test": Candidates(TEST, "by hand")}


def test_columns_put_the_answer_first_and_mark_what_is_absent():
    candidates, answer = CANDIDATES["test"], DATASET.queries("test").answer
    assert answer.tolist() == [3, 1, 0, 5]
    assert candidates.columns(slice(0, 4), answer).tolist() == [[3, 0, 1, 2], [1, 0, 5, 1], [0, 1, 2, 3], [5, 5, 5, 5]]
    assert candidates.columns(np.array([2, 1]), answer[[2, 1]]).tolist() == [[0, 1, 2, 3], [1, 0, 5, 1]]
    assert (candidates.n_columns, candidates.per_query, len(candidates)) == (4, 3, 4)
    offsets, columns = candidates.absent(slice(0, 4))
    assert offsets.tolist() == [0, 0, 1, 1, 4]
    assert columns.tolist() == [3, 1, 2, 3]
    offsets, columns = candidates.absent(np.array([3, 0]))
    assert (offsets.tolist(), columns.tolist()) == ([0, 3, 3], [1, 2, 3])
    assert candidates.short_queries().tolist() == [1, 3]
    assert Candidates(np.empty((4, 0), dtype=np.int32), "none").short_queries().tolist() == []


def test_good_candidates_pass():
    for split, candidates in CANDIDATES.items():
        check_candidates(candidates.negatives, DATASET.queries(split), 6, split)


@pytest.mark.parametrize(
    ("row", "values", "message"),
    [
        (0, [0, 3, 2], r"here, query 0 \(triple 0, tail\): the answer, entity 3, is among the negatives\. Remove it"),
        (2, [4, 2, 4], r"here, query 2 \(triple 1, tail\): entity 4 occurs more than once among the negatives"),
        (3, [6, 0, 1], r"here, query 3 \(triple 1, head\): found entity 6, expected 0 to 5\. They belong to another"),
        (1, [0, 5, -2], r"query 1 \(triple 0, head\): found entity -2, expected 0 to 5"),
        (1, [0, -1, 5], "query 1 .* found -1 before a negative. Pad rows at the end only"),
    ],
)
def test_faults_are_named_by_query(row, values, message):
    negatives = TEST.copy()
    negatives[row] = values
    with pytest.raises(DatasetError, match=message):
        check_candidates(negatives, DATASET.queries("test"), 6, "here")
    repeats = "the answer" in message or "more than once" in message
    if repeats:
        check_candidates(negatives, DATASET.queries("test"), 6, "here", keep_repeats=True)
    else:
        with pytest.raises(DatasetError, match=message):
            check_candidates(negatives, DATASET.queries("test"), 6, "here", keep_repeats=True)


def test_a_fault_beyond_the_first_block_is_found():
    n_triples = 20_000
    queries = Queries.from_triples(np.tile([[0, 0, 1]], (n_triples, 1)))
    negatives = np.full((2 * n_triples, 2), [2, 3], dtype=np.int32)
    check_candidates(negatives, queries, 4, "here")
    negatives[39_001] = [2, 0]
    with pytest.raises(DatasetError, match=r"query 39001 \(triple 19500, head\): the answer, entity 0"):
        check_candidates(negatives, queries, 4, "here")


@pytest.mark.parametrize("negatives", [TEST[:3], TEST[0], TEST[::2]])
def test_a_missing_direction_is_refused(negatives):
    with pytest.raises(DatasetError, match=r"expected \(4, negatives\): a row per query, both directions"):
        check_candidates(negatives, DATASET.queries("test"), 6, "here")


@pytest.mark.parametrize(("split", "rows", "expected"), [("test", 2, 4), ("valid", 4, 2), ("tset", 4, 0)])
def test_a_data_set_takes_candidates_of_all_its_queries_only(split, rows, expected):
    message = f"toy has candidates for {rows} queries of {split}, expected {expected}: both directions"
    with pytest.raises(DatasetError, match=message):
        replace(DATASET, candidates={split: Candidates(TEST[:rows], "by hand")})


# Files.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_candidates(CANDIDATES, DATASET.identity, tmp_path)
    return tmp_path


def test_written_candidates_are_read_back(folder):
    dataset = DATASET.with_candidates(folder)
    assert set(dataset.candidates) == {"valid", "test"}
    for split, candidates in dataset.candidates.items():
        assert np.array_equal(candidates.negatives, CANDIDATES[split].negatives)
        assert candidates.source == "by hand"
        assert candidates.filter_splits == CANDIDATES[split].filter_splits
    assert dataset.fingerprint == DATASET.fingerprint
    assert DATASET.candidates == {}, "the data set itself is not changed"


def test_candidates_of_other_data_are_refused(folder):
    other = Dataset.from_labels("other", train=[("a", "r", "b")], valid=[("a", "s", "c")], test=[("b", "r", "d")])
    with pytest.raises(DatasetError, match=r"has candidates for 'toy' \(fingerprint \w+\), not for 'other' \(fing"):
        other.with_candidates(folder)


def test_candidates_of_another_numbering_are_refused(folder):
    record = read_json(folder / "candidates.json", "record")
    (folder / "candidates.json").write_text(json.dumps({**record, "entity_numbering": "f00d"}))
    with pytest.raises(DatasetError, match=r"\(entity_numbering f00d\), not for 'toy'"):
        DATASET.with_candidates(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "something"}, "is not a 'relens candidates' record: its kind is 'something'"),
        ({"format": 2}, "has format 2, this relens reads format 1"),
        ({"splits": {}}, "has no candidates of valid: expected candidates of valid and test"),
        ({"splits": {"valid": {}}}, "candidates.json is damaged .KeyError"),
        ({"splits": []}, "candidates.json is damaged"),
    ],
)
def test_damaged_records_are_refused(folder, change, message):
    record = read_json(folder / "candidates.json", "record")
    (folder / "candidates.json").write_text(json.dumps({**record, **change}))
    with pytest.raises(DatasetError, match=message):
        DATASET.with_candidates(folder)


def test_a_missing_split_is_refused(folder):
    record = read_json(folder / "candidates.json", "record")
    del record["splits"]["test"]
    (folder / "candidates.json").write_text(json.dumps(record))
    with pytest.raises(DatasetError, match="has no candidates of test"):
        DATASET.with_candidates(folder)


def test_damaged_arrays_are_refused(folder):
    file = folder / "test_candidates.npy"
    whole = file.read_bytes()
    file.write_bytes(whole[:-4])
    with pytest.raises(InputError, match=r"test_candidates\.npy cannot be read as a plain \.npy array"):
        DATASET.with_candidates(folder)
    np.save(file, TEST.astype(np.int64))
    with pytest.raises(DatasetError, match=r"shape \(4, 3\) of int64, but its record says \(4, 3\) of int32"):
        DATASET.with_candidates(folder)
    np.save(file, TEST[:2])
    with pytest.raises(DatasetError, match=r"shape \(2, 3\) of int32, but its record says \(4, 3\)"):
        DATASET.with_candidates(folder)
    spoilt = TEST.copy()
    spoilt[2, 0] = 0
    np.save(file, spoilt)
    with pytest.raises(DatasetError, match=r"test_candidates\.npy, query 2 .*the answer, entity 0"):
        DATASET.with_candidates(folder)
    shutil.rmtree(folder)
    with pytest.raises(InputError, match=r"candidates .*candidates\.json does not exist"):
        DATASET.with_candidates(folder)
