"""Paths that carried a score: which edges, one after the other, led from the anchor to the answer.

The message of every edge in every layer gets a factor of 1. The gradient of the score by these factors says how much
each message counted (``relens.models.edge_gradients``). A beam search finds the paths whose edges counted most.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from relens.models.edge_gradients import Walks
from relens.models.path_kernels import best_steps

PATHS_OF_A_NODE = 16
"""Partial paths of one length that a search keeps at each entity."""
PATHS_OF_A_LENGTH = 4096
"""Partial paths of one length that a search keeps in all."""

Ids = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


class Path(NamedTuple):
    """A path from the anchor of a query to an answer.

    Attributes:
        entities: ids along the path, anchor first, answer last.
        relations: directed ids of the edges in between: r along the fact, r + R against it.
        importance: the mean gradient of the score by the factors of its edges, at the best layers.
    """

    entities: tuple[int, ...]
    relations: tuple[int, ...]
    importance: float


class _Paths(NamedTuple):
    """Partial paths of K edges: entities (n, K + 1), edges as places among those of the walks (n, K).

    ``total`` (n,) is the sum of their gradients.
    """

    entities: Ids
    edges: Ids
    total: Reals

    def chosen(self, places: npt.NDArray[np.integer]) -> "_Paths":
        """Return some of the paths."""
        return _Paths(*(field[places] for field in self))


def best_paths(walks: Walks, gradients: Reals, limit: int) -> list[Path]:
    """Return at most ``limit`` paths to the answer that raised its score, most important first.

    A path visits no entity twice. In each layer it takes an edge or stays where it is, which costs nothing. The layers
    of its edges are those with the largest gradients. Its importance is the mean over its edges: the sum would prefer
    detours, because most edges near the answer have a positive gradient.

    Args:
        walks: the edges to look at.
        gradients: of each edge in each layer, (L, m).
        limit: how many paths to return.
    """
    relation = walks.relation.tolist()
    arrived = [
        (total / length, entities, edges)
        for length, paths in enumerate(_partial_paths(walks, gradients))
        if length > 0
        for entities, edges, total in zip(*(field.tolist() for field in paths), strict=True)
        if total > 0
    ]
    found: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}  # a triple may be given twice, as two edges
    for importance, entities, edges in sorted(arrived, key=lambda path: -path[0]):
        if len(found) == limit:
            break
        found.setdefault((tuple(entities), tuple(relation[edge] for edge in edges)), importance)
    return [Path(*steps, importance) for steps, importance in found.items()]


def _partial_paths(walks: Walks, gradients: Reals) -> list[_Paths]:
    """Return the paths of each length, 0 to L, that are at the answer after the last layer."""
    order = np.argsort(walks.source, kind="stable")
    begins = np.searchsorted(walks.source[order], np.arange(len(walks.to_answer) + 1))
    paths = [_empty_paths(length, 0) for length in range(len(gradients) + 1)]
    paths[0] = _empty_paths(0, 1)
    paths[0].entities[:] = walks.anchor
    for layer, gradient in enumerate(gradients):
        passable = walks.passable[layer, order]
        edges = order[passable]
        steps = _Steps(edges, walks.destination[edges], np.append(0, passable.cumsum())[begins], gradient[edges])
        nearest = walks.to_answer < len(gradients) - layer
        for length in range(layer + 1, 0, -1):  # the longest first: a path takes one edge in a layer
            grown = _grown(paths[length - 1], walks, steps)
            both = _Paths(*(np.concatenate(fields) for fields in zip(paths[length], grown, strict=True)))
            paths[length] = _pruned(both, nearest)
        paths[0] = paths[0].chosen(np.flatnonzero(nearest[paths[0].entities[:, -1]]))
    return paths


def _empty_paths(length: int, n: int) -> _Paths:
    """Return n paths of a length, filled with zeros."""
    entities, edges = (np.zeros((n, width), dtype=np.int64) for width in (length + 1, length))
    return _Paths(entities, edges, np.zeros(n))


class _Steps(NamedTuple):
    """The edges that are passable in a layer, sorted by source: their places among those of the walks (s,).

    ``begins`` (N + 1,) says where those of every entity begin. Destinations and gradients in this layer are (s,).
    """

    edge: Ids
    destination: npt.NDArray[np.int32]
    begins: Ids
    gradient: Reals


def _grown(paths: _Paths, walks: Walks, steps: _Steps) -> _Paths:
    """Return paths with one more edge that leads on to an entity that they have not visited: all that can be kept."""
    if paths.edges.shape[1]:  # a path that has reached the answer ends there, but may begin there
        paths = paths.chosen(np.flatnonzero(walks.to_answer[paths.entities[:, -1]]))
    path, step = best_steps(paths.entities, paths.total, *steps[1:], walks.answer, PATHS_OF_A_NODE)
    total = paths.total[path] + steps.gradient[step]
    # Paths that are there already can take the places of as many as are kept, not of more.
    best = np.sort(np.argsort(-total, kind="stable")[: 2 * PATHS_OF_A_LENGTH])
    path, step = path[best], step[best]
    return _Paths(
        np.column_stack([paths.entities[path], steps.destination[step]]),
        np.column_stack([paths.edges[path], steps.edge[step]]),
        total[best],
    )


def _pruned(paths: _Paths, nearest: npt.NDArray[np.bool_]) -> _Paths:
    """Keep paths that end at a ``nearest`` entity, each once, and of these the best per entity, and in all."""
    paths = paths.chosen(np.flatnonzero(nearest[paths.entities[:, -1]]))
    paths = paths.chosen(_first_of_each([*paths.edges.T], paths.total, 1))
    paths = paths.chosen(_first_of_each([paths.entities[:, -1]], paths.total, PATHS_OF_A_NODE))
    return paths.chosen(_first_of_each([], paths.total, PATHS_OF_A_LENGTH))


def _first_of_each(keys: Sequence[Ids], total: npt.NDArray[np.float64], count: int) -> Ids:
    """Return the places of the ``count`` largest totals (n,) in each group of equal keys, (n,) each."""
    order = np.lexsort((-total, *keys))
    differs = np.zeros(len(order), dtype=bool)
    differs[:1] = True
    for key in keys:
        differs[1:] |= key[order[1:]] != key[order[:-1]]
    begins = np.flatnonzero(differs)
    within = np.arange(len(order)) - begins[np.cumsum(differs) - 1]
    kept: Ids = order[within < count]
    return kept
