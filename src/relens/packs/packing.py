"""Packing: from the ranks or scores of all candidates to the contested ones, which weights can move.

Each packer takes a block of b queries, whose candidates are the C columns of one array per model.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.packs.kernels import double_ranks, find_contested, rank_scores
from relens.packs.pack import PackedBlock, PackedRanks
from relens.ranking.competition import Exclusions

Values = Sequence[npt.NDArray[Any]] | npt.NDArray[Any]
"""The values of N models for b queries and C candidates: N arrays (b, C), or one (N, b, C)."""

MAX_GAP = 2**26
"""Largest size of a stored score gap: its products with N weights of 2**20 add up exactly in float64 and int64."""

MAX_CANDIDATES = 2**24
"""Most candidates of a query: costs of twice as many doubled ranks, all different, stay below those of ``MAX_GAP``."""

UNITS_PER_GAP = 2**16
"""Resolution of stored score gaps: the typical gap of a model, its median, has this many units."""

OUTLIER = 2**10
"""A gap larger than so many times the lower decile of its query has no part in the scale."""

SCALE_QUERIES = 64
"""Validation queries that gap scales are fitted on, or up to twice as many: millions of gaps on most graphs."""

# A rank is counted among up to this many scores; among more, buckets and then sorting are faster.
_COUNTED = 64
_SATURATION_SAMPLE = 2**20


def rank_dtype(n_candidates: int) -> np.dtype[Any]:
    """Return the narrowest of uint16 and uint32 that holds the doubled rank of ``n_candidates`` candidates."""
    return np.dtype(np.uint16 if 2 * n_candidates <= np.iinfo(np.uint16).max else np.uint32)


def unsigned_dtype(n_candidates: int) -> np.dtype[Any]:
    """Return the type in which ranks are packed: the narrowest that holds the ranks of ``n_candidates`` candidates."""
    return np.dtype(np.uint16 if n_candidates <= np.iinfo(np.uint16).max else np.uint32)


def float_dtype(dtypes: Iterable[np.dtype[Any]]) -> np.dtype[Any]:
    """Return the type in which scores are packed: the narrowest that holds scores of ``dtypes`` exactly."""
    return np.dtype(np.float64 if any(dtype.itemsize > 4 for dtype in dtypes) else np.float32)


def pack_ranks(ranks: Values, answer_column: npt.NDArray[Any]) -> PackedBlock:
    """Pack ranks as they are: whole numbers from 1 (best) to C; ranks may repeat.

    Args:
        ranks: numbers of any type, already checked; one array of ``unsigned_dtype`` is not copied.
        answer_column: the column of the answer, (b,).
    """
    answer_column = np.asarray(answer_column, dtype=np.int64)
    n_rows, n_columns = ranks[0].shape
    dtype = unsigned_dtype(n_columns)
    if isinstance(ranks, np.ndarray) and ranks.dtype == dtype:
        values = ranks
    else:
        values = np.stack(list(ranks), dtype=dtype, casting="unsafe")
    counts, above, positions = find_contested(values, answer_column)
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
    """Rank scores and pack: a higher score is better, and a tied block shares its mean rank.

    Args:
        scores: float16, float32 or float64, finite.
        answer_column: the column of the answer, (b,).
        known: candidates to leave out before ranking; the answer stays, even if it is among them.
        gap_scales: raw score difference of one unit of a stored gap, (N,); None stores no gaps.
    """
    answer_column = np.asarray(answer_column, dtype=np.int64)
    values, n_candidates = _remaining(scores, answer_column, known)
    answers = _answers(values, answer_column)
    counts, above, positions = find_contested(values, answer_column)
    contested = np.take(values.reshape(len(values), -1), positions, axis=1)
    dtype = rank_dtype(values.shape[2])
    ranks = np.empty(answers.shape, dtype=dtype), np.empty(contested.shape, dtype=dtype)
    rank_scores(values, answers, contested, counts, _COUNTED, *ranks)
    return PackedBlock(
        answer=ranks[0],
        n_candidates=n_candidates,
        always_ahead=above.astype(np.int32),
        counts=counts,
        contested=ranks[1],
        gaps=None if gap_scales is None else scale_gaps(contested, np.repeat(answers, counts, axis=1), gap_scales),
    )


def rerank(ranks: Values, answer_column: npt.NDArray[Any], known: Exclusions) -> PackedBlock:
    """Leave the known answers out of given ranks, rank the rest again by the tie rule, and pack; see ``pack_ranks``."""
    exact = np.float32 if ranks[0].shape[1] < 2**24 else np.float64
    return pack_scores([np.negative(block, dtype=exact, casting="unsafe") for block in ranks], answer_column, known)


def scale_rows(n_queries: int) -> npt.NDArray[np.int64]:
    """Return the validation queries that gap scales are fitted on: an even sample, of both directions."""
    return np.arange(0, n_queries, max(1, n_queries // SCALE_QUERIES) | 1)


def fit_gap_scales(
    scores: Values, answer_column: npt.NDArray[Any], known: Exclusions | None = None
) -> npt.NDArray[np.float64]:
    """Return the raw score difference of one unit of a stored gap, (N,), from a sample of validation queries.

    ``scale_rows`` returns the sample; the arguments are those of ``pack_scores``. A model that scores all candidates
    alike gets 1. The scale is a median, so that a few extreme scores, such as those of masked entities, change little.
    """
    return scales_from_gaps(typical_gaps(scores, answer_column, known))


def typical_gaps(
    scores: Values, answer_column: npt.NDArray[Any], known: Exclusions | None = None
) -> npt.NDArray[np.float64]:
    """Return the typical gap of each query and model, (N, b); the arguments are those of ``fit_gap_scales``."""
    answer_column = np.asarray(answer_column, dtype=np.int64)
    values, _ = _remaining(scores, answer_column, known)
    answers = _answers(values, answer_column)
    gaps = [
        [_typical_gap(row, answer) for row, answer in zip(rows, of_rows, strict=True)]
        for rows, of_rows in zip(values, answers, strict=True)
    ]
    return np.array(gaps).reshape(answers.shape)


def scales_from_gaps(gaps: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the scales of ``fit_gap_scales`` from the typical gaps of all queries of the sample, (N, Q)."""
    scales = np.zeros(len(gaps))
    for i, of_model in enumerate(gaps):
        if (of_model > 0).any():
            scales[i] = _middle(of_model[of_model > 0]) / UNITS_PER_GAP
    return np.where(scales > 0, scales, 1.0)


