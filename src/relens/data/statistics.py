"""Statistics of triples: distinct rows, and the cardinality class of each relation."""

from typing import Any

import numpy as np
import numpy.typing as npt

MANY = 1.5
"""A side counts as "many" above this mean number of answers per anchor (Bordes et al. 2013)."""


def cardinality_classes(triples: npt.NDArray[Any], n_relations: int) -> tuple[str, ...]:
    """Return the class ``1-1``, ``1-N``, ``N-1`` or ``N-N`` of each relation, from its distinct triples (n, 3).

    The head side comes first: ``1-N`` means one head per tail and many tails per head. The class of a relation
    without triples is the empty string.
    """
    heads, relations, tails = distinct_rows(triples).T
    pairs = np.bincount(relations, minlength=n_relations)  # (R,)
    distinct_heads = _count_distinct(relations, heads, n_relations)
    distinct_tails = _count_distinct(relations, tails, n_relations)
    many_tails = pairs > MANY * distinct_heads
    many_heads = pairs > MANY * distinct_tails
    sides = np.array(["1", "N"])
    classes = zip(sides[many_heads.astype(int)], sides[many_tails.astype(int)], pairs, strict=True)
    return tuple(f"{head}-{tail}" if count else "" for head, tail, count in classes)


def distinct_rows(triples: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the distinct rows of (n, 3), sorted."""
    rows = triples[np.lexsort(triples.T)]
    first = np.ones(len(rows), dtype=bool)
    first[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return rows[first]


def _count_distinct(relations: npt.NDArray[Any], entities: npt.NDArray[Any], n_relations: int) -> npt.NDArray[np.int64]:
    """Return the number of distinct entities that occur with each relation, (R,)."""
    pairs = np.unique(relations + n_relations * entities.astype(np.int64))
    return np.bincount(pairs % n_relations, minlength=n_relations)
