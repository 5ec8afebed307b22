"""A graph that leaks as FB15k does, made from the generated graph."""

import numpy as np

from relens.data.dataset import Dataset
from relens.data.patterns import patterns

Row = tuple[str, str, str]


def rows_of(dataset: Dataset, split: str) -> list[Row]:
    """Return the triples of a split as labels."""
    entities, relations = dataset.entities.labels, dataset.relations.labels
    return [(entities[h], relations[r], entities[t]) for h, r, t in dataset.splits[split].tolist()]


def with_counterparts(*, inverse: bool, seed: int = 0) -> Dataset:
    """Return the generated graph with an inverse or a duplicate of each relation, split at random."""
    every = [row for split in patterns().splits for row in rows_of(patterns(), split)]
    more = [(t, f"{r}_again", h) if inverse else (h, f"{r}_again", t) for h, r, t in every]
    rows = [(every + more)[i] for i in np.random.default_rng(seed).permutation(2 * len(every))]
    return Dataset.from_labels("leaky", train=rows[2000:], valid=rows[:1000], test=rows[1000:2000])
