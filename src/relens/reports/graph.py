"""The graph in a report: its statistics, and the patterns of its relations."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from relens.data.checks import describe
from relens.data.dataset import Dataset
from relens.data.queries import SPLITS
from relens.reports.style import count
from relens.tables import Column, Row, Table


class Patterns(NamedTuple):
    """Patterns of each relation, (R,) each, as shares of its distinct facts.

    Attributes:
        symmetric: share of the facts whose reverse has the same relation.
        inverse: share of the facts whose reverse has the relation ``inverse_of``.
        inverse_of: id of the other relation with the largest such share; -1 if no fact is reversed by another relation.
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
    # The reverses of fact i are order[begins[i]:ends[i]]; ``found`` concatenates these slices for all facts.
    found = order[np.repeat(begins - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) + np.arange(counts.sum())]
    codes = np.repeat(relations, counts) * n_relations + relations[found]
    shared = np.bincount(codes, minlength=n_relations**2).reshape(n_relations, n_relations).astype(np.float64)
    shared /= np.maximum(np.bincount(relations, minlength=n_relations), 1)[:, None]
    symmetric = shared.diagonal().copy()
    np.fill_diagonal(shared, 0.0)
    inverse, inverse_of = shared.max(axis=1, initial=0.0), shared.argmax(axis=1)
    return Patterns(symmetric, inverse, np.where(inverse > 0, inverse_of, -1))


def graph_numbers(dataset: Dataset | None) -> list[tuple[str, str]]:
    """Return the statistics of the graph: numbers with their labels."""
    if dataset is None:
        return []
    found = describe(dataset)
    duplicates, unseen = found["duplicates"], found["unseen_entities"]
    words = {split: f"{split} triples" for split in SPLITS}
    return [
        *((count(number), words.get(what, what)) for what, number in found["counts"].items()),
        (count(sum(duplicates.values())), "repeated triples"),
        (count(sum(unseen.values())), "valid and test triples with an entity that train lacks"),
        (count(len(found["relations_absent_from_valid"])), "relations without validation triples"),
    ]


def graph_table(dataset: Dataset | None) -> Table | None:
    """Return every relation of the graph: class, sizes and patterns."""
    if dataset is None:
        return None
    labels, patterns = dataset.relations.labels, relation_patterns(dataset)
    rows = []
    for r, row in enumerate(describe(dataset)["relations"]):
        inverse, symmetric = int(patterns.inverse_of[r]), float(patterns.symmetric[r])
        reverses = (labels[inverse], float(patterns.inverse[r])) if inverse >= 0 else (None, None)
        sizes = (row[split] for split in SPLITS)
        rows.append(Row((row["relation"], row["class"] or None, *sizes, symmetric, *reverses)))
    columns = (
        Column("relation", align="left"),
        Column("class", align="left"),
        *(Column(split, ",d") for split in SPLITS),
        Column("symmetric", ".0%"),
        Column("inverse of", align="left"),
        Column("share", ".0%"),
    )
    return Table("Relations of the graph", columns, tuple(rows))
