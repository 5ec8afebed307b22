"""The objective: from packed ranks and weights to where every answer stands, exactly."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from relens.ensemble.inputs import Input, cost_table
from relens.ranks.metrics import AnswerRanks
from relens.ranks.packed import PackedRanks

BLOCK = 1024
"""Candidates summed at a time: their sums stay in the first-level cache."""


def answer_ranks(
    packed: PackedRanks,
    weights: npt.NDArray[np.int64],
    group: npt.NDArray[np.int32] | None = None,
    *,
    name: Input = "rank",
    queries: npt.NDArray[np.int64] | None = None,
    jobs: int = 1,
) -> AnswerRanks:
    """Rank the answer of every query under the weights of its group.

    Args:
        packed: Q queries of N models.
        weights: grid weights, (G, N) int64, or (N,) for one vector for all.
        group: row of ``weights`` for each query, (Q,) int32; None for row 0.
        name: what the weights are applied to.
        queries: positions of the n queries to rank; None for all Q.
        jobs: threads to use.
    """
    signed = np.atleast_2d(weights).astype(np.float64)
    group = np.zeros(packed.n_queries, dtype=np.int32) if group is None else group
    index = np.arange(packed.n_queries) if queries is None else queries
    table: npt.NDArray[np.int32] | None = None
    values: npt.NDArray[Any] = packed.contested
    answer: npt.NDArray[Any] = packed.answer
    if name == "score":
        assert packed.gaps is not None  # check_input has refused this pack otherwise
        # A gap is an advantage, not a cost: negated weights make it one, and the answer's own gap is 0.
        values, answer, signed = packed.gaps, np.zeros(answer.shape, dtype=np.int32), -signed
    elif name != "rank":
        table = cost_table(name, int(packed.n_candidates.max(initial=1)))
    ahead = packed.always_ahead[index].astype(np.int64)
    tied = np.zeros(len(index), dtype=np.int64)

    def count(first: int, last: int) -> None:
        _count(values, answer, packed.offsets, signed, group, table, index, first, last, ahead, tied)

    if jobs == 1:
        count(0, len(index))
    else:
        # A pool of threads of our own: an evaluation takes milliseconds, joblib's dispatch ten of them.
        cuts = _equal_work(packed.offsets[index + 1] - packed.offsets[index], jobs)
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(count, cuts[:-1], cuts[1:]))
    return AnswerRanks(ahead, tied)


def reciprocal_sums(
    packed: PackedRanks,
    queries: npt.NDArray[np.int64],
    name: Input,
    candidates: Sequence[npt.NDArray[np.int64]],
    *,
    jobs: int = 1,
) -> npt.NDArray[np.float64]:
    """Return the sum of reciprocal ranks of the queries at ``queries`` (n,) under each candidate's weights, (M,)."""
    ranks = (answer_ranks(packed, weights, name=name, queries=queries, jobs=jobs) for weights in candidates)
    return np.array([np.sum(1.0 / rank.realistic) for rank in ranks])


def _equal_work(costs: npt.NDArray[np.int64], parts: int) -> list[int]:
    """Return positions (parts + 1) that cut the queries into runs of about equal ``costs`` (n,)."""
    done = np.cumsum(costs)
    inner = np.searchsorted(done, np.linspace(0, done[-1] if len(done) else 0, parts + 1)[1:-1])
    return [0, *(int(cut) for cut in inner), len(costs)]


@njit(cache=True, nogil=True)
def _count(values, answer, offsets, weights, group, table, index, first, last, ahead, tied):  # type: ignore[no-untyped-def]
    """Add the contested candidates whose cost is below, and equal to, the answer's for ``index[first:last]``."""
    # Slices and 32-bit counters are what the compiler needs to vectorise these loops.
    n_models = values.shape[0]
    sums = np.empty(BLOCK)
    for at in range(first, last):
        q = index[at]
        w = weights[group[q]]
        limit = 0.0
        for i in range(n_models):
            limit += w[i] * (answer[i, q] if table is None else table[answer[i, q]])
        for start in range(offsets[q], offsets[q + 1], BLOCK):
            stop = min(start + BLOCK, offsets[q + 1])
            cost = sums[: stop - start]
            first_term = True
            for i in range(n_models):
                weight, row = w[i], values[i, start:stop]
                if weight == 0:
                    continue
                if first_term:
                    first_term = False
                    for k in range(len(cost)):
                        cost[k] = weight * (row[k] if table is None else table[row[k]])
                else:
                    for k in range(len(cost)):
                        cost[k] += weight * (row[k] if table is None else table[row[k]])
            below, level = np.uint32(0), np.uint32(0)
            for k in range(len(cost)):
                below += np.uint32(cost[k] < limit)
                level += np.uint32(cost[k] == limit)
            ahead[at] += below
            tied[at] += level
