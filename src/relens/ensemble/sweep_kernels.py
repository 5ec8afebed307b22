"""The sweep: the exact maximum of a group's MRR along a line of weights, and an ascent over such lines.

A line leads from one weight vector to another: (1 − λ)·near + λ·far for λ from 0 to 1. On the line of one model, the
others keep their ratios, and its weight runs from nothing to everything. On the line of two models, one gives its
weight to the other, and the rest stay. A pair's total advantage is (1 − λ)·a + λ·b, where a and b are those at both
ends. It changes sign at most once, at λ = a/(a − b). Between such breakpoints no rank changes, so a walk over them in
order sees every value of the MRR on the line. (At a breakpoint itself pairs are level and count half, which never beats
both neighbouring intervals.)

Sorting all breakpoints would cost more than everything else. They are dealt into buckets instead. Within a bucket,
breakpoints that help an answer are applied before those that hurt one: the sum in between is an upper bound of every
value inside the bucket. Only buckets whose bound reaches the best known value are sorted and walked, so the maximum is
still exact.

Equal fractions give equal floats, so equal breakpoints compare equal. No weight of the grid lies between different
breakpoints with equal floats.
"""

import numpy as np

from relens.compiled import njit
from relens.ensemble.grid import WEIGHT_LIMIT

ROUNDING = 1e-12
"""Differences of a sum of reciprocal ranks up to this are rounding noise."""
PAIRS_PER_BUCKET = 8
BUCKET_LIMIT = 1 << 13
INTERVALS = 16
"""Intervals of a line that are tried, from the best on: some are too narrow for the grid to have a point in them."""


