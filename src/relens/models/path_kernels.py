"""Compiled kernels behind ``relens.models.edge_gradients`` and ``relens.models.paths``.

Edges are sorted by destination, as in ``relens.models.propagation.Graph``; the vectors of their relations are (2R, d).
Messages are made one at a time, so that no array has a row per edge and a column per number of a state.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from relens.compiled import njit

Reals = npt.NDArray[np.floating[Any]]
Ids = npt.NDArray[np.integer[Any]]


@njit()
def gather(
    state: Reals, vectors: Reals, boundary: Reals, anchor: int, nodes: Ids, offset: Ids, source: Ids, relation: Ids
) -> tuple[Reals, npt.NDArray[np.int32]]:
    """Reduce the messages to some entities, and the boundary, which is one message more.

    Args:
        state: of every entity, (N, d).
        vectors: of directed relations, (2R, d).
        boundary: what the anchor collects beside its messages, (d,); other entities collect zeros.
        anchor: an entity.
        nodes: the entities that collect, (n,).
        offset: where the in-edges of every entity begin, (N + 1,).
        source, relation: of every edge, (E,).

    Returns:
        Sums, sums of squares, maxima and minima, (4, n, d); the first edge with the maximum and with the minimum,
        (2, n, d), −1 for the boundary alone.
    """
    n, d = len(nodes), state.shape[1]
    kept = np.zeros((4, n, d), state.dtype)
    won = np.full((2, n, d), -1, np.int32)
    total, squares, top, bottom = kept[0], kept[1], kept[2], kept[3]
    first_top, first_bottom = won[0], won[1]
    top[:], bottom[:] = -np.inf, np.inf
    for i in range(n):
        v = nodes[i]
        own = boundary if v == anchor else np.zeros_like(boundary)
        for k in range(d):
            total[i, k], squares[i, k] = own[k], own[k] * own[k]
        for e in range(offset[v], offset[v + 1]):
            u, r = source[e], relation[e]
            for k in range(d):
                message = state[u, k] * vectors[r, k]
                total[i, k] += message
                squares[i, k] += message * message
                if message > top[i, k]:
                    top[i, k], first_top[i, k] = message, e
                if message < bottom[i, k]:
                    bottom[i, k], first_bottom[i, k] = message, e
        for k in range(d):
            if own[k] > top[i, k]:
                top[i, k], first_top[i, k] = own[k], -1
            if own[k] < bottom[i, k]:
                bottom[i, k], first_bottom[i, k] = own[k], -1
    return kept, won


@njit()
def send_back(
    state: Reals, vectors: Reals, of_kept: Reals, won: Ids, edges: tuple[Ids, Ids, Ids, Ids], of_state: Reals
) -> npt.NDArray[np.float64]:
    """Return the gradients by the factors of some edges, (m,); add those by their sources' states to ``of_state``.

    Args:
        state: of every entity, (N, d).
        vectors: of directed relations, (2R, d).
        of_kept: gradients by what ``gather`` returned for n entities, (4, n, d).
        won: the edges that it returned, (2, n, d).
        edges: their places, sources, relations, and the places of their destinations among the n entities, (m,) each.
        of_state: (N, d).
    """
    place, source, relation, row = edges
    d = state.shape[1]
    found = np.zeros(len(place))
    for j in range(len(place)):
        e, u, r, i = place[j], source[j], relation[j], row[j]
        for k in range(d):
            message = state[u, k] * vectors[r, k]
            of_message = of_kept[0, i, k] + 2 * of_kept[1, i, k] * message
            if won[0, i, k] == e:
                of_message += of_kept[2, i, k]
            if won[1, i, k] == e:
                of_message += of_kept[3, i, k]
            of_state[u, k] += of_message * vectors[r, k]
            found[j] += of_message * message
    return found


@njit()
def best_steps(
    visited: Ids, total: Reals, destination: Ids, begins: Ids, gradient: Reals, answer: int, count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Choose the paths to prolong, and the edges to do it with: those with the largest totals, per entity they lead to.

    Args:
        visited: entities along each path, (n, K + 1): the next one is another, or the answer.
        total: sums of gradients of each path, (n,).
        destination: of edges sorted by source, (s,).
        begins: where the out-edges of every entity begin, (N + 1,).
        gradient: of the edges, (s,).
        answer: an entity.
        count: how many to choose per entity.

    Returns:
        The places of the paths and of the edges, of the same length.
    """
    n_entities = len(begins) - 1
    # Rows of entities that no path comes to are never touched, and take no memory.
    totals = np.empty((n_entities, count))
    paths, edges = np.empty((n_entities, count), np.int64), np.empty((n_entities, count), np.int64)
    filled, lowest = np.zeros(n_entities, np.int64), np.zeros(n_entities, np.int64)
    for p in range(len(visited)):
        u = visited[p, -1]
        for e in range(begins[u], begins[u + 1]):
            v, longer = destination[e], total[p] + gradient[e]
            if filled[v] == count and longer <= totals[v, lowest[v]]:
                continue
            if v != answer and (visited[p] == v).any():
                continue
            place = lowest[v]
            if filled[v] < count:
                place = filled[v]
                filled[v] += 1
            totals[v, place], paths[v, place], edges[v, place] = longer, p, e
            if filled[v] == count:
                lowest[v] = np.argmin(totals[v])
    path, edge = np.empty(filled.sum(), np.int64), np.empty(filled.sum(), np.int64)
    n = 0
    for v in range(n_entities):
        for place in range(filled[v]):
            path[n], edge[n] = paths[v, place], edges[v, place]
            n += 1
    return path, edge