def _typical_gap(row: npt.NDArray[Any], answer: Any) -> float:
    """Return the median size of the gaps between a query's scores (C,) and its answer's; 0 if all candidates tie.

    Ties and known answers (-inf) do not count. Neither do outliers: up to nine tenths of the scores may be masked.
    """
    with np.errstate(over="ignore"):
        sizes = np.abs(row[row != -np.inf].astype(np.float64) - answer)
    sizes = np.minimum(sizes[sizes > 0], np.finfo(np.float64).max)
    if len(sizes) == 0:
        return 0.0
    decile = np.partition(sizes, len(sizes) // 10)[len(sizes) // 10]
    return _middle(sizes[sizes / OUTLIER <= decile])


def _middle(values: npt.NDArray[np.float64]) -> float:
    """Return the median of values (n,), the lower one of two: their mean might be infinite."""
    middle = (len(values) - 1) // 2
    return float(np.partition(values, middle)[middle])


def saturated_models(packed: PackedRanks) -> dict[str, float]:
    """Return the models most of whose score gaps are as small or as large as stored gaps can be, with their share.

    Such gaps say who is ahead, but not by how much. Zeros, which are ties, do not count. Large packs are sampled.
    """
    if packed.gaps is None or packed.n_contested == 0:
        return {}
    sizes = np.abs(packed.gaps[:, :: -(-packed.n_contested // _SATURATION_SAMPLE)])
    extreme = ((sizes == 1) | (sizes == MAX_GAP)).sum(axis=1)
    shares = extreme / np.maximum(1, (sizes > 0).sum(axis=1))
    return {model: float(share) for model, share in zip(packed.models, shares, strict=True) if share > 0.5}


def _remaining(
    scores: Values, answer_column: npt.NDArray[np.int64], known: Exclusions | None
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """Copy the scores to (N, b, C), known answers at -inf, behind every answer; count the others, (b,) int32."""
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
    double_ranks(ranks.reshape(len(ranks), -1), positions, doubled)
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
