"""Compiled kernels of packing: finding the contested candidates of a query, and ranking them.

They read a block of values (N, b, C): N models, b queries, C candidates. Blocks should fit the processor's cache,
because the kernels pass over them more than once.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from relens.compiled import njit
from relens.ranking.answer_ranks import doubled_rank

# A byte per candidate: bit 0 if some model puts it no higher than the answer, bit 1 if some model puts it no lower. A
# candidate with both bits is contested. One with a single bit is strictly below (above) the answer in every model.
_NO_HIGHER = np.uint8(1)
_EIGHT_ONES, _BYTE = np.uint64(0x0101010101010101), np.uint64(0xFF)
_CHUNK = 64  # words of eight candidates that are judged together: a byte can count them

_doubled_rank = njit()(doubled_rank)


@njit()
def within(ranks: npt.NDArray[Any], most: int) -> bool:
    """Tell whether all ``ranks`` (b, C), of an unsigned type, lie in 1..``most``."""
    flat = ranks.reshape(-1)
    lowest = highest = flat[0]
    for k in range(len(flat)):
        lowest, highest = min(lowest, flat[k]), max(highest, flat[k])
    return bool(lowest >= 1 and highest <= most)


@njit()
def find_contested(
    values: npt.NDArray[Any], answer_column: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Find the candidates that are neither below the answer in every model nor above it in every model.

    Args:
        values: (N, b, C).
        answer_column: the column of the answer, (b,).

    Returns:
        The number of contested candidates per query, (b,); the number of candidates above the answer in every model,
        (b,); the positions of the contested candidates in a flattened (b, C).
    """
    n_models, n_rows, n_columns = values.shape
    counts, above = np.empty(n_rows, dtype=np.int64), np.empty(n_rows, dtype=np.int64)
    positions = np.empty(n_columns, dtype=np.int64)
    # Whole words, so that eight candidates can be judged at once.
    sides = np.empty(-(-n_columns // 8) * 8, dtype=np.uint8)
    end = 0
    for q in range(n_rows):
        sides[:] = 0
        for i in range(n_models):
            _take_sides(values[i, q], values[i, q, answer_column[q]], sides)
        sides[answer_column[q]] = _NO_HIGHER
        if end + n_columns > len(positions):
            grown = np.empty(2 * (end + n_columns), dtype=np.int64)
            grown[:end] = positions[:end]
            positions = grown
        counts[q], no_lower = _collect(sides.view(np.uint64), q * n_columns, positions[end:])
        above[q] = no_lower - counts[q]
        end += counts[q]
    return counts, above, positions[:end]


@njit()
def _take_sides(row: npt.NDArray[Any], answer: Any, sides: npt.NDArray[np.uint8]) -> None:
    """Add the judgement of one more model, its ``row`` of values (C,), to ``sides`` (at least C,)."""
    for j in range(len(row)):
        sides[j] |= np.uint8(row[j] <= answer) | (np.uint8(row[j] >= answer) << np.uint8(1))


@njit()
def _collect(words: npt.NDArray[np.uint64], origin: int, positions: npt.NDArray[np.int64]) -> tuple[Any, Any]:
    """List the contested candidates of a query in ``positions``; its first candidate is at ``origin``.

    ``words`` hold its sides, eight in each. Return the number of contested candidates, and the number of candidates
    that some model puts no lower than the answer.
    """
    n, no_lower = 0, np.int64(0)
    for first in range(0, len(words), _CHUNK):
        chunk = words[first : first + _CHUNK]
        both, counters = np.uint64(0), np.uint64(0)
        for w in range(len(chunk)):
            high = (chunk[w] >> np.uint64(1)) & _EIGHT_ONES
            both |= chunk[w] & high
            counters += high
        for byte in range(8):
            no_lower += np.int64((counters >> np.uint64(8 * byte)) & _BYTE)
        # Most chunks have no contested candidate, and neither have most words of the others.
        for w in range(len(chunk) if both else 0):
            left = chunk[w] & (chunk[w] >> np.uint64(1)) & _EIGHT_ONES
            while left:
                # A one in every byte before the first contested one; their number is the digit sum in base 256.
                before = (left - np.uint64(1)) & ~left & _EIGHT_ONES
                positions[n] = origin + 8 * (first + w) + np.int64(before % _BYTE)
                n += 1
                left &= left - np.uint64(1)
    return n, no_lower


@njit()
def double_ranks(ranks: npt.NDArray[Any], positions: npt.NDArray[np.int64], doubled: npt.NDArray[Any]) -> None:
    """Fill ``doubled`` (N, k) with twice the ranks (N, b · C) at ``positions`` (k,)."""
    for i in range(len(ranks)):
        row, out = ranks[i], doubled[i]
        for k in range(len(positions)):
            out[k] = 2 * np.int64(row[positions[k]])


@njit()
def rank_scores(
    values: npt.NDArray[Any],
    answers: npt.NDArray[Any],
    contested: npt.NDArray[Any],
    counts: npt.NDArray[np.int64],
    counted: int,
    answer_ranks: npt.NDArray[Any],
    contested_ranks: npt.NDArray[Any],
) -> None:
    """Rank the scores of answers (N, b) and contested candidates (N, K) within their rows of ``values`` (N, b, C).

    Query q has ``counts[q]`` contested candidates; with more than ``counted`` of them, scores are dealt into buckets.
    The doubled ranks are written to the last two arguments, (N, b) and (N, K).
    """
    n_models, n_rows, n_columns = values.shape
    sides, positions = np.zeros(-(-n_columns // 8) * 8, dtype=np.uint8), np.empty(n_columns, dtype=np.int64)
    starts, room = np.empty(n_columns + 2, dtype=np.int64), np.empty((2, n_columns), dtype=values.dtype)
    for i in range(n_models):
        end = 0
        for q in range(n_rows):
            begin, end = end, end + counts[q]
            row, answer, wanted = values[i, q], answers[i, q], contested[i, begin:end]
            lowest = min(answer, wanted.min()) if len(wanted) else answer
            # Most scores of a row are lower than every score that is ranked, and do not count.
            for j in range(n_columns):
                sides[j] = np.uint8(row[j] >= lowest) * np.uint8(3)
            n, _ = _collect(sides.view(np.uint64), 0, positions)
            higher = room[0, :n]
            for k in range(n):
                higher[k] = row[positions[k]]
            dealt, most = room[1, :n], counted if len(wanted) > counted else n
            origin, scale = _deal(higher, most, dealt, starts)
            answer_ranks[i, q] = _rank_of(answer, dealt, starts, origin, scale, most)
            for k in range(len(wanted)):
                contested_ranks[i, begin + k] = _rank_of(wanted[k], dealt, starts, origin, scale, most)


@njit()
def _deal(
    scores: npt.NDArray[Any], most: int, dealt: npt.NDArray[Any], starts: npt.NDArray[np.int64]
) -> tuple[Any, Any]:
    """Deal scores (n,) into buckets of equal width, from the lowest to the highest; up to ``most`` scores use one.

    Bucket k becomes ``dealt[starts[k]:starts[k + 1]]``, sorted where it has more than ``most`` scores. Return the
    origin and the scale for ``_bucket``.
    """
    n_buckets = len(scores) if len(scores) > most else 1
    # Halves: the difference of two large scores may be infinite.
    origin = np.float64(scores.min()) / 2
    width = np.float64(scores.max()) / 2 - origin
    scale = (n_buckets - 1) / width if width > n_buckets / np.finfo(np.float64).max else 0.0
    starts[: n_buckets + 2] = 0
    for k in range(len(scores)):
        starts[_bucket(scores[k], origin, scale) + 2] += 1
    for k in range(n_buckets):
        starts[k + 2] += starts[k + 1]
    for k in range(len(scores)):
        bucket = _bucket(scores[k], origin, scale) + 1
        dealt[starts[bucket]] = scores[k]
        starts[bucket] += 1
    for k in range(n_buckets):
        if starts[k + 1] - starts[k] > most:
            dealt[starts[k] : starts[k + 1]].sort()
    return origin, scale


@njit()
def _bucket(score: Any, origin: float, scale: float) -> Any:
    """Return the bucket of a score; the higher of two scores is never in the lower bucket."""
    return np.int64((np.float64(score) / 2 - origin) * scale)


@njit()
def _rank_of(
    score: Any, dealt: npt.NDArray[Any], starts: npt.NDArray[np.int64], origin: float, scale: float, most: int
) -> Any:
    """Return the doubled mean rank of a score among those that ``_deal`` has dealt, itself included."""
    bucket = _bucket(score, origin, scale)
    mine = dealt[starts[bucket] : starts[bucket + 1]]
    above, level = np.int32(len(dealt) - starts[bucket + 1]), np.int32(0)
    if len(mine) > most:
        right = np.searchsorted(mine, score, side="right")
        above += np.int32(len(mine) - right)
        level += np.int32(right - np.searchsorted(mine, score))
    else:
        for j in range(len(mine)):
            above += np.int32(mine[j] > score)
            level += np.int32(mine[j] == score)
    return _doubled_rank(above, level)
