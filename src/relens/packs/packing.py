"""Packing: from the ranks or scores of all candidates to the few that weights can move.

Both packers take a block of b queries whose candidates are the C columns of one array per model. Blocks should fit
the processor's cache, because they are passed over more than once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from relens.errors import RanksError

Values = Sequence[npt.NDArray[Any]] | npt.NDArray[Any]
"""The values of N models for b queries and C candidates: N arrays (b, C), or one (N, b, C)."""

Exclusions = tuple[npt.NDArray[Any], npt.NDArray[Any]]
"""Candidates to leave out: those of query q are ``columns[offsets[q]:offsets[q + 1]]``; (b + 1,) and (m,)."""

MAX_GAP = 2**26
"""Largest size of a stored score gap: N weights of 2**20 times it add up exactly in float64 and int64."""

UNITS_PER_MEAN_GAP = 2**16
"""Resolution of stored score gaps: so many units make the mean absolute gap of the model."""

# Sides, a byte per candidate: bit 0 if some model puts it no higher than the answer, bit 1 if some model no lower. One
# with both bits is contested; one with a single bit lies strictly below (above) the answer in every model.
_NO_HIGHER = np.uint8(1)
_EIGHT_ONES, _BYTE = np.uint64(0x0101010101010101), np.uint64(0xFF)
_CHUNK = 64  # words of eight candidates judged together: few enough to be counted in a byte

# Up to so many scores to compare with, a rank is counted; with more, buckets and then sorting pay.
_COUNTED = 64


@dataclass(frozen=True)
class PackedBlock:
    """Packed ranks of N models for b consecutive queries; the fields of ``PackedRanks``, with counts for offsets.

    Attributes:
        answer: doubled rank of the answer, (N, b) uint16 or uint32.
        n_candidates: candidates per query, the answer included, (b,) int32.
        always_ahead: candidates strictly ahead of the answer in every model, (b,) int32.
        counts: contested candidates per query, (b,) int64.
        contested: doubled ranks of the contested candidates, (N, counts.sum()) uint16 or uint32.
        gaps: scaled score differences to the answer, (N, counts.sum()) int32, or None.
    """

    answer: npt.NDArray[Any]
    n_candidates: npt.NDArray[np.int32]
    always_ahead: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]
    contested: npt.NDArray[Any]
    gaps: npt.NDArray[np.int32] | None = None


def rank_dtype(n_candidates: int) -> np.dtype[Any]:
    """Return the narrowest of uint16 and uint32 that holds the doubled rank of ``n_candidates`` candidates."""
    return np.dtype(np.uint16 if 2 * n_candidates <= np.iinfo(np.uint16).max else np.uint32)


def unsigned_dtype(n_candidates: int) -> np.dtype[Any]:
    """Return the type in which ranks are packed: the narrowest that holds those of ``n_candidates`` candidates."""
    return np.dtype(np.uint16 if n_candidates <= np.iinfo(np.uint16).max else np.uint32)


def float_dtype(dtypes: Iterable[np.dtype[Any]]) -> np.dtype[Any]:
    """Return the type in which scores are packed: the narrowest that holds those of ``dtypes`` exactly."""
    return np.dtype(np.float64 if any(dtype.itemsize > 4 for dtype in dtypes) else np.float32)


def pack_ranks(ranks: Values, answer_column: npt.NDArray[Any]) -> PackedBlock:
    """Pack ranks as they are: whole numbers 1..C, 1 is best, repeats allowed.

    Args:
        ranks: numbers of any type, checked before; one array of ``unsigned_dtype`` is not copied.
        answer_column: the answer's column, (b,).
    """
    answer_column = np.asarray(answer_column, dtype=np.int64)
    n_rows, n_columns = ranks[0].shape
    dtype = unsigned_dtype(n_columns)
    if isinstance(ranks, np.ndarray) and ranks.dtype == dtype:
        values = ranks
    else:
        values = np.stack(list(ranks), dtype=dtype, casting="unsafe")
    counts, above, positions = _contested(values, answer_column)
    n_candidates = np.full(n_rows, n_columns, dtype=np.int32)
    return PackedBlock(
        answer=_doubled(values, np.arange(n_rows) * n_columns + answer_column),
        n_candidates=n_candidates,
        # Below means ahead: rank 1 is best.
        always_ahead=(n_candidates - 1 - counts - above).astype(np.int32),
        counts=counts,
        contested=_doubled(values, positions),
    )


def pack_scores(
    scores: Values,
    answer_column: npt.NDArray[Any],
    known: Exclusions | None = None,
    gap_scales: npt.NDArray[np.float64] | None = None,
) -> PackedBlock:
    """Pack scores: the higher, the better; a tied block shares its mean rank.

    Args:
        scores: float16, float32 or float64, finite.
        answer_column: the answer's column, (b,).
        known: candidates to leave out before ranking; an answer among them stays.
        gap_scales: raw score difference of one unit of a stored gap, (N,); None stores no gaps.
    """
    answer_column = np.asarray(answer_column, dtype=np.int64)
    values, n_candidates = _remaining(scores, answer_column, known)
    answers = _answers(values, answer_column)
    counts, above, positions = _contested(values, answer_column)
    contested = np.take(values.reshape(len(values), -1), positions, axis=1)
    dtype = rank_dtype(values.shape[2])
    ranks = np.empty(answers.shape, dtype=dtype), np.empty(contested.shape, dtype=dtype)
    _rank(values, answers, contested, counts, _COUNTED, *ranks)
    return PackedBlock(
        answer=ranks[0],
        n_candidates=n_candidates,
        always_ahead=above.astype(np.int32),
        counts=counts,
        contested=ranks[1],
        gaps=None if gap_scales is None else scale_gaps(contested, np.repeat(answers, counts, axis=1), gap_scales),
    )


def rerank(ranks: Values, answer_column: npt.NDArray[Any], known: Exclusions) -> PackedBlock:
    """Leave the known answers out of given ranks, rank the rest anew by the mean rule, and pack; see ``pack_ranks``."""
    exact = np.float32 if ranks[0].shape[1] < 2**24 else np.float64
    return pack_scores([np.negative(block, dtype=exact, casting="unsafe") for block in ranks], answer_column, known)


def fit_gap_scales(
    scores: Values, answer_column: npt.NDArray[Any], known: Exclusions | None = None
) -> npt.NDArray[np.float64]:
    """Return the raw score difference of one unit of a stored gap, (N,), from a sample of validation rows.

    The arguments are those of ``pack_scores``. A model that scores all candidates alike gets 1.
    """
    answer_column = np.asarray(answer_column, dtype=np.int64)
    values, n_candidates = _remaining(scores, answer_column, known)
    n_gaps = max(1, int(n_candidates.sum()) - len(n_candidates))
    scales = np.empty(len(values))
    with np.errstate(over="ignore"):
        for i, (rows, answers) in enumerate(zip(values, _answers(values, answer_column), strict=True)):
            gaps = np.abs(rows.astype(np.float64) - answers[:, None]) / UNITS_PER_MEAN_GAP
            scales[i] = gaps.sum(where=rows != -np.inf) / n_gaps
    return np.where(scales > 0, np.minimum(scales, np.finfo(np.float64).max), 1.0)


def join_blocks(blocks: Sequence[PackedBlock]) -> PackedBlock:
    """Put the blocks of consecutive queries one after the other; there is at least one."""
    gaps = [block.gaps for block in blocks if block.gaps is not None]
    if gaps and len(gaps) != len(blocks):
        raise RanksError("some blocks have score gaps and some have not: pack all of them with the same gap_scales")
    return PackedBlock(
        answer=np.concatenate([block.answer for block in blocks], axis=1),
        n_candidates=np.concatenate([block.n_candidates for block in blocks]),
        always_ahead=np.concatenate([block.always_ahead for block in blocks]),
        counts=np.concatenate([block.counts for block in blocks]),
        contested=np.concatenate([block.contested for block in blocks], axis=1),
        gaps=np.concatenate(gaps, axis=1) if gaps else None,
    )


def _remaining(
    scores: Values, answer_column: npt.NDArray[np.int64], known: Exclusions | None
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """Copy the scores to (N, b, C), the known answers at -inf (behind every answer); count the rest, (b,) int32."""
    values = np.stack(list(scores), dtype=float_dtype(block.dtype for block in scores), casting="unsafe")
    n_rows, n_columns = values.shape[1:]
    n_candidates = np.full(n_rows, n_columns, dtype=np.int32)
    if known is not None:
        offsets, columns = known
        row = np.repeat(np.arange(n_rows), np.diff(offsets))
        row, columns = np.divmod(np.unique(row * n_columns + columns), n_columns)
        other = columns != answer_column[row]
        row, columns = row[other], columns[other]
        values[:, row, columns] = -np.inf
        n_candidates -= np.bincount(row, minlength=n_rows).astype(np.int32)
    return values, n_candidates


def _doubled(ranks: npt.NDArray[Any], positions: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Return twice the ranks at positions (k,) of each model's flattened part of an array (N, b, C), as (N, k)."""
    doubled = np.empty((len(ranks), len(positions)), dtype=rank_dtype(ranks.shape[2]))
    _double(ranks.reshape(len(ranks), -1), positions, doubled)
    return doubled


