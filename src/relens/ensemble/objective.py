"""The objective: from packed ranks and weights to the exact rank of every answer."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from relens.compiled import njit
from relens.ensemble.grid import vertices
from relens.ensemble.inputs.base import Input
from relens.ensemble.inputs.rank import RANK
from relens.metrics.mrr import mrr
from relens.packs.pack import PackedRanks
from relens.ranking.answer_ranks import AnswerRanks

BLOCK = 1024
"""Candidates summed at a time: their sums stay in the first-level cache."""


def answer_ranks(
    packed: PackedRanks,
    weights: npt.NDArray[np.int64],
    group: npt.NDArray[np.int32] | None = None,
    *,
    input: Input = RANK,
    queries: npt.NDArray[np.int64] | None = None,
    jobs: int = 1,
) -> AnswerRanks:
    """Rank the answer of every query under the weights of its group.

    Args:
        packed: Q queries of N models.
        weights: grid weights, (G, N) int64, or (N,) for one vector for all.
        group: row of ``weights`` for each query, (Q,) int32; None for row 0.
        input: what the weights are applied to.
        queries: positions of the n queries to rank; None for all Q.
        jobs: threads to use.
    """
    signed = np.atleast_2d(weights).astype(np.float64)
    group = np.zeros(packed.n_queries, dtype=np.int32) if group is None else group
    index = np.arange(packed.n_queries) if queries is None else queries
    values, answer, table, sign = input.operands(packed)
    # The kernel adds up costs, of which less is better.
    signed *= -sign
    ahead = packed.always_ahead[index].astype(np.int64)
    tied = np.zeros(len(index), dtype=np.int64)

    def count(first: int, last: int) -> None:
        _count(values, answer, packed.offsets, signed, group, table, index, first, last, ahead, tied)

    if jobs == 1:
        count(0, len(index))
    else:
        # An evaluation takes milliseconds, and joblib's dispatch takes ten of them: use a plain pool of threads.
        cuts = _equal_work(packed.offsets[index + 1] - packed.offsets[index], jobs)
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(count, cuts[:-1], cuts[1:]))
    return AnswerRanks(ahead, tied)


def reciprocal_sums(
    packed: PackedRanks,
    queries: npt.NDArray[np.int64],
    input: Input,
    candidates: Sequence[npt.NDArray[np.int64]],
    *,
    jobs: int = 1,
) -> npt.NDArray[np.float64]:
    """Return the sum of reciprocal ranks of the queries at ``queries`` (n,) under each candidate's weights, (M,)."""
    ranks = (answer_ranks(packed, weights, input=input, queries=queries, jobs=jobs) for weights in candidates)
    return np.array([np.sum(1.0 / rank.realistic) for rank in ranks])


def model_mrrs(packed: PackedRanks, *, jobs: int = 1) -> npt.NDArray[np.float64]:
    """Return each model's own MRR, (N,)."""
    ranks = (answer_ranks(packed, vertex, jobs=jobs) for vertex in vertices(packed.n_models))
    return np.array([mrr(rank.realistic) for rank in ranks])


def _equal_work(costs: npt.NDArray[np.int64], parts: int) -> list[int]:
    """Return positions (parts + 1) that cut the queries into runs of about equal ``costs`` (n,)."""
    done = np.cumsum(costs)
    inner = np.searchsorted(done, np.linspace(0, done[-1] if len(done) else 0, parts + 1)[1:-1])
    return [0, *(int(cut) for cut in inner), len(costs)]


@njit(fastmath={"contract"})
def _count(values, answer, offsets, weights, group, table, index, first, last, ahead, tied):  # type: ignore[no-untyped-def]
    """Add the contested candidates whose cost is below, and equal to, the answer's for ``index[first:last]``."""
    # Slices, 32-bit counters, fused multiply-adds (sums of integers stay exact) and six models in one pass let this run
    # at half the speed of reading memory. Places left in the last six hold the first model with weight 0.
    used, w = np.zeros(len(values) + 5, np.int64), np.zeros(len(values) + 5)
    nothing = np.zeros(BLOCK)
    n, last_group = 0, -1
    for at in range(first, last):
        q = index[at]
        if group[q] != last_group:
            n, last_group = 0, group[q]
            for i in range(len(values)):
                w[n], used[n] = weights[last_group, i], i
                n += w[n] != 0
            w[n : n + 5], used[n : n + 5] = 0.0, used[0]
        limit = 0.0
        for u in range(n):
            rank = answer[used[u], q]
            limit += w[u] * (rank if table is None else table[rank])
        for start in range(offsets[q], offsets[q + 1], BLOCK):
            stop = min(start + BLOCK, offsets[q + 1])
            before = nothing[: stop - start]
            if n > 6:
                before = np.zeros(stop - start)
                for u in range(0, n - 6, 6):
                    _add_six(values, table, used[u:], w[u:], start, stop, before)
            below, level = _count_six(
                values, table, used[(n - 1) // 6 * 6 :], w[(n - 1) // 6 * 6 :], start, stop, before, limit
            )
            ahead[at] += below
            tied[at] += level


@njit(fastmath={"contract"}, inline="always")
def _count_six(values, table, used, w, start, stop, before, limit):  # type: ignore[no-untyped-def]
    """Count costs below ``limit``, and equal to it, of six models on top of the cost ``before``."""
    w0, w1, w2, w3, w4, w5 = w[0], w[1], w[2], w[3], w[4], w[5]
    r0, r1, r2 = values[used[0], start:stop], values[used[1], start:stop], values[used[2], start:stop]
    r3, r4, r5 = values[used[3], start:stop], values[used[4], start:stop], values[used[5], start:stop]
    below, level = np.uint32(0), np.uint32(0)
    for k in range(len(before)):
        cost = before[k] + _six(table, w0, r0[k], w1, r1[k], w2, r2[k], w3, r3[k], w4, r4[k], w5, r5[k])
        below += np.uint32(cost < limit)
        level += np.uint32(cost == limit)
    return below, level


@njit(fastmath={"contract"})
def _add_six(values, table, used, w, start, stop, before):  # type: ignore[no-untyped-def]
    """Add the cost of six models to ``before``."""
    w0, w1, w2, w3, w4, w5 = w[0], w[1], w[2], w[3], w[4], w[5]
    r0, r1, r2 = values[used[0], start:stop], values[used[1], start:stop], values[used[2], start:stop]
    r3, r4, r5 = values[used[3], start:stop], values[used[4], start:stop], values[used[5], start:stop]
    for k in range(len(before)):
        before[k] += _six(table, w0, r0[k], w1, r1[k], w2, r2[k], w3, r3[k], w4, r4[k], w5, r5[k])


@njit(inline="always")
def _six(table, w0, r0, w1, r1, w2, r2, w3, r3, w4, r4, w5, r5):  # type: ignore[no-untyped-def]
    """Return the weighted cost of six ranks."""
    if table is None:
        return w0 * r0 + w1 * r1 + w2 * r2 + w3 * r3 + w4 * r4 + w5 * r5
    return w0 * table[r0] + w1 * table[r1] + w2 * table[r2] + w3 * table[r3] + w4 * table[r4] + w5 * table[r5]
