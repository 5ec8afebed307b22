"""Whether the arrays of a pack fit each other, so that compiled code never reads beyond them."""

from typing import Any

import numpy as np
import numpy.typing as npt

from relens.compiled import njit
from relens.data.queries import DIRECTIONS
from relens.errors import RanksError
from relens.packs.pack import PackedRanks
from relens.packs.packing import MAX_CANDIDATES, MAX_GAP

RANKS = (np.dtype(np.uint16), np.dtype(np.uint32))


def check_ranges(packed: PackedRanks, where: str, remedy: str) -> None:
    """Raise an error for names and numbers that no ranks can have.

    Args:
        packed: the ranks.
        where: names their origin in the error.
        remedy: how to make them again, as a sentence.
    """
    problem = _wrong_names(packed) or _wrong_lengths(packed) or _wrong_queries(packed) or _wrong_ranks(packed)
    if problem:
        raise RanksError(f"{where} holds impossible numbers: {problem}. {remedy}")


def _wrong_names(packed: PackedRanks) -> str:
    """Return what is wrong with the names of models and relations, or an empty text."""
    models, relations, classes = packed.models, packed.relations, packed.cardinalities
    for what, names in (("models", models), ("relations", relations), ("classes of relations", classes)):
        strange = [name for name in names if not isinstance(name, str)]
        if strange:
            return f"one of the {what} is {strange[0]!r}, expected a text"
    if not models or len(set(models)) < len(models):
        return f"the models are {', '.join(models) or 'none'}, expected at least one, and each once"
    if len(classes) not in (0, len(relations)):
        return f"there are classes of {len(classes)} relations, expected {len(relations)} or none"
    return ""


def _wrong_lengths(packed: PackedRanks) -> str:
    """Return what is wrong with the shapes and types of the arrays and with the offsets, or an empty text."""
    n_models, n_queries = packed.n_models, packed.n_queries
    offsets = packed.offsets
    fit = offsets.shape == (n_queries + 1,) and offsets.dtype == np.int64
    # Compared, not subtracted: differences of damaged offsets may overflow.
    if not fit or offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any():
        return f"the offsets of {n_queries} queries do not ascend from 0"
    table = (n_models, int(offsets[-1]))
    whole = (np.dtype(np.int32),)
    expected: dict[str, tuple[tuple[int, ...], tuple[np.dtype[Any], ...]]] = {
        "n_candidates": ((n_queries,), whole),
        "answer": ((n_models, n_queries), RANKS),
        "always_ahead": ((n_queries,), whole),
        "contested": (table, RANKS),
    }
    if packed.gaps is not None:
        expected["gaps"] = (table, whole)
    for name, (shape, dtypes) in expected.items():
        found = getattr(packed, name)
        if found.shape != shape or found.dtype not in dtypes:
            types = " or ".join(map(str, dtypes))
            return f"{name} has the shape {found.shape} and the type {found.dtype}, expected {shape} of {types}"
    scales = packed.gap_scales
    if (scales is None) != (packed.gaps is None):
        return "there are score gaps without their scales, or scales without gaps"
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
        if ids.shape != (len(queries),) or ids.dtype != np.int32:
            found = f"the shape {ids.shape} and the type {ids.dtype}"
            return f"the {name} of queries has {found}, expected ({len(queries)},) of int32"
        if len(ids) and not 0 <= ids.min() <= ids.max() < limit:
            return f"the {name} of a query is {ids.min() if ids.min() < 0 else ids.max()}, expected 0 to {limit - 1}"
    return ""


def _wrong_ranks(packed: PackedRanks) -> str:
    """Return what is wrong with ranks and counts, or an empty text."""
    counts, ahead = packed.n_candidates.astype(np.int64), packed.always_ahead
    if (counts < 1).any():
        return f"a query has {counts.min()} candidates, expected at least the answer"
    if (counts > MAX_CANDIDATES).any():
        return f"a query has {counts.max():,} candidates, expected at most {MAX_CANDIDATES:,}"
    others = np.diff(packed.offsets) + ahead
    if (ahead < 0).any() or (others >= counts).any():
        return "a query has more candidates ahead or contested than candidates"
    lowest, highest = 2, 2 * counts
    if ((packed.answer < lowest) | (packed.answer > highest)).any():
        return "the doubled rank of an answer is below 2, or beyond the number of candidates"
    query = _outside(packed.contested, packed.offsets, highest)
    if query >= 0:
        return f"the doubled rank of a candidate of query {query} is below 2, or above {highest[query]}"
    gap = 0 if packed.gaps is None else int(_largest(packed.gaps))
    return f"a score gap has the size {gap:,}, expected at most {MAX_GAP:,}" if gap > MAX_GAP else ""


# Extremes of one type at a time: such loops run at the speed of reading memory.
@njit()
def _outside(
    contested: npt.NDArray[np.unsignedinteger], offsets: npt.NDArray[np.int64], highest: npt.NDArray[np.int64]
) -> int:
    """Return the first query with a contested rank (N, K) outside of 2 to ``highest`` (Q,), or −1."""
    for model in range(contested.shape[0]):
        for query in range(len(highest)):
            ranks = contested[model, offsets[query] : offsets[query + 1]]
            if len(ranks) == 0:
                continue
            low = high = ranks[0]
            for k in range(len(ranks)):
                low, high = min(low, ranks[k]), max(high, ranks[k])
            if low < 2 or high > highest[query]:
                return query
    return -1


@njit()
def _largest(gaps: npt.NDArray[np.int32]) -> np.int64:
    """Return the largest size of a gap (N, K)."""
    low = high = np.int32(0)
    for model in range(gaps.shape[0]):
        row = gaps[model]
        for k in range(len(row)):
            low, high = min(low, row[k]), max(high, row[k])
    return max(-np.int64(low), np.int64(high))
