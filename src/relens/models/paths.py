"""Paths that carried a score: which edges, one after the other, led from the anchor to the answer.

The message of every edge in every layer gets a factor of 1. The gradient of the score by these factors says how much
each message counted. A beam search finds the paths whose edges counted most.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from relens.models.propagation import Graph, LayerTensors

PATHS_OF_A_NODE = 16
"""Partial paths of one length that a search keeps at each entity."""
PATHS_OF_A_LENGTH = 4096
"""Partial paths of one length that a search keeps in all."""
FACTOR_BYTES = 1 << 30
"""Bytes that the vectors of edges with a factor may take. If they took more, the search looks for shorter paths."""
NONE = -1
"""Fills the rows of paths that are shorter than others."""

Ids = npt.NDArray[np.int64]


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


class EdgeFactors:
    """The edges between an anchor and an answer, each with a factor per layer that messages are multiplied by.

    An edge takes part if it lies on some walk of at most ``longest`` edges. All other edges keep their vectors, so the
    score is that of the whole graph.

    Attributes:
        graph: the graph with a relation id of its own for each of these edges.
        longest: the largest number of edges of a path: the number of layers, or less if memory asks for it.
        to_answer: distance of every entity from the answer, (N,) int64.
    """

    def __init__(self, graph: Graph, anchor: int, answer: int, layers: Sequence[LayerTensors]) -> None:
        self._layers = layers
        from_anchor, to_answer = (_distances(graph, end, len(layers)) for end in (anchor, answer))
        needed = from_anchor[graph.source.long()] + 1 + to_answer[graph.destination.long()]  # (E,)
        # Each layer keeps a vector per edge twice: with its factor, and without it for the gradient.
        most = FACTOR_BYTES // (2 * len(layers) * layers[0].edge[0].nbytes)
        counts = torch.bincount(needed, minlength=len(layers) + 1).cumsum(0)[: len(layers) + 1]
        self.longest = int((counts <= most).sum()) - 1
        self.edges = (needed <= self.longest).nonzero().squeeze(1)  # (m,)
        self.relation = graph.relation[self.edges].long()
        own = torch.arange(len(self.edges), dtype=torch.int32, device=self.edges.device)
        self.graph = graph.relabelled(graph.relation.index_copy(0, self.edges, own + 2 * graph.n_relations))
        self.source, self.destination = (ids[self.edges].cpu().numpy() for ids in (graph.source, graph.destination))
        self.to_answer = to_answer.cpu().numpy()

    def gradients(self, score: Callable[[Sequence[LayerTensors]], Tensor]) -> npt.NDArray[np.float64]:
        """Return the gradient of a score by the factors, (L, m); ``score`` takes layers for ``graph``."""
        with torch.enable_grad():
            ones = [layer.edge.new_ones(len(self.edges), 1, requires_grad=True) for layer in self._layers]
            layers = [self._with_factor(layer, factor) for layer, factor in zip(self._layers, ones, strict=True)]
            found = torch.autograd.grad(score(layers), ones)
        return torch.cat(found, dim=1).T.double().cpu().numpy()

    def _with_factor(self, layer: LayerTensors, factor: Tensor) -> LayerTensors:
        edge = layer.edge.flatten(1)  # of the only query
        return layer._replace(edge=torch.cat([edge, edge[self.relation] * factor]))


def _distances(graph: Graph, start: int, limit: int) -> Tensor:
    """Return how many edges lead from an entity to each one, (N,) int64; limit + 1 stands for more than the limit."""
    distance = torch.full((graph.n_entities,), limit + 1, dtype=torch.int64, device=graph.source.device)
    distance[start] = 0
    for length in range(1, limit + 1):
        reached = graph.destination[distance[graph.source.long()] == length - 1].long()
        distance[reached] = distance[reached].clamp(max=length)
    return distance


class _Paths(NamedTuple):
    """Partial paths: entities (n, K + 1) and edges (n, K), filled up with NONE; lengths and sums of gradients, (n,)."""

    entities: Ids
    edges: Ids
    length: Ids
    total: npt.NDArray[np.float64]

    @property
    def end(self) -> Ids:
        """The last entity of each path, (n,)."""
        last: Ids = self.entities[np.arange(len(self.length)), self.length]
        return last

    def chosen(self, places: npt.NDArray[np.integer]) -> "_Paths":
        """Return some of the paths."""
        return _Paths(*(field[places] for field in self))


def best_paths(factors: EdgeFactors, gradients: npt.NDArray[np.float64], anchor: int, limit: int) -> list[Path]:
    """Return at most ``limit`` paths to the answer that raised its score, most important first.

    A path visits no entity twice. In each layer it takes an edge or stays where it is, which costs nothing. The layers
    of its edges are those with the largest gradients. Its importance is the mean over its edges: the sum would prefer
    detours, because most edges near the answer have a positive gradient.

    Args:
        factors: the edges to look at.
        gradients: of each edge in each layer, (L, m).
        anchor: where paths begin.
        limit: how many paths to return.
    """
    longest, n_layers = factors.longest, len(gradients)
    order = np.argsort(factors.source, kind="stable")
    begins = np.searchsorted(factors.source[order], np.arange(len(factors.to_answer) + 1))
    visited, taken = (np.full((1, width), NONE, dtype=np.int64) for width in (longest + 1, longest))
    visited[0, 0] = anchor
    paths = _Paths(visited, taken, np.zeros(1, dtype=np.int64), np.zeros(1))
    for layer, gradient in enumerate(gradients):
        paths = _prune(_grown(paths, factors, gradient, (order, begins)), factors, n_layers - layer - 1)
    arrived = np.flatnonzero((factors.to_answer[paths.end] == 0) & (paths.length > 0))
    importance = paths.total[arrived] / paths.length[arrived]
    relation = factors.relation.tolist()
    found: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}  # a triple may be given twice, as two edges
    for place in arrived[np.argsort(-importance, kind="stable")].tolist():
        if len(found) == limit or paths.total[place] <= 0:
            break
        entities, edges, length, total = (field[place].tolist() for field in paths)
        found.setdefault((tuple(entities[: length + 1]), tuple(relation[e] for e in edges[:length])), total / length)
    return [Path(*steps, importance) for steps, importance in found.items()]


def _grown(
    paths: _Paths, factors: EdgeFactors, gradient: npt.NDArray[np.float64], by_source: tuple[Ids, Ids]
) -> _Paths:
    """Return the paths, and each of them with each edge that leads on to an entity that it has not visited."""
    order, begins = by_source
    # A path that has reached the answer ends there. It may begin there, where an entity is its own answer.
    growing = np.flatnonzero(
        (paths.length < factors.longest) & ((factors.to_answer[paths.end] > 0) | (paths.length == 0))
    )
    end = paths.end[growing]
    degree = begins[end + 1] - begins[end]
    parent = np.repeat(growing, degree)
    offset = np.arange(len(parent)) - np.repeat(np.cumsum(degree) - degree, degree)
    edge = order[np.repeat(begins[end], degree) + offset]
    to = factors.destination[edge].astype(np.int64)
    fresh = (factors.to_answer[to] == 0) | (paths.entities[parent] != to[:, None]).all(axis=1)
    parent, edge, to = parent[fresh], edge[fresh], to[fresh]
    longer, row = paths.chosen(parent), np.arange(len(parent))
    longer.entities[row, longer.length + 1] = to
    longer.edges[row, longer.length] = edge
    longer = longer._replace(length=longer.length + 1, total=longer.total + gradient[edge])
    return _Paths(*(np.concatenate(both) for both in zip(paths, longer, strict=True)))


def _prune(paths: _Paths, factors: EdgeFactors, layers_left: int) -> _Paths:
    """Keep paths that can still reach the answer, each once, and of these the best per entity and length."""
    edges_left = np.minimum(factors.longest - paths.length, layers_left)
    paths = paths.chosen(np.flatnonzero(factors.to_answer[paths.end] <= edges_left))
    paths = paths.chosen(_first_of_each([*paths.edges.T], paths.total, 1))
    paths = paths.chosen(_first_of_each([paths.end, paths.length], paths.total, PATHS_OF_A_NODE))
    return paths.chosen(_first_of_each([paths.length], paths.total, PATHS_OF_A_LENGTH))


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
