"""Splits: their constraints, checked by plain loops."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from relens.data.patterns import patterns
from relens.data.preparation.facts import Facts
from relens.data.preparation.settings import SplitSettings
from relens.data.preparation.splitting import known_rows, split_facts
from relens.errors import DatasetError

BOTH = ("valid", "test")
RELATIONS = ("r0", "r1", "r2")
SPLITS = dict(patterns().splits.items())
ROWS = np.unique(np.concatenate(list(SPLITS.values())), axis=0)
LABELS = patterns().relations.labels

triples = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 6)), min_size=1, max_size=40, unique=True
)


def facts(rows, times=None) -> Facts:
    return Facts(np.array(rows, dtype=np.int32).reshape(-1, 3), None if times is None else np.array(times, dtype=float))


def labels_of(rows) -> set[tuple[str, int]]:
    return {("entity", e) for h, _, t in rows for e in (h, t)} | {("relation", r) for _, r, _ in rows}


def parts_of(found, rows) -> dict[str, list[tuple[int, int, int]]]:
    return {split: [tuple(rows[i]) for i in numbers.tolist()] for split, numbers in found.rows.items()}


def most_by_hand(rows, allowed) -> int:
    """Return how many triples can be taken one after the other, the luckiest order first (exhaustive)."""
    best = 0
    waiting = [(tuple(rows), 0)]
    seen = set()
    while waiting:
        left, taken = waiting.pop()
        best = max(best, taken)
        for i, row in enumerate(left):
            rest = left[:i] + left[i + 1 :]
            if allowed(row) and labels_of([row]) <= labels_of(rest) and rest not in seen:
                seen.add(rest)
                waiting.append((rest, taken + 1))
    return best


@given(triples, st.integers(0, 3), st.integers(0, 3), st.integers(0, 5), st.booleans(), st.booleans())
def test_a_split_keeps_its_constraints_or_says_that_it_cannot(rows, n_valid, n_test, seed, stratify, some):
    hold_out = ("r0", "r2") if some else ()
    settings = SplitSettings(n_valid, n_test, hold_out, stratify, seed=seed)
    try:
        found = split_facts(facts(rows), RELATIONS, settings, BOTH)
    except DatasetError as error:
        text = str(error)
        if "distinct triple" in text and "only" in text and "keeps" not in text:
            assert n_valid + n_test > sum(not some or r != 1 for _, r, _ in rows)
        else:
            assert "train keeps all entities and relations only if at most" in text
            few = int(text.split("at most ")[1].split(" of ")[0])
            assert few < n_valid + n_test
        return
    parts = parts_of(found, rows)
    assert (len(parts["valid"]), len(parts["test"])) == (n_valid, n_test)
    assert sorted(row for part in parts.values() for row in part) == sorted(rows)
    held = parts["valid"] + parts["test"]
    assert labels_of(held) <= labels_of(parts["train"])
    assert not some or all(r != 1 for _, r, _ in held)


few = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=6, unique=True)


@given(few, st.integers(0, 3))
def test_nothing_more_can_be_held_out_than_an_error_says(rows, seed):
    """What is left after the random order is used up admits no further triple; no order gives more than all orders."""
    most = most_by_hand(rows, lambda row: True)
    with pytest.raises(DatasetError) as raised:
        split_facts(facts(rows), RELATIONS, SplitSettings(len(rows), 0, seed=seed), BOTH)
    found = int(str(raised.value).split("at most ")[1].split(" of ")[0])
    assert found <= most
    assert (found > 0) == (most > 0)


@pytest.mark.parametrize("stratify", [False, True])
def test_shares_and_counts_have_their_sizes(stratify):
    found = split_facts(facts(ROWS), LABELS, SplitSettings(0.05, 100, stratify=stratify), BOTH)
    assert {split: len(rows) for split, rows in found.rows.items()} == {
        "train": len(ROWS) - round(0.05 * len(ROWS)) - 100,
        "valid": round(0.05 * len(ROWS)),
        "test": 100,
    }
    again = split_facts(facts(ROWS), LABELS, SplitSettings(0.05, 100, stratify=stratify), BOTH)
    assert all((found.rows[split] == again.rows[split]).all() for split in found.rows)
    other = split_facts(facts(ROWS), LABELS, SplitSettings(0.05, 100, stratify=stratify, seed=1), BOTH)
    assert not np.array_equal(found.rows["test"], other.rows["test"])


def test_a_stratified_split_has_the_same_share_of_each_relation():
    found = split_facts(facts(ROWS), LABELS, SplitSettings(0.1, 200, stratify=True), BOTH)
    size = Counter(ROWS[:, 1].tolist())
    for split in BOTH:
        rows = ROWS[found.rows[split]]
        of_relation = Counter(rows[:, 1].tolist())
        for relation, n in size.items():
            assert abs(of_relation[relation] - len(rows) * n / len(ROWS)) <= 2
    plain = split_facts(facts(ROWS), LABELS, SplitSettings(0.1, 200), BOTH)
    counts = Counter(ROWS[plain.rows["test"], 1].tolist())
    assert any(abs(counts[relation] - 200 * n / len(ROWS)) > 2 for relation, n in size.items())


def test_relations_that_fall_short_of_their_share_are_made_up_for():
    chain = [(i, 0, i + 1) for i in range(20)]  # all entities at its ends or in two triples
    loose = [(100 + 2 * i, 1, 101 + 2 * i) for i in range(20)]  # none can be held out
    rows = sorted(chain + loose)
    found = split_facts(facts(rows), RELATIONS, SplitSettings(2, 2, stratify=True), BOTH)
    assert all(r == 0 for split in BOTH for _, r, _ in parts_of(found, rows)[split])
    assert [len(found.rows[split]) for split in BOTH] == [2, 2]


def test_unseen_labels_are_allowed_on_request():
    star = [(0, 0, i) for i in range(1, 6)]
    with pytest.raises(DatasetError, match=r"cannot hold out 1 for valid and 1 for test: with this seed, train "
                                           r"keeps all "
                       r"entities and relations only if at most 0 of the 5 distinct triples are held out. Ask for "
                       r"fewer, "
                       r"or pass `allow_unseen=True`"):  # fmt: skip
        split_facts(facts(star), RELATIONS, SplitSettings(1, 1), BOTH)
    found = split_facts(facts(star), RELATIONS, SplitSettings(2, 2, allow_unseen=True), BOTH)
    assert {split: len(rows) for split, rows in found.rows.items()} == {"train": 1, "valid": 2, "test": 2}
    with pytest.raises(DatasetError, match="at most 4 of the 5"):
        split_facts(facts(star), RELATIONS, SplitSettings(3, 2, allow_unseen=True), BOTH)


def test_default_sizes_give_way_to_the_constraints():
    n = 30
    rows = [(0, 0, i) for i in range(1, n)] + [(1, 0, 2), (2, 0, 3), (3, 0, 1)]
    found = split_facts(facts(rows), RELATIONS, SplitSettings(), BOTH)
    assert [len(found.rows[split]) for split in BOTH] == [2, 2]
    assert found.notes[0].startswith(
        "held out 4 triples instead of 6: each further one has an entity or a relation that"
    )
    with pytest.raises(DatasetError, match="at most 0 of the 29"):
        split_facts(facts(rows[: n - 1]), RELATIONS, SplitSettings(), BOTH)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (SplitSettings(hold_out=("r9",)), "cannot hold out the unknown relation 'r9'; available: 'r0', 'r1', 'r2'"),
        (SplitSettings(5, 5), "cannot hold out 5 for valid and 5 for test: only 6 distinct triples may be held out"),
        (SplitSettings(2, 2, hold_out=("r1",)), "only 3 distinct triples may be held out. Ask for fewer"),
        (SplitSettings(0.01, 0.2), "6 distinct triples that may be held out give no triple for valid: name a count, "
                                   "as in "),
    ],
)  # fmt: skip
def test_sizes_that_cannot_be(settings, message):
    rows = [(0, 0, 1), (1, 0, 2), (2, 0, 0), (0, 1, 1), (1, 1, 2), (2, 1, 0)]
    with pytest.raises(DatasetError, match=message):
        split_facts(facts(rows), RELATIONS, settings, BOTH)


@given(triples, st.lists(st.integers(0, 5), min_size=40, max_size=40), st.integers(0, 4), st.integers(1, 4),
       st.booleans(), st.booleans())  # fmt: skip
def test_a_split_by_time_never_looks_ahead(rows, times, n_valid, n_test, some, unseen):
    times = times[: len(rows)]
    hold_out = ("r0",) if some else ()
    may = [row for row in rows if not some or row[1] == 0]
    assume(n_valid + n_test <= len(may))
    settings = SplitSettings(n_valid, n_test, hold_out, allow_unseen=unseen)
    refused = ""
    try:
        found = split_facts(facts(rows, times), RELATIONS, settings, BOTH)
    except DatasetError as error:
        refused = str(error)
    if refused:
        assert "leaves no triple for train" in refused or "which is earlier, lacks" in refused
        return
    parts = parts_of(found, rows)
    time_of = dict(zip(rows, times, strict=True))
    latest = {split: [time_of[row] for row in part] for split, part in parts.items()}
    assert max(latest["train"]) <= min(latest["valid"] + latest["test"], default=9)
    assert max(latest["valid"], default=0) <= min(latest["test"], default=9)
    if unseen:
        assert (len(parts["valid"]), len(parts["test"])) == (n_valid, n_test)
    else:
        assert labels_of(parts["valid"] + parts["test"]) <= labels_of(parts["train"])
    taken = Counter(row for part in parts.values() for row in part)
    assert set(taken.values()) <= {1}
    for row in set(rows) - set(taken):  # left out: unknown to train, or later than it
        known = labels_of([row]) <= labels_of(parts["train"])
        assert not known or time_of[row] > max(latest["train"])


@given(triples, triples)
def test_known_rows_have_only_labels_of_train(rows, train):
    expected = [labels_of([row]) <= labels_of(train) for row in rows]
    assert known_rows(facts(rows).triples, facts(train).triples).tolist() == expected
