import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest

from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset
from relens.data.vocabulary import Vocabulary
from relens.reports.graph import relation_patterns


def by_loops(dataset: Dataset) -> list[tuple[float, float, int]]:
    facts = {tuple(row) for triples in dataset.splits.values() for row in triples.tolist()}
    found = []
    for r in range(len(dataset.relations)):
        mine = [fact for fact in facts if fact[1] == r]
        shares = [
            sum((t, s, h) in facts for h, _, t in mine) / max(1, len(mine)) for s in range(len(dataset.relations))
        ]
        symmetric, shares[r] = shares[r], 0.0
        inverse = max(shares)
        found.append((symmetric, inverse, shares.index(inverse) if inverse else -1))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_patterns_are_those_of_loops_over_the_facts(seed):
    rng = np.random.default_rng(seed)
    names = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in rng.integers(0, [6, 4, 6], size=(60, 3))]
    dataset = Dataset.from_labels("random", train=names[:40], valid=names[40:50], test=names[50:])
    found = relation_patterns(dataset)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == by_loops(dataset)


@contextmanager
def memory_below(limit):
    """Raise an error if the block allocates more bytes than ``limit`` at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


def test_memory_is_linear_in_the_relations():
    n = 20_000
    labels = tuple(f"r{r:05d}" for r in range(n))
    facts = np.stack([np.arange(n) % 50, np.arange(n), np.arange(n) % 51], axis=1)
    entities = Vocabulary("entity", tuple(f"e{e}" for e in range(51)))
    dataset = Dataset("many", entities, Vocabulary("relation", labels), train=facts, valid=facts[:9], test=facts[:9])
    with memory_below(2000 * n):  # a matrix of all pairs has 8 * n bytes for each relation
        found = relation_patterns(dataset)
    assert [len(column) for column in found] == [n, n, n]


def test_all_relations_between_two_entities(monkeypatch):
    """Every fact is the reverse of all facts of the other direction: pairs grow with the square of the relations."""
    n = 1000
    names = [("ab"[r % 2], f"r{r:04d}", "ba"[r % 2]) for r in range(n)]
    dataset = Dataset.from_labels("two", train=names)
    whole = relation_patterns(dataset)
    monkeypatch.setattr("relens.reports.graph.REVERSES", 1000)
    with memory_below(n * n):  # bytes; the pairs are n * n / 2
        parts = relation_patterns(dataset)
    for column, expected in zip(parts, whole, strict=True):
        assert column.tolist() == expected.tolist()
    assert parts.inverse_of.tolist() == [1, 0] * (n // 2)
    assert parts.inverse.tolist() == [1.0] * n


@pytest.mark.parametrize("seed", range(3))
def test_patterns_do_not_depend_on_the_parts(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    names = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in rng.integers(0, [4, 5, 4], size=(60, 3))]
    dataset = Dataset.from_labels("random", train=names)
    monkeypatch.setattr("relens.reports.graph.REVERSES", 1)
    found = relation_patterns(dataset)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == by_loops(dataset)


def test_the_generated_graph_shows_its_patterns():
    dataset = load_dataset("patterns")
    found, at = relation_patterns(dataset), dataset.relations.id_of
    assert found.symmetric[at("opponent_of")] == 1
    assert found.symmetric[at("outranks")] == 0
    assert found.inverse_of[at("teaches")] == at("taught_by")
    assert found.inverse_of[at("outranks")] == -1