def _answers(values: npt.NDArray[Any], answer_column: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Return the values of the answers in an array (N, b, C), as (N, b)."""
    answers: npt.NDArray[Any] = values[:, np.arange(len(answer_column)), answer_column]
    return answers


def scale_gaps(
    contested: npt.NDArray[Any], answers: npt.NDArray[Any], scales: npt.NDArray[np.float64]
) -> npt.NDArray[np.int32]:
    """Scale the differences of scores (N, k) to whole numbers that keep their sign."""
    with np.errstate(over="ignore"):
        gaps = contested.astype(np.float64) - answers
        units = np.clip(np.rint(gaps / scales[:, None]), -MAX_GAP, MAX_GAP)
    signed: npt.NDArray[np.int32] = np.where(units == 0, np.sign(gaps), units).astype(np.int32)
    return signed


@njit(cache=True, nogil=True)
def within(ranks: npt.NDArray[Any], most: int) -> bool:
    """Tell whether all ``ranks`` (b, C), of an unsigned type, lie in 1..``most``."""
    flat = ranks.reshape(-1)
    lowest = highest = flat[0]
    for k in range(len(flat)):
        lowest, highest = min(lowest, flat[k]), max(highest, flat[k])
    return bool(lowest >= 1 and highest <= most)


@njit(cache=True, nogil=True)
def _contested(
    values: npt.NDArray[Any], answer_column: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Find the candidates that are neither below the answer in every model nor above it in every model.

    Takes an array (N, b, C) and returns, per query, how many are contested and how many are above in every model,
    (b,) each, and the positions of the contested ones in a flattened (b, C).
    """
    n_models, n_rows, n_columns = values.shape
    counts, above = np.empty(n_rows, dtype=np.int64), np.empty(n_rows, dtype=np.int64)
    positions = np.empty(n_columns, dtype=np.int64)
    # Padded to whole words, so that eight candidates can be judged at once.
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


@njit(cache=True, nogil=True)
def _take_sides(row: npt.NDArray[Any], answer: Any, sides: npt.NDArray[np.uint8]) -> None:
    """Add to ``sides`` (at least C,) what one more model's ``row`` (C,) says."""
    for j in range(len(row)):
        sides[j] |= np.uint8(row[j] <= answer) | (np.uint8(row[j] >= answer) << np.uint8(1))


@njit(cache=True, nogil=True)
def _collect(words, origin, positions):  # type: ignore[no-untyped-def]
    """List the contested candidates of a query in ``positions``, the first one being at ``origin``.

    ``words`` are its sides, eight in one. Returns how many are contested, and how many some model puts no lower.
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
        # Most chunks have nothing contested, and most words of the others neither.
        for w in range(len(chunk) if both else 0):
            left = chunk[w] & (chunk[w] >> np.uint64(1)) & _EIGHT_ONES
            while left:
                # A one in every byte before the first that is contested; their number is the digit sum in base 256.
                before = (left - np.uint64(1)) & ~left & _EIGHT_ONES
                positions[n] = origin + 8 * (first + w) + np.int64(before % _BYTE)
                n += 1
                left &= left - np.uint64(1)
    return n, no_lower


@njit(cache=True, nogil=True)
def _double(ranks: npt.NDArray[Any], positions: npt.NDArray[np.int64], doubled: npt.NDArray[Any]) -> None:
    """Fill ``doubled`` (N, k) with twice the ranks (N, b · C) at ``positions`` (k,)."""
    for i in range(len(ranks)):
        row, out = ranks[i], doubled[i]
        for k in range(len(positions)):
            out[k] = 2 * np.int64(row[positions[k]])


@njit(cache=True, nogil=True)
def _rank(values, answers, contested, counts, counted, answer_ranks, contested_ranks):  # type: ignore[no-untyped-def]
    """Rank the scores of answers (N, b) and contested candidates (N, K) within their rows of ``values`` (N, b, C).

    Query q has ``counts[q]`` contested candidates. Doubled ranks go to the last two arguments, (N, b) and (N, K).
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
            # Most scores of a row are lower than all that are ranked, and do not count.
            for j in range(n_columns):
                sides[j] = np.uint8(row[j] >= lowest) * np.uint8(3)
            n, _ = _collect(sides.view(np.uint64), 0, positions)
            higher = room[0, :n]
            for k in range(n):
                higher[k] = row[positions[k]]
            dealt, most = room[1, :n], counted if len(wanted) > counted else n
            origin, scale = _deal(higher, most, dealt, starts)
            answer_ranks[i, q] = _doubled_rank(answer, dealt, starts, origin, scale, most)
            for k in range(len(wanted)):
                contested_ranks[i, begin + k] = _doubled_rank(wanted[k], dealt, starts, origin, scale, most)


@njit(cache=True, nogil=True)
def _deal(scores, most, dealt, starts):  # type: ignore[no-untyped-def]
    """Deal scores (n,) into buckets of equal width, from the lowest to the highest; up to ``most`` scores go into one.

    Bucket k becomes ``dealt[starts[k]:starts[k + 1]]``, in order where it has more than ``most`` scores. Returns the
    origin and the scale for ``_bucket``.
    """
    n_buckets = len(scores) if len(scores) > most else 1
    # Halves, because the difference of two large scores may be infinite.
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


@njit(cache=True, nogil=True)
def _bucket(score, origin, scale):  # type: ignore[no-untyped-def]
    """Return the bucket of a score; of two scores the higher one is never in the lower bucket."""
    return np.int64((np.float64(score) / 2 - origin) * scale)


@njit(cache=True, nogil=True)
def _doubled_rank(score, dealt, starts, origin, scale, most):  # type: ignore[no-untyped-def]
    """Return the doubled mean rank of a score: 2 · (scores above) + (scores level, itself included) + 1."""
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
    return 2 * above + level + 1
