"""Packing: from the ranks or scores of all candidates to the few that weights can move.

Both packers take a block of b queries whose candidates are the C columns of one array per model. Blocks should fit
the processor's cache, because they are passed over a few times.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from relens.errors import RanksError

Known = tuple[npt.NDArray[Any], npt.NDArray[Any]]
"""Candidates to leave out: those of query q are ``columns[offsets[q]:offsets[q + 1]]``; (b + 1,) and (m,)."""

MAX_GAP = 2**26
"""Largest size of a stored score gap: N weights of 2**20 times it add up exactly in float64 and int64."""

UNITS_PER_MEAN_GAP = 2**16
"""Resolution of stored score gaps: so many units make the mean absolute gap of the model."""

# The value of a candidate is below (above) the answer's in every model seen so far; a byte per candidate.
_BELOW, _ABOVE = np.uint8(1), np.uint8(2)
_EIGHT_BELOW, _EIGHT_ABOVE = np.uint64(0x0101010101010101), np.uint64(0x0202020202020202)

# Ranking one candidate by counting over its row takes about a hundredth of the time of sorting the row.
_SORT_ABOVE = 128


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


def pack_ranks(ranks: Sequence[npt.NDArray[Any]], answer_column: npt.NDArray[Any]) -> PackedBlock:
    """Pack ranks as they are: whole numbers 1..C, 1 is best, repeats allowed.

    Args:
        ranks: N arrays (b, C) of any number type, the values checked before.
        answer_column: the answer's column, (b,).
    """
    answer_column = np.asarray(answer_column, dtype=np.int64)
    ranks = [_compilable(block) for block in ranks]
    n_rows, n_columns = ranks[0].shape
    dtype = rank_dtype(n_columns)
    counts, above, positions = _contested(ranks, answer_column)
    at_answer = np.arange(n_rows) * n_columns + answer_column
    n_candidates = np.full(n_rows, n_columns, dtype=np.int32)
    return PackedBlock(
        answer=2 * _gather(ranks, at_answer, dtype),
        n_candidates=n_candidates,
        # Below means ahead: rank 1 is best.
        always_ahead=(n_candidates - 1 - counts - above).astype(np.int32),
        counts=counts,
        contested=2 * _gather(ranks, positions, dtype),
    )


def pack_scores(
    scores: Sequence[npt.NDArray[Any]],
    answer_column: npt.NDArray[Any],
    known: Known | None = None,
    gap_scales: npt.NDArray[np.float64] | None = None,
) -> PackedBlock:
    """Pack scores: the higher, the better; a tied block shares its mean rank.

    Args:
        scores: N arrays (b, C) of float16, float32 or float64, finite.
        answer_column: the answer's column, (b,).
        known: candidates to leave out before ranking; an answer among them stays.
        gap_scales: raw score difference of one unit of a stored gap, (N,); None stores no gaps.
    """
    answer_column = np.asarray(answer_column, dtype=np.int64)
    values, n_candidates = _remaining(scores, answer_column, known)
    answers = _answers(values, answer_column)
    counts, above, positions = _contested(values, answer_column)
    contested = _gather(values, positions, values.dtype)
    crowded = counts > _SORT_ABOVE
    ordered = np.sort(values[:, crowded], axis=2)
    slot = np.where(crowded, np.cumsum(crowded) - 1, -1)
    each = np.ones_like(counts)
    dtype = rank_dtype(values.shape[2])
    return PackedBlock(
        answer=_doubled_ranks(answers, each, values, ordered, slot).astype(dtype),
        n_candidates=n_candidates,
        always_ahead=above.astype(np.int32),
        counts=counts,
        contested=_doubled_ranks(contested, counts, values, ordered, slot).astype(dtype),
        gaps=None if gap_scales is None else scale_gaps(contested, np.repeat(answers, counts, axis=1), gap_scales),
    )


def rerank(ranks: Sequence[npt.NDArray[Any]], answer_column: npt.NDArray[Any], known: Known) -> PackedBlock:
    """Leave the known answers out of given ranks, rank the rest anew by the mean rule, and pack; see ``pack_ranks``."""
    exact = np.float32 if ranks[0].shape[1] < 2**24 else np.float64
    return pack_scores([np.negative(block, dtype=exact, casting="unsafe") for block in ranks], answer_column, known)


def fit_gap_scales(
    scores: Sequence[npt.NDArray[Any]], answer_column: npt.NDArray[Any], known: Known | None = None
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
    scores: Sequence[npt.NDArray[Any]], answer_column: npt.NDArray[np.int64], known: Known | None
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """Copy the scores to (N, b, C), the known answers at -inf (behind every answer); count the rest, (b,) int32."""
    exact = np.float64 if any(block.dtype.itemsize > 4 for block in scores) else np.float32
    values = np.stack(scores, dtype=exact, casting="unsafe")
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


def _compilable(block: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the block (a view, mostly) in a type and order that kernels are compiled for: not float16, for one."""
    dtype = block.dtype.newbyteorder("=")
    return np.ascontiguousarray(block, dtype=np.float32 if dtype == np.float16 else dtype)


