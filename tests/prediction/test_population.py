"""Samples of questions: what they stand for."""

from dataclasses import replace

import numpy as np

from relens.prediction.population import Population, SampleSize
from tests.prediction.judged_graph import SIZE, graph


def keys(population):
    return list(zip(*(column.tolist() for column in population[:3]), strict=True))


def asked_of(dataset, *splits):
    rows = [row for split in splits for row in dataset.splits[split].tolist()]
    return {(h, r, 0) for h, r, _ in rows} | {(t, r, 1) for _, r, t in rows}


def test_a_large_sample_is_the_whole_population():
    dataset = graph()
    found = Population.sample(dataset, ("train",), "valid", size=SampleSize(10**6, 10**6))
    assert sorted(keys(found)) == [(a, r, d) for a in range(SIZE) for r in range(2) for d in range(2)]
    assert (found.weight == 1).all()


def test_a_small_sample_stands_for_the_whole_population():
    dataset = graph()
    train, every = asked_of(dataset, "train"), asked_of(dataset, "train", "valid")
    found = Population.sample(dataset, ("train",), "valid", size=SampleSize(20, 8))
    asked = keys(found)
    assert len(set(asked)) == len(asked)
    assert len(asked) < 4 * SIZE
    for kind in (train, every - train, {(a, r, d) for a in range(SIZE) for r in range(2) for d in range(2)} - every):
        for group in ((r, d) for r in range(2) for d in range(2)):
            weights = [w for key, w in zip(asked, found.weight, strict=True) if key in kind and key[1:] == group]
            whole = sum(key[1:] == group for key in kind)
            if weights or kind is train:
                assert sum(weights) == sum([whole])
                assert len(set(weights)) == 1
    assert min(np.bincount(found.relation * 2 + found.direction)) >= SampleSize().least


def test_a_sample_is_the_same_for_the_same_seed():
    dataset = graph()
    one, two, other = (Population.sample(dataset, ("train",), "valid", s, size=SampleSize(20, 8)) for s in (1, 1, 2))
    assert keys(one) == keys(two) != keys(other)


def test_test_is_not_read():
    dataset = graph()
    without = replace(dataset, test=dataset.test[:0])
    first, second = (Population.sample(of, ("train",), "valid") for of in (dataset, without))
    assert keys(first) == keys(second)
