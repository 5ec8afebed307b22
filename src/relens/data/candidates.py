"""Candidates: where an answer competes with a few given entities instead of all."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.queries import DIRECTIONS, Queries
from relens.errors import DatasetError

PADDING = -1
"""Fills the end of a row that has fewer negatives than others."""
Rows = slice | npt.NDArray[np.integer[Any]]
"""Which queries: a range of them, or their numbers."""
_ROWS = 2**14


@dataclass(frozen=True, eq=False)
class Candidates:
    """The negatives of Q queries; the candidates of a query are its answer and its negatives.

    Attributes:
        negatives: entity ids, distinct, (Q, c) int32, ``PADDING`` at the end of rows that have fewer; memory-mapped
            where they come from a file.
        source: where they come from, in words.
        filter_splits: splits whose known answers are certain not to be among them.
    """

    negatives: npt.NDArray[np.int32]
    source: str
    filter_splits: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.negatives)

    @property
    def digest(self) -> str:
        """The identity of the negatives."""
        return sha256(np.ascontiguousarray(self.negatives).data).hexdigest()[:16]

    @property
    def per_query(self) -> int:
        """C: the most negatives a query has."""
        return int(self.negatives.shape[1])

    @property
    def n_columns(self) -> int:
        """Columns of ``columns``: the answer's and one per negative."""
        return self.per_query + 1

    def columns(self, rows: Rows, answer: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return the candidates of the b queries at ``rows``, their answers (b,) first, (b, c + 1) int32.

        In place of padding stands the answer once more; ``absent`` says where.
        """
        negatives = self.negatives[rows]
        return np.column_stack([answer, np.where(negatives == PADDING, answer[:, None], negatives)])

    def absent(self, rows: Rows) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the columns in which the queries at ``rows`` have no candidate, as offsets (b + 1,) and columns."""
        padding = self.negatives[rows] == PADDING
        row, column = np.nonzero(padding)
        counts = np.bincount(row, minlength=len(padding))
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), column + 1

    def short(self) -> npt.NDArray[np.int64]:
        """Return the queries that have fewer negatives than ``per_query``."""
        if not self.per_query:
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(self.negatives[:, -1] == PADDING)


def check_candidates(
    negatives: npt.NDArray[Any], queries: Queries, n_entities: int, where: str, *, keep_repeats: bool = False
) -> None:
    """Refuse negatives (Q, c) that cannot be the candidates of Q queries, naming the first query at fault.

    Args:
        negatives: entity ids.
        queries: whose answers they compete with.
        n_entities: ids are below it.
        where: what messages call them.
        keep_repeats: let an entity occur twice in a row, and the answer among the negatives; each occurrence counts.
    """
    if negatives.ndim != 2 or len(negatives) != len(queries):
        raise DatasetError(
            f"{where} has shape {negatives.shape}, expected ({len(queries)}, negatives): a row per query, both "
            f"directions of every triple. Make the candidates for this very data set."
        )
    for begin in range(0, len(queries), _ROWS):
        rows = np.asarray(negatives[begin : begin + _ROWS])
        here = queries[begin : begin + _ROWS]
        for fault, at, remedy in _faults(rows, here.answer, n_entities, keep_repeats):
            asked = f"query {begin + at} (triple {here.triple[at]}, {DIRECTIONS[here.direction[at]]})"
            raise DatasetError(f"{where}, {asked}: {fault}. {remedy}")


def _faults(
    rows: npt.NDArray[Any], answer: npt.NDArray[np.int32], n_entities: int, keep_repeats: bool
) -> Iterator[tuple[str, int, str]]:
    """Yield what is wrong with negatives (b, c), in which row, and what to do about it."""
    blank = rows == PADDING
    strange = ~blank & ((rows < 0) | (rows >= n_entities))
    if strange.any():
        at = int(strange.any(axis=1).argmax())
        entity = rows[at][strange[at]][0]
        yield f"found entity {entity}, expected 0 to {n_entities - 1}", at, "They belong to another data set."
    gap = (blank[:, :-1] & ~blank[:, 1:]).any(axis=1)
    if gap.any():
        yield f"found {PADDING} before a negative", int(gap.argmax()), "Fill rows at the end only."
    if keep_repeats:
        return
    remedy = "Remove it; or, if these are OGB's own files, count it as OGB does: `relens data get NAME --keep-repeats`."
    own = (rows == answer[:, None]).any(axis=1)
    if own.any():
        at = int(own.argmax())
        yield f"the answer, entity {answer[at]}, is among the negatives", at, remedy
    ordered = np.sort(rows, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != PADDING)
    if twice.any():
        at = int(twice.any(axis=1).argmax())
        entity = ordered[at, 1:][twice[at]][0]
        yield f"entity {entity} occurs more than once among the negatives", at, remedy
