"""Compiled layers of propagation on a CPU; imported when they are first used.

A state is kept in c parts of ``LANES`` numbers, (c, N, LANES), filled up with zeros: a part of all entities fits into a
cache. Entities are taken ``WIDTH`` at a time. The same instructions run for every entity, so no bit depends on how a
call is split.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from relens.compiled import njit
from relens.models.cpu_kernels import WIDTH, add_product

Reals = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int32]

LANES = 32
"""Numbers of a state that are collected at a time: those of a vector register."""
_LANES, _TWO, _THREE = np.uint64(LANES), np.uint64(2 * LANES), np.uint64(3 * LANES)
# Products may be joined with sums. Numbers that are not finite stay so.
_MATH = {"contract"}


@njit(fastmath=_MATH)
def collect(
    state: Reals,
    edge: Reals,
    boundary: Reals,
    anchor: int,
    edges: tuple[Ids, Ids, Ids],
    elements: Reals,
    smallest: float,
    pna: bool,
    first: int,
    out: Reals,
) -> None:
    """Fill ``out`` with statistics of the messages of entities, one per column, from the entity ``first`` on.

    Args:
        state: (c, N, LANES).
        edge: vectors of directed relations, (c, 2R, LANES).
        boundary: the query's vector, (c, LANES), which the anchor collects as well.
        anchor: an entity.
        edges: source (m,) and relation (m,) of edges, by destination, and where each entity's begin, (N + 1,). Those
            that are not among them carry zeros.
        elements: the number of elements that each entity collects, (N,).
        smallest: the smallest variance.
        pna: whether to keep mean, maximum, minimum and deviation, or the sum.
        first: the first entity.
        out: (4·c·LANES, WIDTH), or (c·LANES, WIDTH) for sums.
    """
    source, relation, offset = edges
    n_parts, width = state.shape[0], state.shape[0] * LANES
    size = min(WIDTH, state.shape[1] - first)
    # Sum, maximum, minimum and sum of squares, part by part. The gap spreads columns over all sets of a cache.
    n_kept = 4 * width
    kept = np.zeros((WIDTH, n_kept + LANES), np.float32)
    for at in range(size):
        v, row = first + at, kept[at]
        start, stop = offset[v], offset[v + 1]
        for c in range(n_parts):
            of_state, of_edge = state[c].reshape(-1), edge[c].reshape(-1)
            own = row[c * 4 * LANES : (c + 1) * 4 * LANES]
            if v == anchor:
                for k in range(LANES):
                    own[k] = own[LANES + k] = own[2 * LANES + k] = boundary[c, k]
                    own[3 * LANES + k] = boundary[c, k] * boundary[c, k]
            _add_messages(source[start:stop], relation[start:stop], of_state, of_edge, own)
    n_elements, all_sent = np.ones(WIDTH, np.float32), np.ones(WIDTH, np.bool_)
    for at in range(size):
        n_elements[at] = elements[first + at]
        all_sent[at] = n_elements[at] == offset[first + at + 1] - offset[first + at] + 1
    for i in range(width):
        at_sum = (i // LANES) * 4 * LANES + i % LANES
        if not pna:
            for at in range(WIDTH):
                out[i, at] = kept[at, at_sum]
            continue
        mean, top, bottom, deviation = out[i], out[width + i], out[2 * width + i], out[3 * width + i]
        for at in range(WIDTH):
            mean[at] = kept[at, at_sum] / n_elements[at]
            top[at], bottom[at] = kept[at, at_sum + LANES], kept[at, at_sum + 2 * LANES]
            deviation[at] = kept[at, at_sum + 3 * LANES] / n_elements[at]
        for at in range(WIDTH):
            if not all_sent[at]:
                top[at], bottom[at] = max(top[at], np.float32(0)), min(bottom[at], np.float32(0))
            variance = deviation[at] - mean[at] * mean[at]
            # A variance that is not a number stays so.
            deviation[at] = np.sqrt(np.float32(smallest) if variance < np.float32(smallest) else variance)


@njit(fastmath=_MATH)
def _add_messages(source: Ids, relation: Ids, state: Reals, edge: Reals, kept: Reals) -> None:
    """Add the messages of edges (m,) to the statistics ``kept`` (4·LANES,) of one entity; tables are flat."""
    n = len(source)
    e = 0
    while e + 4 <= n:
        x0, x1, x2, x3 = _row(source, e), _row(source, e + 1), _row(source, e + 2), _row(source, e + 3)
        y0, y1, y2, y3 = _row(relation, e), _row(relation, e + 1), _row(relation, e + 2), _row(relation, e + 3)
        for k in range(_LANES):
            m0, m1 = state[x0 + k] * edge[y0 + k], state[x1 + k] * edge[y1 + k]
            m2, m3 = state[x2 + k] * edge[y2 + k], state[x3 + k] * edge[y3 + k]
            kept[k] += (m0 + m1) + (m2 + m3)
            kept[_LANES + k] = max(kept[_LANES + k], max(max(m0, m1), max(m2, m3)))
            kept[_TWO + k] = min(kept[_TWO + k], min(min(m0, m1), min(m2, m3)))
            kept[_THREE + k] += (m0 * m0 + m1 * m1) + (m2 * m2 + m3 * m3)
        e += 4
    while e < n:
        x0, y0 = _row(source, e), _row(relation, e)
        for k in range(_LANES):
            m = state[x0 + k] * edge[y0 + k]
            kept[k] += m
            kept[_LANES + k] = max(kept[_LANES + k], m)
            kept[_TWO + k] = min(kept[_TWO + k], m)
            kept[_THREE + k] += m * m
        e += 1


@njit()
def _row(ids: Ids, e: int) -> Any:
    """Return where a row begins in a flat table; unsigned numbers need no check of their sign."""
    return np.uint64(ids[e]) * _LANES


@njit(fastmath=_MATH)
def layer(
    state: Reals,
    edge: Reals,
    boundary: Reals,
    anchor: int,
    edges: tuple[Ids, Ids, Ids],
    elements: Reals,
    factors: Reals,
    matrices: tuple[Reals, Reals],
    vectors: Reals,
    sizes: tuple[int, float, float],
    out: Reals,
    begin: int,
    end: int,
) -> None:
    """Fill ``out`` with the new states of entities, from the tile ``begin`` of ``WIDTH`` entities to the tile ``end``.

    Args:
        state, out: (c, N, LANES).
        edge, boundary, anchor, edges, elements: see ``collect``.
        factors: what the statistics are multiplied with, (b, N): b = 3 for four statistics, else 1.
        matrices: of the states, (c·LANES, c·LANES), and of the statistics, (b, c·LANES, s·c·LANES); the result's
            coordinates are their rows.
        vectors: bias, gain and shift, (3, c·LANES).
        sizes: the numbers of a state, d; the smallest variance; and the number that the norm adds to its own.
        begin, end: tiles.
    """
    own, blocks = matrices
    bias, gain, shift = vectors[0], vectors[1], vectors[2]
    d, smallest, epsilon = sizes
    n_numbers, tiny = np.float32(d), np.float32(epsilon)
    n_parts, n_entities = state.shape[0], state.shape[1]
    width = n_parts * LANES
    collected = np.zeros((blocks.shape[2], WIDTH), np.float32)
    before = np.zeros((width, WIDTH), np.float32)
    mixed, product = np.empty((width, WIDTH), np.float32), np.empty((width, WIDTH), np.float32)
    factor = np.zeros(WIDTH, np.float32)
    mean, variance = np.empty(WIDTH, np.float32), np.empty(WIDTH, np.float32)
    for tile in range(begin, end):
        first = tile * WIDTH
        size = min(WIDTH, n_entities - first)
        collect(state, edge, boundary, anchor, edges, elements, smallest, len(blocks) > 1, first, collected)
        for i in range(d):
            row, part = before[i], state[i // LANES]
            for at in range(size):
                row[at] = part[first + at, i % LANES]
        for i in range(width):
            mixed[i] = bias[i]
        add_product(own, before, mixed)
        for b in range(len(blocks)):
            product[:] = 0
            add_product(blocks[b], collected, product)
            for at in range(size):
                factor[at] = factors[b, first + at]
            for i in range(width):
                total, part = mixed[i], product[i]
                for at in range(WIDTH):
                    total[at] += factor[at] * part[at]
        mean[:] = 0
        for i in range(d):
            row = mixed[i]
            for at in range(WIDTH):
                mean[at] += row[at]
        for at in range(WIDTH):
            mean[at] /= n_numbers
        variance[:] = 0
        for i in range(d):
            row = mixed[i]
            for at in range(WIDTH):
                variance[at] += (row[at] - mean[at]) * (row[at] - mean[at])
        for at in range(WIDTH):
            variance[at] = np.float32(1) / np.sqrt(variance[at] / n_numbers + tiny)
        for i in range(d):
            row, old = mixed[i], before[i]
            for at in range(WIDTH):
                value = (row[at] - mean[at]) * variance[at] * gain[i] + shift[i]
                row[at] = old[at] + (np.float32(0) if value < 0 else value)
        for i in range(d):
            row = mixed[i]
            for at in range(size):
                out[i // LANES, first + at, i % LANES] = row[at]


@njit(fastmath=_MATH)
def score(
    states: Reals, matrix: Reals, offset: Reals, last: Reals, bias: float, out: Reals, begin: int, end: int
) -> None:
    """Fill ``out`` (N,) with scores of states (N, d), from one tile of ``WIDTH`` rows to another.

    Args:
        states: (N, d).
        matrix: of the hidden layer, (h, W), filled up with zeros to a multiple of four rows and columns.
        offset: added to its result, (h,).
        last: weights of the hidden numbers, (h,).
        bias: added to the score.
        out: the scores.
        begin, end: tiles.
    """
    n, d = states.shape
    rows = np.zeros((matrix.shape[1], WIDTH), np.float32)
    hidden = np.empty((len(matrix), WIDTH), np.float32)
    total = np.empty(WIDTH, np.float32)
    zero = np.float32(0)
    for tile in range(begin, end):
        first = tile * WIDTH
        size = min(WIDTH, n - first)
        for at in range(size):
            row = states[first + at]
            for k in range(d):
                rows[k, at] = row[k]
        for i in range(len(matrix)):
            hidden[i] = offset[i]
        add_product(matrix, rows, hidden)
        total[:] = bias
        for i in range(len(matrix)):
            row = hidden[i]
            for at in range(WIDTH):
                total[at] += last[i] * max(row[at], zero)
        out[first : first + size] = total[:size]