@njit()
def total_advantage(advantage, weights, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (K,) with the weighted sum over models of ``advantage`` (N, K); exact: integers below 2**53."""
    first = True
    for i in range(len(weights)):
        if weights[i] == 0:
            continue
        w, row = np.float64(weights[i]), advantage[i]
        if first:
            for k in range(len(out)):
                out[k] = w * row[k]
            first = False
        else:
            for k in range(len(out)):
                out[k] += w * row[k]
    if first:
        out[:] = 0.0


@njit()
def doubled_ranks(total, offsets, floor, multiplicity, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (n,) with the answers' doubled mean ranks given the pairs' ``total`` advantage (K,)."""
    for q in range(len(floor)):
        mine, times = total[offsets[q] : offsets[q + 1]], multiplicity[offsets[q] : offsets[q + 1]]
        added = np.int32(0)
        for k in range(len(mine)):
            added += times[k] * (np.int32(mine[k] > 0) * np.int32(2) + np.int32(mine[k] == 0))
        out[q] = floor[q] + added


@njit()
def reciprocal_sum(doubled):  # type: ignore[no-untyped-def]
    """Return the sum of reciprocal ranks of doubled ranks (n,)."""
    total = 0.0
    for q in range(len(doubled)):
        total += 2.0 / doubled[q]
    return total


@njit(error_model="numpy")
def breakpoints(near, far, offsets, floor, multiplicity, at_zero, inside, position, query, change):  # type: ignore[no-untyped-def]
    """List the points where pairs change sides on the line between two weight vectors.

    Args:
        near: advantage of each pair at the weights where the line begins, (K,).
        far: advantage at the weights where it ends, (K,).
        offsets: pairs of query q are ``offsets[q]:offsets[q + 1]``.
        floor: doubled rank of each answer with no contested candidate ahead, (n,).
        multiplicity: candidates a pair stands for, (K,).
        at_zero: out, doubled rank of each answer at λ = 0, (n,).
        inside: out, doubled rank of each answer just above 0, (n,).
        position: out, λ of each breakpoint, (K,), the first entries used.
        query: out, the query each breakpoint belongs to.
        change: out, what each adds to the doubled rank; negative where it helps the answer.

    Returns:
        The number of breakpoints.
    """
    # Signs are almost random here, so there are no branches. Divisions are expensive and most pairs need none, so there
    # are three loops: count ranks, list the pairs that change sides (in ``change``, for now), compute where they do.
    n = 0
    for q in range(len(floor)):
        begin, end = offsets[q], offsets[q + 1]
        first, last, times = near[begin:end], far[begin:end], multiplicity[begin:end]
        zero, above = np.int32(0), np.int32(0)
        for k in range(len(first)):
            a, b = first[k], last[k]
            ahead, level = np.int32(a > 0), np.int32(a == 0)
            zero += times[k] * (2 * ahead + level)
            above += times[k] * (2 * (ahead | (level & np.int32(b > 0))) + (level & np.int32(b == 0)))
        at_zero[q], inside[q] = floor[q] + zero, floor[q] + above
        for k in range(len(first)):
            query[n], change[n] = q, begin + k
            n += first[k] * last[k] < 0
    for e in range(n):
        k = change[e]
        a, b = abs(near[k]), abs(far[k])
        position[e] = a / (a + b)
        change[e] = multiplicity[k] * (4 * np.int32(far[k] > 0) - 2)
    return n


@njit()
def deal(n, position, query, change, starts, order_position, order_query, order_change):  # type: ignore[no-untyped-def]
    """Deal ``n`` breakpoints into buckets of equal width, in each bucket those that help before those that hurt.

    ``starts`` (2·buckets + 1,) receives where each half-bucket begins.
    """
    n_buckets = (len(starts) - 1) // 2
    starts[:] = 0
    for e in range(n):
        starts[_half_bucket(position[e], change[e], n_buckets) + 1] += 1
    for h in range(len(starts) - 1):
        starts[h + 1] += starts[h]
    for e in range(n):
        half = _half_bucket(position[e], change[e], n_buckets)
        to = starts[half]
        starts[half] += 1
        order_position[to], order_query[to], order_change[to] = position[e], query[e], change[e]
    for h in range(len(starts) - 1, 0, -1):
        starts[h] = starts[h - 1]
    starts[0] = 0


@njit()
def _half_bucket(position, change, n_buckets):  # type: ignore[no-untyped-def]
    """Return the half-bucket of a breakpoint; a position may round up to 1."""
    bucket = np.int64(position * n_buckets)
    return 2 * (bucket - (bucket == n_buckets)) + (change > 0)


@njit()
def apply_changes(first, last, query, change, rank):  # type: ignore[no-untyped-def]
    """Apply the breakpoints ``first`` to ``last`` to the doubled ranks; return the change of the reciprocal sum."""
    gain = 0.0
    for e in range(first, last):
        q = query[e]
        old = rank[q]
        rank[q] = old + change[e]
        gain += 2.0 / rank[q] - 2.0 / old
    return gain


@njit()
def walk(value, starts, position, query, change, rank, best, after):  # type: ignore[no-untyped-def]
    """Walk over all breakpoints, sorting only the buckets that may hold a value of at least ``best``.

    Intervals are ordered by value, the best first, then by width, the widest first, then by position.

    Args:
        value: reciprocal sum just above λ = 0.
        starts: half-buckets as ``deal`` left them; ``position``, ``query``, ``change`` likewise.
        rank: doubled ranks just above λ = 0, (n,); is changed.
        best: least reciprocal sum of interest.
        after: (value, left, right); intervals up to this one in the order are passed over.

    Returns:
        The best value found and the ends (λ, λ) of the widest interval that has it; an empty interval if none does.
    """
    left, best_left, best_right = 0.0, 0.0, 0.0
    for bucket in range((len(starts) - 1) // 2):
        first, middle, last = starts[2 * bucket], starts[2 * bucket + 1], starts[2 * bucket + 2]
        if first == last:
            continue
        helped = apply_changes(first, middle, query, change, rank)
        bound = value + helped
        if bound >= best - ROUNDING:
            # Undo the helping half, and walk the bucket in the true order.
            for e in range(first, middle):
                rank[query[e]] -= change[e]
            order = first + np.argsort(position[first:last], kind="mergesort")
            for at in order:
                here = position[at]
                if here > left:
                    if _comes_after(after, value, left, here) and (
                        value > best + ROUNDING or (value >= best - ROUNDING and here - left > best_right - best_left)
                    ):
                        best, best_left, best_right = value, left, here
                    left = here
                q = query[at]
                old = rank[q]
                rank[q] = old + change[at]
                value += 2.0 / rank[q] - 2.0 / old
        else:
            # No interval that ends or begins here is better than the bound, so its position does not matter.
            value = bound + apply_changes(middle, last, query, change, rank)
    if _comes_after(after, value, left, 1.0) and (
        value > best + ROUNDING or (value >= best - ROUNDING and 1.0 - left > best_right - best_left)
    ):
        best, best_left, best_right = value, left, 1.0
    return best, best_left, best_right


@njit()
def _comes_after(interval, value, left, right):  # type: ignore[no-untyped-def]
    """Tell whether an interval comes later in the order of ``walk`` than ``interval``: (value, left, right)."""
    if abs(value - interval[0]) > ROUNDING:
        return value < interval[0]
    width, other = right - left, interval[2] - interval[1]
    return width < other or (width == other and left > interval[1])


@njit()
def move(weights, model, share):  # type: ignore[no-untyped-def]
    """Return grid weights (N,) whose ``model`` has ``share`` (0 … 1) of the sum and whose others keep their ratios."""
    moved = weights.copy()
    moved[model] = 0
    if share <= 0.0:
        return moved
    others = np.float64(moved.sum())
    wanted = moved.astype(np.float64)
    if share >= 1.0 or others == 0.0:
        wanted[:] = 0.0
        wanted[model] = 1.0
    else:
        wanted[model] = others * (share / (1.0 - share))
    return _on_grid(wanted)


@njit()
def exchange(weights, giver, taker, share):  # type: ignore[no-untyped-def]
    """Return grid weights (N,) where ``taker`` has ``share`` (0 … 1) of the weight of two models; the others stay."""
    wanted = weights.astype(np.float64)
    both = wanted[giver] + wanted[taker]
    wanted[giver], wanted[taker] = both * (1.0 - share), both * share
    return _on_grid(wanted)


@njit()
def _on_grid(wanted):  # type: ignore[no-untyped-def]
    """Round weights (N,) to the grid: times a whole number where there is room, so that whole ratios stay exact."""
    largest = wanted.max()
    factor = np.floor(WEIGHT_LIMIT / largest) if largest <= WEIGHT_LIMIT else WEIGHT_LIMIT / largest
    grid = np.empty(len(wanted), np.int64)
    for i in range(len(wanted)):
        grid[i] = np.int64(round(wanted[i] * factor))
    return grid


@njit()
def values_at(advantage, offsets, floor, multiplicity, table):  # type: ignore[no-untyped-def]
    """Return the reciprocal sum at each of the grid weights ``table`` (M, N), (M,); see ``ascend``."""
    total, rank, values = np.empty(advantage.shape[1]), np.empty(len(floor), np.int64), np.empty(len(table))
    for m in range(len(table)):
        total_advantage(advantage, table[m], total)
        doubled_ranks(total, offsets, floor, multiplicity, rank)
        values[m] = reciprocal_sum(rank)
    return values


@njit()
def values_without(advantage, offsets, floor, multiplicity, weights, models):  # type: ignore[no-untyped-def]
    """Return the reciprocal sum at grid ``weights`` (N,) when one of ``models`` (M,) has none, (M,); see ``ascend``."""
    total, rest = np.empty(advantage.shape[1]), np.empty(advantage.shape[1])
    rank, values = np.empty(len(floor), np.int64), np.empty(len(models))
    total_advantage(advantage, weights, total)
    for m in range(len(models)):
        w, row = np.float64(weights[models[m]]), advantage[models[m]]
        for k in range(len(rest)):
            rest[k] = total[k] - w * row[k]
        doubled_ranks(rest, offsets, floor, multiplicity, rank)
        values[m] = reciprocal_sum(rank)
    return values


@njit()
def ascend(advantage, offsets, floor, multiplicity, start, least_gain, max_rounds):  # type: ignore[no-untyped-def]
    """Sweep the line of each model in turn. Where a round gains nothing, sweep the lines of two models, too.

    The ascent ends where no line gains anything.

    Args:
        advantage: (N, K) int32; with ``offsets`` (n + 1,), ``floor`` (n,) and ``multiplicity`` (K,), see ``Pairs``.
        offsets: see ``Pairs``.
        floor: see ``Pairs``.
        multiplicity: see ``Pairs``.
        start: grid weights, (N,) int64.
        least_gain: smallest gain in summed reciprocal rank worth a step.
        max_rounds: most rounds over all lines.

    Returns:
        weights (N,) int64; their reciprocal sum; a trace of shape (steps, 2): lines swept so far, reciprocal sum.
    """
    n_models, n_pairs = advantage.shape
    n_queries = len(floor)
    weights = start.copy()
    total, trial, far = np.empty(n_pairs), np.empty(n_pairs), np.empty(n_pairs)
    at_zero, inside, rank = np.empty(n_queries, np.int64), np.empty(n_queries, np.int64), np.empty(n_queries, np.int64)
    position, order_position = np.empty(n_pairs), np.empty(n_pairs)
    query, order_query = np.empty(n_pairs, np.int32), np.empty(n_pairs, np.int32)
    change, order_change = np.empty(n_pairs, np.int32), np.empty(n_pairs, np.int32)
    # With two models alone, the line of both is that of either.
    couples = [(i, j) for i in range(n_models) for j in range(i) if n_models > 2]
    n_lines = n_models + len(couples)

    total_advantage(advantage, weights, total)
    doubled_ranks(total, offsets, floor, multiplicity, inside)
    value = reciprocal_sum(inside)
    steps = [(0.0, value)]
    lines = since_gain = single = double = 0
    while since_gain < n_lines and lines < max_rounds * n_lines:
        alone = since_gain < n_models
        giver, taker = -1, single
        if alone:
            single = (single + 1) % n_models
        else:
            giver, taker = couples[double]
            double = (double + 1) % len(couples)
        lines += 1
        since_gain += 1
        if alone:
            scale = np.float64(weights.sum() - weights[taker])
            if scale == 0.0:
                continue
            w, row = np.float64(weights[taker]), advantage[taker]
            for k in range(n_pairs):
                trial[k] = total[k] - w * row[k]
                far[k] = scale * row[k]
        else:
            v, w = np.float64(weights[giver]), np.float64(weights[taker])
            if v + w == 0.0:
                continue
            gives, takes = advantage[giver], advantage[taker]
            for k in range(n_pairs):
                difference = np.float64(takes[k]) - np.float64(gives[k])
                trial[k] = total[k] - w * difference
                far[k] = total[k] + v * difference
        n = breakpoints(trial, far, offsets, floor, multiplicity, at_zero, inside, position, query, change)
        n_buckets = max(1, min(BUCKET_LIMIT, n // PAIRS_PER_BUCKET))
        starts = np.empty(2 * n_buckets + 1, np.int64)
        deal(n, position, query, change, starts, order_position, order_query, order_change)
        value_zero, value_inside, wanted = reciprocal_sum(at_zero), reciprocal_sum(inside), value + least_gain
        after = (np.inf, 0.0, 0.0)
        for _ in range(INTERVALS):
            rank[:] = inside
            best, left, right = walk(
                value_inside, starts, order_position, order_query, order_change, rank, wanted, after
            )
            if left == right and value_zero <= best:
                break
            share = 0.0 if value_zero > best else 0.5 * (left + right)
            moved = move(weights, taker, share) if alone else exchange(weights, giver, taker, share)
            total_advantage(advantage, moved, trial)
            doubled_ranks(trial, offsets, floor, multiplicity, rank)
            reached = reciprocal_sum(rank)
            if reached >= wanted:
                weights, value = moved, reached
                total, trial = trial, total
                steps.append((np.float64(lines), value))
                since_gain = 0
                break
            after = (best, left, right)
    steps.append((np.float64(lines), value))
    trace = np.empty((len(steps), 2))
    for s in range(len(steps)):
        trace[s, 0], trace[s, 1] = steps[s]
    return weights, value, trace
