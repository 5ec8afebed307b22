"""The graph in a report: its statistics, and the patterns of its relations."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from relens.data.checks import describe
from relens.data.dataset import Dataset
from relens.data.queries import SPLITS
from relens.reports.style import count
from relens.tables import Column, Row, Table

REVERSES = 2**22
"""Facts and reverses in memory at a time."""


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
    heads, relations, tails = np.unique(np.concatenate(list(dataset.splits.values())), axis=0).astype(np.int64).T
    sizes = np.bincount(relations, minlength=n_relations)
    pairs = heads * n_entities + tails
    by_pair, by_relation = np.argsort(pairs, kind="stable"), np.argsort(relations, kind="stable")
    ordered, reversed_pairs = pairs[by_pair], (tails * n_entities + heads)[by_relation]
    begins = np.searchsorted(ordered, reversed_pairs, side="left")
    counts = np.searchsorted(ordered, reversed_pairs, side="right") - begins
    found = Patterns(np.zeros(n_relations), np.zeros(n_relations), np.full(n_relations, -1))
    for begin, end in _parts(counts, np.append(0, np.cumsum(sizes))):
        here, many = slice(begin, end), counts[begin:end]
        # The reverses of fact i are by_pair[begins[i]:begins[i] + counts[i]], one after the other for all facts.
        place = np.repeat(begins[here] - np.cumsum(many) + many, many) + np.arange(many.sum())
        ours = np.repeat(relations[by_relation[here]], many)
        _note_patterns(found, ours, relations[by_pair[place]], sizes)
    return found


def _parts(counts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ranges of facts, whole relations each, with about ``REVERSES`` reverses at most.

    ``counts`` holds the reverses of each fact, sorted by relation, and ``ends`` (R + 1,) where relations begin and end.
    All pairs of a fact and its reverse together may be as many as the square of the facts, those of one relation are
    at most as many as the facts.
    """
    total = np.append(0, np.cumsum(counts))[ends]
    begin = 0
    while begin < len(ends) - 1:
        end = max(begin + 1, int(np.searchsorted(total, total[begin] + REVERSES, side="right")) - 1)
        yield int(ends[begin]), int(ends[end])
        begin = end


def _note_patterns(
    found: Patterns, ours: npt.NDArray[np.int64], theirs: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> None:
    """Write the patterns of some relations into ``found``.

    Each fact of these relations stands once for every reverse: ``ours`` is its relation, ``theirs`` that of the
    reverse. ``sizes`` (R,) are the numbers of facts.
    """
    codes, shared = np.unique(ours * len(sizes) + theirs, return_counts=True)
    ours, theirs = np.divmod(codes, len(sizes))
    shares = shared / sizes[ours]
    same = ours == theirs
    found.symmetric[ours[same]] = shares[same]
    # The last assignment wins: the largest share, and of equal ones that of the first relation.
    order = np.lexsort((-theirs, shares))
    order = order[~same[order]]
    found.inverse[ours[order]], found.inverse_of[ours[order]] = shares[order], theirs[order]


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


def largest_relations(table: Table, limit: int) -> Table:
    """Return a table of the graph with only the ``limit`` relations that have most triples, in the same order."""
    if len(table.rows) <= limit:
        return table
    counts = [i for i, column in enumerate(table.columns) if column.heading in SPLITS]
    sizes = np.array([[row.values[i] for i in counts] for row in table.rows], dtype=np.int64).sum(axis=1)
    kept = np.sort(np.argsort(-sizes, kind="stable")[:limit])
    return replace(table, rows=tuple(table.rows[r] for r in kept))
