"""Directions: which rows of ids ask for heads, and which two rows belong to one triple.

Inverse rows are recognised by their relation id r + R, never by their position. R follows from the ids: where every
row (h, r, t) has its inverse (t, r + R, h), the smaller half of the ids are the forward ones.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.queries import HEAD, TAIL, Queries
from relens.errors import RanksError
from relens.importers.numbering import number_triples

Rows = npt.NDArray[np.int64]
"""Rows of three ids, (n, 3)."""


def find_n_relations(splits: Mapping[str, Rows]) -> int:
    """Find R from rows (anchor, relation, answer) of forward and inverse queries; all splits must agree."""
    found = {}
    for split, rows in splits.items():
        try:
            found[split] = inverse_offset(rows)
        except RanksError as problem:
            raise RanksError(
                f"cannot tell head queries from tail queries in {split}: {problem}. Expected a row (t, r + R, h) for "
                f"every row (h, r, t). Pass the number of relations, `n_relations=R`: rows with ids from R on are then "
                f"head queries."
            ) from problem
    if len(set(found.values())) > 1:
        shown = ", ".join(f"{n} in {split}" for split, n in found.items())
        raise RanksError(f"the splits disagree on the number of relations ({shown}). Pass it: `n_relations=R`.")
    return next(iter(found.values()))


def inverse_offset(rows: Rows, *, swapped: bool = True) -> int:
    """Return the R for which the rows consist of (a, r, b) and (b, r + R, a), or raise an error with the reason.

    Without ``swapped``, the second half is (a, r + R, b).
    """
    half, odd = divmod(len(rows), 2)
    if odd or not half:
        raise RanksError(f"found {len(rows)} rows, expected an even number")
    ids = np.sort(rows[:, 1])
    offset = int(ids[half] - ids[0])
    inverse = rows[:, 1] >= ids[half]
    if inverse.sum() != half or ids[half - 1] >= offset:
        raise RanksError(f"found relation ids {ids[0]} to {ids[-1]}, which do not fall into two halves r and r + R")
    forward, backward = _sorted(rows[~inverse]), _sorted(_undo(rows[inverse], offset, swapped=swapped))
    different = (forward != backward).any(axis=1)
    if different.any():
        head, relation, tail = min(forward[different][0].tolist(), backward[different][0].tolist())
        raise RanksError(
            f"by their ids R would be {offset}, but ({head}, {relation}, {tail}) lacks one of its two rows"
        )
    return offset


def forward_triples(rows: Rows, n_relations: int, *, swapped: bool = True) -> Rows:
    """Return the triple (head, relation, tail) of each row (anchor, relation, answer); see ``inverse_offset``."""
    inverse = rows[:, 1] >= n_relations
    return np.where(inverse[:, None], _undo(rows, n_relations, swapped=swapped), rows)


def directed_queries(rows: Rows, n_relations: int) -> Queries:
    """Turn rows (anchor, relation, answer) into queries; ids from ``n_relations`` on ask for heads."""
    triples = forward_triples(rows, n_relations)
    inverse = rows[:, 1] >= n_relations
    direction = np.where(inverse, HEAD, TAIL)
    triple = number_triples(triples, inverse)
    return Queries.from_columns(np.stack([rows[:, 0], triples[:, 1], direction, rows[:, 2], triple]))


def sampled_queries(rows: Rows, triple: npt.NDArray[np.integer[Any]]) -> Queries:
    """Ask two queries per row (head, relation, tail): for its head, then for its tail; (n, 3) become 2n."""
    head, relation, tail = np.repeat(rows, 2, axis=0).T
    direction = np.tile([HEAD, TAIL], len(rows))
    for_head = direction == HEAD
    anchor, answer = np.where(for_head, tail, head), np.where(for_head, head, tail)
    return Queries.from_columns(np.stack([anchor, relation, direction, answer, np.repeat(triple, 2)]))


def twice(rows: Rows, n_relations: int) -> Rows:
    """Return all rows with r, then all again with r + R, (2n, 3)."""
    return np.concatenate([rows, rows + np.array([0, n_relations, 0])])


def find_mirror(splits: Mapping[str, Rows]) -> int | None:
    """Return the only R for which every split has each row with r and with r + R, in either order, or None."""
    found = {offset for rows in splits.values() for offset in _offsets(rows)}
    return found.pop() if len(found) == 1 and all(_offsets(rows) for rows in splits.values()) else None


def mirrored_triples(rows: Rows, n_relations: int) -> npt.NDArray[np.int32]:
    """Number the triples of rows in which each occurs with r and with r + R, in either order."""
    swapped = True in _offsets(rows).values()
    return number_triples(forward_triples(rows, n_relations, swapped=swapped), rows[:, 1] >= n_relations)


def _offsets(rows: Rows) -> dict[int, bool]:
    """Return the R that fits the rows, if any, and whether the entities of inverse rows are swapped."""
    for swapped in (False, True):
        with suppress(RanksError):
            return {inverse_offset(rows, swapped=swapped): swapped}
    return {}


def _undo(rows: Rows, offset: int, *, swapped: bool) -> Rows:
    """Turn inverse rows into forward ones."""
    forward: Rows = rows[:, [2, 1, 0] if swapped else [0, 1, 2]] - np.array([0, offset, 0])
    return forward


def _sorted(rows: Rows) -> Rows:
    return rows[np.lexsort(rows.T[::-1])]
