"""Known answers: what must not count against a model because it is true."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from relens.data.queries import Queries
from relens.errors import DatasetError


@dataclass(frozen=True, eq=False)
class KnownAnswers:
    """The known answers of every (anchor, relation, direction) that occurs in some triples.

    Attributes:
        n_entities: number of entities; ids of anchors and answers are below it.
        n_relations: number of relations.
        keys: one number per (anchor, relation, direction), sorted, (P,) int64.
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
        """Index the answers in some splits, each an (n, 3) array of rows head, relation, tail."""
        if 2 * n_relations * n_entities**2 > np.iinfo(np.int64).max:
            raise DatasetError(
                f"{n_entities:,} entities and {n_relations:,} relations are too many to filter known answers: "
                f"twice relations times entities squared must stay below 2^63"
            )
        queries = Queries.from_triples(np.concatenate([np.empty((0, 3), dtype=np.int32), *triples]))
        _check_ids(queries, n_entities, n_relations)
        pairs = np.sort(_keys(queries, n_relations) * n_entities + queries.answer)
        pairs = pairs[_begins(pairs)]
        keys = pairs // n_entities
        begins = _begins(keys)
        answers = (pairs - keys * n_entities).astype(np.int32)
        return cls(n_entities, n_relations, keys[begins], np.append(begins, len(pairs)).astype(np.int64), answers)

    def other_answers(self, queries: Queries) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Return what to filter out for each query: its known answers other than its own.

        Returns:
            offsets (Q + 1,) int64 and answers (offsets[-1],) int32; those of query q are
            ``answers[offsets[q]:offsets[q + 1]]``, distinct and sorted.
        """
        _check_ids(queries, self.n_entities, self.n_relations)
        wanted = _keys(queries, self.n_relations)
        begins = self.offsets[np.searchsorted(self.keys, wanted, side="left")]
        counts = self.offsets[np.searchsorted(self.keys, wanted, side="right")] - begins
        places = np.cumsum(counts) - counts
        answers = self.answers[np.repeat(begins - places, counts) + np.arange(counts.sum())]
        owners = np.repeat(np.arange(len(queries)), counts)
        others = answers != queries.answer[owners]
        kept = np.bincount(owners[others], minlength=len(queries))
        return np.concatenate([[0], np.cumsum(kept)]).astype(np.int64), answers[others]


def _begins(ordered: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return where each run of equal numbers begins; for sorted numbers half as long a way as ``np.unique``."""
    return np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])


def _keys(queries: Queries, n_relations: int) -> npt.NDArray[np.int64]:
    """Number the (anchor, relation, direction) of each query, (Q,) int64."""
    return (queries.anchor.astype(np.int64) * n_relations + queries.relation) * 2 + queries.direction


def _check_ids(queries: Queries, n_entities: int, n_relations: int) -> None:
    """Refuse ids beyond the sizes: their keys would be those of other queries."""
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
