"""Relation patterns as the graph shows them: how symmetric a relation is, and which other one it reverses."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset


class Patterns(NamedTuple):
    """Shares of each relation's distinct facts, (R,) each.

    ``symmetric``: the reversed fact has the same relation. ``inverse``: the reversed fact has the one other relation
    for which this share is largest, whose id is ``inverse_of``; -1 where no fact is reversed by another relation.
    """

    symmetric: npt.NDArray[np.float64]
    inverse: npt.NDArray[np.float64]
    inverse_of: npt.NDArray[np.int64]


def relation_patterns(dataset: Dataset) -> Patterns:
    """Count, over all splits, the facts (h, r, t) for which a fact (t, s, h) is known."""
    n_entities, n_relations = len(dataset.entities), len(dataset.relations)
    facts = np.unique(np.concatenate(list(dataset.splits.values())), axis=0).astype(np.int64)
    heads, relations, tails = facts.T
    pairs = heads * n_entities + tails
    order = np.argsort(pairs, kind="stable")
    ordered, reversed_pairs = pairs[order], tails * n_entities + heads
    begins = np.searchsorted(ordered, reversed_pairs, side="left")
    ends = np.searchsorted(ordered, reversed_pairs, side="right")
    counts = ends - begins
    # The facts found for fact i are ordered[begins[i]:ends[i]]; all of them, one after the other:
    found = order[np.repeat(begins - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) + np.arange(counts.sum())]
    codes = np.repeat(relations, counts) * n_relations + relations[found]
    shared = np.bincount(codes, minlength=n_relations**2).reshape(n_relations, n_relations).astype(np.float64)
    shared /= np.maximum(np.bincount(relations, minlength=n_relations), 1)[:, None]
    symmetric = shared.diagonal().copy()
    np.fill_diagonal(shared, 0.0)
    inverse, inverse_of = shared.max(axis=1, initial=0.0), shared.argmax(axis=1)
    return Patterns(symmetric, inverse, np.where(inverse > 0, inverse_of, -1))
