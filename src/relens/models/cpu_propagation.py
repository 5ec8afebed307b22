"""Propagation on a CPU without gradients: one query after another, so that its scores have the same bits in every call.

Messages are never stored: a pass over the edges collects the statistics of an entity and mixes its new state.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from relens.models import cpu

if TYPE_CHECKING:
    from relens.models.propagation import Graph, LayerTensors, Removal

Reals = npt.NDArray[np.float32]
NORM_EPSILON = 1e-5
"""PyTorch's default of layer norms."""


def usable(query: Tensor) -> bool:
    """Say whether queries can be propagated here; see ``cpu.usable``."""
    return cpu.usable(query)


def propagate(
    query: Tensor,
    anchor: Tensor,
    layers: "Sequence[LayerTensors]",
    graph: "Graph",
    removal: "Removal",
    limits: tuple[float, float],
) -> Tensor:
    """Return the states after all layers, (N, B, d), for queries with vectors (B, d) at anchors (B,).

    ``limits`` are the smallest variance and the smallest scale.
    """
    edges = _edges(graph, removal)
    elements, scale = cpu.array(removal.elements), cpu.array(removal.scale)
    factors = np.stack([np.ones_like(scale), scale, 1 / np.maximum(scale, np.float32(limits[1]))])
    places = edges, elements, factors
    states = np.empty((len(query), graph.n_entities, query.shape[1]), np.float32)
    for b in range(len(query)):
        own = [layer._replace(edge=layer.edge[:, b] if layer.edge.dim() == 3 else layer.edge) for layer in layers]
        states[b] = _alone(query[b], int(anchor[b]), own, places, limits[0])
    return torch.from_numpy(states).transpose(0, 1)


def hidden_scores(states: Tensor, of_state: Tensor, offset: Tensor, last: Tensor, bias: Tensor) -> Tensor:
    """Return the scores (B, N) of states (N, B, d) by a network with one hidden layer.

    Args:
        states: of candidates for each query.
        of_state: (h, d).
        offset: added to the hidden layer, by query, (B, h).
        last: weights of the hidden numbers, (h,).
        bias: added to every score, (1,).
    """
    from relens.models import cpu_kernels
    from relens.models import cpu_propagation_kernels as kernels

    of_queries = cpu.array(states.transpose(0, 1))
    rows, offsets = (_filled(cpu.array(part), cpu_kernels.STEP) for part in (of_state, offset.T))
    matrix, weights = _filled(rows.T, cpu_kernels.STEP).T, _filled(cpu.array(last), cpu_kernels.STEP)
    matrix, offsets = np.ascontiguousarray(matrix), np.ascontiguousarray(offsets.T)
    out = np.empty(of_queries.shape[:2], np.float32)
    for b in range(len(out)):
        work = partial(kernels.score, of_queries[b], matrix, offsets[b], weights, float(bias), out[b])
        cpu.in_parts(work, _tiles(out.shape[1]), matrix.size * out.shape[1])
    return torch.from_numpy(out)


def _alone(
    query: Tensor, anchor: int, layers: "Sequence[LayerTensors]", places: tuple[Any, Any, Any], smallest: float
) -> Reals:
    """Return the states of all entities after all layers for one query (d,), (N, d).

    ``places`` are edges, numbers of elements, and factors of the statistics; see ``cpu_propagation_kernels.layer``.
    """
    from relens.models import cpu_propagation_kernels as kernels

    edges, elements, factors = places
    n, d = len(elements), len(query)
    boundary = _parts(cpu.array(query)[None], kernels.LANES)[:, 0]
    state = np.zeros((len(boundary), n, kernels.LANES), np.float32)
    state[:, anchor] = boundary
    for index, layer in enumerate(layers):
        vectors = _parts(cpu.array(layer.edge), kernels.LANES)
        matrices = _matrices(layer, state.shape[0] * kernels.LANES)
        of_norm = np.stack([_filled(cpu.array(part), kernels.LANES) for part in layer[2:]])
        # Only the anchor sends anything but zeros in the first layer.
        own = edges if index else _sent_by(edges, anchor)
        factor = factors if layer.pna else np.ones_like(factors[:1])
        columns = boundary, anchor, own, elements, factor, matrices, of_norm, (d, smallest, NORM_EPSILON)
        out = np.zeros_like(state)
        cost = len(own[0]) * d + n * (matrices[0].size + matrices[1].size)
        cpu.in_parts(partial(kernels.layer, state, vectors, *columns, out), _tiles(n), cost)
        state = out
    return state.transpose(1, 0, 2).reshape(n, -1)[:, :d]


def _edges(graph: "Graph", removal: "Removal") -> tuple[Any, Any, Any]:
    """Return sources and relations of the edges that are kept, and where those of each entity begin."""
    if bool(removal.keep.all()):
        return cpu.array(graph.source), cpu.array(graph.relation), cpu.array(graph.offset)
    kept = np.flatnonzero(cpu.array(removal.keep))
    offset = np.searchsorted(kept, cpu.array(graph.offset)).astype(np.int32)
    return cpu.array(graph.source)[kept], cpu.array(graph.relation)[kept], offset


def _sent_by(edges: tuple[Any, Any, Any], anchor: int) -> tuple[Any, Any, Any]:
    """Return the edges out of one entity only."""
    source, relation, offset = edges
    kept = np.flatnonzero(source == anchor)
    return source[kept], relation[kept], np.searchsorted(kept, offset).astype(np.int32)


def _matrices(layer: "LayerTensors", width: int) -> tuple[Reals, Reals]:
    """Return the matrices of a layer as the kernel reads them: of the states, (W, W), and of the statistics."""
    weight = cpu.array(layer.weight)
    d = weight.shape[1]
    n_blocks, n_statistics = (3, 4) if layer.pna else (1, 1)
    own, blocks = np.zeros((width, width), np.float32), np.zeros((n_blocks, width, n_statistics, width), np.float32)
    own[:d, :d] = weight[:d].T
    blocks[:, :d, :, :d] = weight[d:].reshape(n_blocks, n_statistics, d, d).transpose(0, 3, 1, 2)
    return own, blocks.reshape(n_blocks, width, -1)


def _parts(rows: Reals, lanes: int) -> Reals:
    """Return rows (n, d) in parts, (c, n, lanes), filled up with zeros."""
    filled = _filled(rows.T, lanes).T
    return np.ascontiguousarray(filled.reshape(len(rows), -1, lanes).transpose(1, 0, 2))


def _filled(rows: Reals, multiple: int) -> Reals:
    """Fill rows up with zeros to a multiple of a number."""
    return np.pad(rows, [(0, -len(rows) % multiple), *[(0, 0)] * (rows.ndim - 1)])


def _tiles(n: int) -> int:
    """Return how many tiles n entities fill."""
    from relens.models import cpu_kernels

    return -(-n // cpu_kernels.WIDTH)