def _contested(
    values: Sequence[npt.NDArray[Any]] | npt.NDArray[Any], answer_column: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Find the candidates that are neither below the answer in every model nor above it in every model.

    Takes N arrays (b, C) and returns, per query, how many are contested and how many are above in every model,
    (b,) each, and the positions of the contested ones in a flattened (b, C).
    """
    n_rows, n_columns = values[0].shape
    # Padded to whole words, so that eight candidates can be judged at once.
    sides = np.full((n_rows, -(-n_columns // 8) * 8), _BELOW | _ABOVE, dtype=np.uint8)
    sides[:, n_columns:] = _BELOW
    for model_values in values:
        _take_sides(model_values, answer_column, sides)
    sides[np.arange(n_rows), answer_column] = _BELOW
    counts, above, positions = _collect(sides, sides.view(np.uint64), n_columns)
    return counts, above, positions


def _gather(
    values: Sequence[npt.NDArray[Any]] | npt.NDArray[Any], positions: npt.NDArray[np.int64], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """Return each model's values at positions (k,) of its flattened array (b, C), as (N, k)."""
    return np.stack([np.take(model_values, positions) for model_values in values], dtype=dtype, casting="unsafe")


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
def _take_sides(values: npt.NDArray[Any], answer_column: npt.NDArray[np.int64], sides: npt.NDArray[np.uint8]) -> None:
    """Take from ``sides`` (b, ≥ C) what one more model's ``values`` (b, C) contradict: the one pass over all values."""
    for q in range(len(values)):
        row = values[q]
        answer = row[answer_column[q]]
        for j in range(len(row)):
            sides[q, j] &= np.uint8(row[j] < answer) | (np.uint8(row[j] > answer) << np.uint8(1))


@njit(cache=True, nogil=True)
def _collect(
    sides: npt.NDArray[np.uint8], words: npt.NDArray[np.uint64], n_columns: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Count and list the candidates on neither side, and count those above; ``words`` are ``sides``, eight in one."""
    n_rows, n_words = words.shape
    counts = np.empty(n_rows, dtype=np.int64)
    above = np.empty(n_rows, dtype=np.int64)
    positions = np.empty(n_columns, dtype=np.int64)
    end = 0
    for q in range(n_rows):
        begin = end
        if begin + n_columns > len(positions):
            grown = np.empty(2 * (begin + n_columns), dtype=np.int64)
            grown[:begin] = positions[:begin]
            positions = grown
        n_above = 0
        for w in range(n_words):
            if words[q, w] == _EIGHT_BELOW:
                continue
            if words[q, w] == _EIGHT_ABOVE:
                n_above += 8
                continue
            for j in range(8 * w, 8 * w + 8):
                # Write always, advance only past a contested one: no branch to mispredict.
                positions[end] = q * n_columns + j
                end += sides[q, j] == 0
                n_above += sides[q, j] == _ABOVE
        counts[q] = end - begin
        above[q] = n_above
    return counts, above, positions[:end]


@njit(cache=True, nogil=True)
def _doubled_ranks(
    wanted: npt.NDArray[Any],
    counts: npt.NDArray[np.int64],
    values: npt.NDArray[Any],
    ordered: npt.NDArray[Any],
    slot: npt.NDArray[np.int64],
) -> npt.NDArray[np.uint32]:
    """Rank the scores ``wanted`` (N, k), ``counts[q]`` of them for query q, within their rows of ``values`` (N, b, C).

    The row of query q is also found in ascending order at ``ordered[:, slot[q]]``, unless ``slot[q]`` is negative.
    A doubled mean rank is 2 · (scores above) + (scores level, itself included) + 1.
    """
    ranks = np.empty(wanted.shape, dtype=np.uint32)
    n_columns = values.shape[2]
    for i in range(len(wanted)):
        end = 0
        for q in range(len(counts)):
            begin, end = end, end + counts[q]
            for k in range(begin, end):
                above = level = 0
                if slot[q] >= 0:
                    row = ordered[i, slot[q]]
                    right = np.searchsorted(row, wanted[i, k], side="right")
                    above = n_columns - right
                    level = right - np.searchsorted(row, wanted[i, k])
                else:
                    row = values[i, q]
                    for j in range(n_columns):
                        above += row[j] > wanted[i, k]
                        level += row[j] == wanted[i, k]
                ranks[i, k] = 2 * above + level + 1
    return ranks
