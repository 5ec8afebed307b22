"""Known answers: candidates that are removed from ranking because they are also true."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from relens.data.queries import SPLITS, Queries, check_key_range, pair_key, query_key
from relens.errors import DatasetError

_BLOCK = 2**20
"""Triples whose queries are in memory together while they are indexed."""


@dataclass(frozen=True, eq=False)
class KnownAnswers:
    """The known answers of every (anchor, relation, direction) in a set of triples.

    Attributes:
        n_entities: number of entities; ids of anchors and answers are below it.
        n_relations: number of relations.
        keys: one key per (anchor, relation, direction), sorted, (P,) int64.
        offsets: the answers of ``keys[p]`` are ``offsets[p]:offsets[p + 1]``, (P + 1,) int64.
        answers: distinct answers, sorted within each key, (A,) int32.
    """

    n_entities: int
    n_relations: int
    keys: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    answers: npt.NDArray[np.int32]

    @classmethod
    def build(cls, triples: Iterable[npt.NDArray[Any]], n_entities: int, n_relations: int) -> Self:
        """Index the answers of several splits, each an (n, 3) array of rows (head, relation, tail)."""
        check_key_range(n_entities, n_relations)
        parts = list(triples)
        pairs = np.empty(2 * sum(map(len, parts)), dtype=np.int64)
        begin = 0
        for queries in _blocks(parts):
            _check_ids(queries, n_entities, n_relations)
            end = begin + len(queries)
            pairs[begin:end] = pair_key(_keys(queries, n_relations), queries.answer, n_entities)
            begin = end
        pairs.sort()
        pairs = pairs[_is_first(pairs)]
        keys = pairs // n_entities
        answers = np.empty(len(pairs), dtype=np.int32)
        np.remainder(pairs, n_entities, out=answers, casting="same_kind")
        begins = np.flatnonzero(_is_first(keys))
        return cls(n_entities, n_relations, keys[begins], np.append(begins, len(pairs)).astype(np.int64), answers)

    def other_answers(self, queries: Queries) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Return the answers to filter out for each query: its known answers other than its own.

        Returns:
            offsets (Q + 1,) int64 and answers (offsets[-1],) int32; those of query q are
            ``answers[offsets[q]:offsets[q + 1]]``, distinct and sorted.
        """
        offsets, answers = self.answers_to(queries)
        owners = np.repeat(np.arange(len(queries)), np.diff(offsets))
        others = answers != queries.answer[owners]
        kept = np.bincount(owners[others], minlength=len(queries))
        return np.concatenate([[0], np.cumsum(kept)]).astype(np.int64), answers[others]

    def answers_to(self, queries: Queries) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Return all known answers of each query, its own included, in the form of ``other_answers``."""
        _check_ids(queries, self.n_entities, self.n_relations)
        wanted = _keys(queries, self.n_relations)
        begins = self.offsets[np.searchsorted(self.keys, wanted, side="left")]
        counts = self.offsets[np.searchsorted(self.keys, wanted, side="right")] - begins
        ends = np.cumsum(counts)
        answers = self.answers[np.repeat(begins - ends + counts, counts) + np.arange(counts.sum())]
        return np.concatenate([[0], ends]).astype(np.int64), answers


@dataclass(frozen=True, eq=False)
class StatedAnswers:
    """All F answers in a data set, in both directions, each with its split.

    Attributes:
        n_relations: number of relations.
        keys: key of the (anchor, relation, direction) of each answer, sorted, (F,) int64.
        answers: ids of the answers, (F,) int32.
        splits: positions in ``SPLITS``, ascending within a key, (F,) int8.
    """

    n_relations: int
    keys: npt.NDArray[np.int64]
    answers: npt.NDArray[np.int32]
    splits: npt.NDArray[np.int8]

    @classmethod
    def build(cls, triples: Mapping[str, npt.NDArray[Any]], n_relations: int) -> Self:
        """Index the answers of all splits; ``triples`` by split, each an (n, 3) array."""
        sizes = [2 * len(triples[split]) for split in SPLITS]
        keys, answers = np.empty(sum(sizes), dtype=np.int64), np.empty(sum(sizes), dtype=np.int32)
        begin = 0
        for queries in _blocks(triples[split] for split in SPLITS):
            end = begin + len(queries)
            keys[begin:end], answers[begin:end] = _keys(queries, n_relations), queries.answer
            begin = end
        splits = np.repeat(np.arange(len(SPLITS), dtype=np.int8), sizes)
        order = np.argsort(keys, kind="stable")
        return cls(n_relations, keys[order], answers[order], splits[order])

    def answers_to(self, anchor: int, relation: int, direction: int) -> dict[int, str]:
        """Return the answers of a query by id, each with the first split that contains it."""
        key = query_key(anchor, relation, direction, self.n_relations)
        begin, end = np.searchsorted(self.keys, [key, key + 1])
        # Later entries win in a dictionary: reverse the order, so that train wins over valid and test.
        found = zip(self.answers[begin:end][::-1].tolist(), self.splits[begin:end][::-1].tolist(), strict=True)
        return {answer: SPLITS[split] for answer, split in found}


def _blocks(triples: Iterable[npt.NDArray[Any]]) -> Iterator[Queries]:
    """Yield the queries of several arrays of triples, (n, 3) each, some at a time: they take more memory than keys."""
    for rows in triples:
        for begin in range(0, len(rows), _BLOCK):
            yield Queries.from_triples(rows[begin : begin + _BLOCK])


def _is_first(ordered: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Say which of some sorted numbers differ from the one before. This is cheaper than ``np.unique``."""
    return np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]


def _keys(queries: Queries, n_relations: int) -> npt.NDArray[np.int64]:
    """Return the key of each query's (anchor, relation, direction), (Q,) int64."""
    keys: npt.NDArray[np.int64] = query_key(
        queries.anchor.astype(np.int64), queries.relation, queries.direction, n_relations
    )
    return keys


def _check_ids(queries: Queries, n_entities: int, n_relations: int) -> None:
    """Raise an error for ids out of range: their keys would collide with those of other queries."""
    for what, ids, size in (
        ("anchor", queries.anchor, n_entities),
        ("relation", queries.relation, n_relations),
        ("answer", queries.answer, n_entities),
    ):
        if len(ids) and not 0 <= ids.min() <= ids.max() < size:
            raise DatasetError(
                f"{what} ids run from {ids.min()} to {ids.max()}, expected 0 to {size - 1}: "
                f"queries and known answers come from different data sets"
            )
