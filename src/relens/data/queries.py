"""Queries: the triples of a split with one end hidden, in both directions; integer keys of queries and triples."""

from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from relens.errors import DatasetError

SPLITS = ("train", "valid", "test")
EVALUATED = ("valid", "test")
"""The splits whose queries are ranked: weights are searched on valid and evaluated on test."""
Direction = Literal["tail", "head"]
DIRECTIONS: tuple[Direction, Direction] = ("tail", "head")
TAIL, HEAD = 0, 1


@dataclass(frozen=True)
class Queries:
    """Q queries (anchor, relation, direction, answer), each column an array (Q,) int32.

    ``direction`` is 0 (``tail``: the anchor is the head and the answer is the tail) or 1 (``head``: the reverse).
    ``triple`` is the number of the triple of a query; the queries of one triple stay together in every resample.
    """

    anchor: npt.NDArray[np.int32]
    relation: npt.NDArray[np.int32]
    direction: npt.NDArray[np.int32]
    answer: npt.NDArray[np.int32]
    triple: npt.NDArray[np.int32]

    @classmethod
    def from_triples(cls, triples: npt.NDArray[Any]) -> Self:
        """Build 2n interleaved queries, both directions of each triple, from rows (head, relation, tail), (n, 3)."""
        head, relation, tail = np.asarray(triples, dtype=np.int32).reshape(-1, 3).T
        n = len(head)
        return cls(
            anchor=np.stack([head, tail], axis=1).reshape(-1),
            relation=np.repeat(relation, 2),
            direction=np.tile(np.array([TAIL, HEAD], dtype=np.int32), n),
            answer=np.stack([tail, head], axis=1).reshape(-1),
            triple=np.repeat(np.arange(n, dtype=np.int32), 2),
        )

    @classmethod
    def from_columns(cls, columns: npt.NDArray[Any]) -> Self:
        """Build from an integer array (5, Q) with one row per field, in order."""
        return cls(*np.ascontiguousarray(columns, dtype=np.int32))

    def columns(self) -> npt.NDArray[np.int32]:
        """Return the (5, Q) array of all fields, the inverse of ``from_columns``."""
        return np.stack([getattr(self, field.name) for field in fields(self)])

    def __len__(self) -> int:
        return len(self.anchor)

    def __getitem__(self, index: Any) -> "Queries":
        return Queries(*(getattr(self, field.name)[index] for field in fields(self)))

    def fingerprint(self) -> str:
        """Return a short digest of all queries in order. Equal digests mean equal query lists."""
        digest = sha256()
        for field in fields(self):
            digest.update(np.ascontiguousarray(getattr(self, field.name), dtype="<i4").data)
        return digest.hexdigest()[:16]


Ids = Any
"""A Python integer, a numpy array or a torch tensor, of a type that is wide enough (``check_key_range``)."""


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
