"""Whether the arrays of a pack fit each other, so that compiled code never reads beyond them."""

import numpy as np
import numpy.typing as npt
from numba import njit

from relens.data.queries import DIRECTIONS
from relens.errors import RanksError
from relens.packs.pack import PackedRanks


def check_ranges(packed: PackedRanks, where: str, remedy: str) -> None:
    """Raise an error for numbers that no ranks can have.

    Args:
        packed: the ranks.
        where: names their origin in the error.
        remedy: how to make them again, as a sentence.
    """
    problem = _wrong_lengths(packed) or _wrong_queries(packed) or _wrong_ranks(packed)
    if problem:
        raise RanksError(f"{where} holds impossible numbers: {problem}. {remedy}")


def _wrong_lengths(packed: PackedRanks) -> str:
    """Return what is wrong with the shapes of the arrays and the offsets, or an empty text."""
    n_models, n_queries = packed.n_models, packed.n_queries
    offsets = packed.offsets
    if offsets.shape != (n_queries + 1,) or offsets[0] != 0 or (np.diff(offsets) < 0).any():
        return f"the offsets of {n_queries} queries do not ascend from 0"
    table = (n_models, int(offsets[-1]))
    expected: dict[str, tuple[int, ...]] = {
        "n_candidates": (n_queries,),
        "answer": (n_models, n_queries),
        "always_ahead": (n_queries,),
        "contested": table,
    }
    if packed.gaps is not None:
        expected["gaps"] = table
    for name, shape in expected.items():
        found = getattr(packed, name)
        if found.shape != shape or found.dtype.kind not in "iu":
            return f"{name} has the shape {found.shape} and the type {found.dtype}, expected whole numbers {shape}"
    scales = packed.gap_scales
    if scales is not None and (scales.shape != (n_models,) or not (np.isfinite(scales) & (scales > 0)).all()):
        return f"the scales of score gaps are {scales.tolist()}, expected {n_models} positive numbers"
    return ""


def _wrong_queries(packed: PackedRanks) -> str:
    """Return what is wrong with the queries, or an empty text."""
    queries = packed.queries
    for name, ids, limit in (
        ("relation", queries.relation, len(packed.relations)),
        ("direction", queries.direction, len(DIRECTIONS)),
        ("anchor", queries.anchor, np.iinfo(np.int32).max),
        ("answer", queries.answer, np.iinfo(np.int32).max),
        ("triple", queries.triple, np.iinfo(np.int32).max),
    ):
        if len(ids) and not 0 <= ids.min() <= ids.max() < limit:
            return f"the {name} of a query is {ids.min() if ids.min() < 0 else ids.max()}, expected 0 to {limit - 1}"
    return ""


def _wrong_ranks(packed: PackedRanks) -> str:
    """Return what is wrong with ranks and counts, or an empty text."""
    counts, ahead = packed.n_candidates.astype(np.int64), packed.always_ahead
    if (counts < 1).any():
        return f"a query has {counts.min()} candidates, expected at least the answer"
    others = np.diff(packed.offsets) + ahead
    if (ahead < 0).any() or (others >= counts).any():
        return "a query has more candidates ahead or contested than candidates"
    lowest, highest = 2, 2 * counts
    if ((packed.answer < lowest) | (packed.answer > highest)).any():
        return "the doubled rank of an answer is below 2, or beyond the number of candidates"
    query = _outside(packed.contested, packed.offsets, highest)
    if query >= 0:
        return f"the doubled rank of a candidate of query {query} is below 2, or above {highest[query]}"
    return ""


@njit(cache=True, nogil=True)
def _outside(
    contested: npt.NDArray[np.unsignedinteger], offsets: npt.NDArray[np.int64], highest: npt.NDArray[np.int64]
) -> int:
    """Return the first query with a contested rank (N, K) outside of 2 to ``highest`` (Q,), or −1."""
    for model in range(contested.shape[0]):
        for query in range(len(highest)):
            limit, wrong = highest[query], False
            for at in range(offsets[query], offsets[query + 1]):
                wrong |= contested[model, at] < 2 or contested[model, at] > limit
            if wrong:
                return query
    return -1
