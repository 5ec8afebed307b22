"""Keys: one integer per query or triple, for sorting and membership tests.

The functions are plain arithmetic: ids may be Python integers, numpy arrays or torch tensors. Their type must be wide
enough (``check_key_range``).
"""

from typing import Any

import numpy as np

from relens.errors import DatasetError

Ids = Any
"""An integer, or an array or tensor of integers."""


def query_key(anchor: Ids, relation: Ids, direction: Ids, n_relations: int) -> Ids:
    """Return the key of (anchor, relation, direction), below 2 · entities · relations."""
    return (anchor * n_relations + relation) * 2 + direction


def directed_key(anchor: Ids, relation: Ids, n_relations: int) -> Ids:
    """Return the key of (anchor, directed relation): relation id r asks for tails, r + R for heads."""
    return anchor * (2 * n_relations) + relation


def pair_key(key: Ids, answer: Ids, n_entities: int) -> Ids:
    """Return the key of a query and one answer, given the query's ``key``."""
    return key * n_entities + answer


def triple_key(head: Ids, relation: Ids, tail: Ids, n_entities: int, n_relations: int) -> Ids:
    """Return the key of (head, relation, tail), below entities² · relations."""
    return (head * n_relations + relation) * n_entities + tail


def check_key_range(n_entities: int, n_relations: int) -> None:
    """Raise an error if pair keys would not fit into 64 bits."""
    if 2 * n_relations * n_entities**2 > np.iinfo(np.int64).max:
        raise DatasetError(
            f"{n_entities:,} entities and {n_relations:,} relations are too many to filter known answers: "
            f"twice relations times entities squared must stay below 2^63"
        )
