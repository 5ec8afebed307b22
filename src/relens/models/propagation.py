"""Propagation along the edges of a graph, from a query's anchor to every entity, layer by layer.

A state is a row of d numbers per entity and query. In a layer every entity collects messages along its in-edges, each
the sender's state times the vector of the edge's relation, adds the boundary (the query's vector where it is the
anchor, zeros elsewhere), and mixes statistics of that multiset with its own state. On CUDA this runs in the kernels of
``relens.models.fused``, and without gradients on a CPU in those of ``relens.models.cpu_propagation``. Elsewhere it
runs in plain PyTorch, which materialises messages for some queries at a time.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from relens.data.queries import directed_key
from relens.models import cpu_propagation
from relens.models import fused as fused_operations

Aggregate = Literal["pna", "sum"]
"""Statistics of an entity's messages: mean, maximum, minimum and deviation, scaled by degree; or their sum."""

SEGMENT = 128
"""Most in-edges that one program of a kernel takes, so that the others do not wait for a hub."""
SMALLEST_VARIANCE, SMALLEST_SCALE = 1e-6, 0.01
KERNEL_WIDTHS = (16, 32, 64)
"""Numbers per state for which there are kernels: tensor cores need 16, and registers hold no more than 64."""
MESSAGES = 1 << 22
"""Numbers in the messages that plain PyTorch makes at a time: 16 MB, which partly fit into a cache."""
KEPT = 1 << 29
"""Most numbers that plain PyTorch keeps for gradients; beyond that, it computes them twice."""
KEPT_PER_STATE = 24
"""Numbers that a layer keeps for each number of a state, about."""
KEPT_SHARE = 0.4
"""Largest share of a GPU's memory that the kernels keep for gradients; beyond that, they gather statistics twice."""
KEPT_BY_KERNELS = {True: 7, False: 2}
"""Numbers that the kernels keep per layer for each number of a state: with ``pna`` (True), or with sums."""


class Removal(NamedTuple):
    """The edges of a graph that are kept, with the sizes that follow from them.

    Attributes:
        keep: 1 for edges that are kept, else 0, (E,) bytes.
        elements: the number of elements that each entity collects: its in-edges and the boundary, (N,).
        scale: logarithms of these numbers, divided by their mean over all entities, (N,).
    """

    keep: Tensor
    elements: Tensor
    scale: Tensor


class Graph(nn.Module):
    """Triples as edges in both directions, sorted by destination, then relation, then source; all ids are int32.

    Attributes:
        source, relation, destination: of every edge, (E,), E = 2n; relations are directed.
        triple: the triple an edge comes from, (E,): an edge and its inverse have the same.
        pair: the two entities an edge is between, regardless of direction, as an id, (E,).
        key: destination and relation of every edge as one number, sorted, (E,) int64.
        offset: where every entity's in-edges begin, (N + 1,).
        segment_node, segment_start, segment_stop: in-edges of one entity, at most ``SEGMENT``, (S,).
        segment_part: a number where an entity has several segments, −1 where it has one, (S,).
        hub_node, hub_start, hub_stop: entities with several segments, and the numbers of these, (H,).
    """

    source: Tensor
    relation: Tensor
    destination: Tensor
    triple: Tensor
    pair: Tensor
    key: Tensor
    offset: Tensor
    segment_node: Tensor
    segment_start: Tensor
    segment_stop: Tensor
    segment_part: Tensor
    hub_node: Tensor
    hub_start: Tensor
    hub_stop: Tensor

    def __init__(self, triples: Tensor, n_entities: int, n_relations: int) -> None:
        super().__init__()
        self.n_entities, self.n_relations = n_entities, n_relations
        head, relation, tail = triples.long().T
        source, destination = torch.cat([head, tail]), torch.cat([tail, head])
        relation = torch.cat([relation, relation + n_relations])
        # Two keys, one after the other: their product may be larger than an int64 holds.
        order = (relation * n_entities + source).argsort(stable=True)
        order = order[destination[order].argsort(stable=True)]
        low, high = torch.minimum(head, tail), torch.maximum(head, tail)
        pair = torch.unique(low * n_entities + high, return_inverse=True)[1]
        self._keep_ids("source", source[order])
        self._keep_ids("relation", relation[order])
        self._keep_ids("destination", destination[order])
        self._keep_ids("triple", torch.arange(len(head), device=head.device).repeat(2)[order])
        self._keep_ids("pair", pair.repeat(2)[order])
        self.n_triples, self.n_pairs = len(head), int(pair.max()) + 1 if len(pair) else 0
        key = directed_key(destination[order], relation[order], n_relations)
        self.register_buffer("key", key, persistent=False)
        counts = torch.unique_consecutive(key, return_counts=True)[1]
        self.most_answers = int(counts.max()) if len(counts) else 1
        self._cut(torch.bincount(destination, minlength=n_entities))

    def _keep_ids(self, name: str, ids: Tensor) -> None:
        # Not persistent: the triples belong to the data set, not to the parameters.
        self.register_buffer(name, ids.to(torch.int32), persistent=False)

    def _cut(self, degree: Tensor) -> None:
        """Cut the in-edges of every entity into segments; ``degree`` is (N,). Entities without edges have one, too."""
        ends = degree.cumsum(0)
        self._keep_ids("offset", torch.cat([ends.new_zeros(1), ends]))
        n_segments = ((degree + SEGMENT - 1) // SEGMENT).clamp(min=1)
        node = torch.repeat_interleave(n_segments)
        within = torch.arange(len(node), device=node.device) - (n_segments.cumsum(0) - n_segments)[node]
        start = (ends - degree)[node] + SEGMENT * within
        several = n_segments > 1
        part = torch.where(several[node], several[node].cumsum(0) - 1, -1)
        n_parts = n_segments[several]
        self._keep_ids("segment_node", node)
        self._keep_ids("segment_start", start)
        self._keep_ids("segment_stop", torch.minimum(start + SEGMENT, ends[node]))
        self._keep_ids("segment_part", part)
        self._keep_ids("hub_node", several.nonzero().squeeze(1))
        self._keep_ids("hub_start", n_parts.cumsum(0) - n_parts)
        self._keep_ids("hub_stop", n_parts.cumsum(0))
        self.n_parts = int(n_parts.sum())
        largest = int(degree.max()) if len(degree) else 0
        self.winner_dtype = torch.int16 if largest < 1 << 15 else torch.int32

    @property
    def n_edges(self) -> int:
        """Edges in both directions."""
        return len(self.source)

    def answers(self, anchor: Tensor, relation: Tensor) -> tuple[Tensor, Tensor]:
        """Return the edges to the known answers of B queries, padded, and which of them are valid: (B, K).

        Answers are the sources of edges with the inverse relation into the anchor, which follow each other. K is the
        longest list.
        """
        inverse = (relation + self.n_relations) % (2 * self.n_relations)
        wanted = directed_key(anchor, inverse, self.n_relations).unsqueeze(1)
        start, stop = (torch.searchsorted(self.key, wanted, right=right) for right in (False, True))
        place = start + torch.arange(self.most_answers, device=anchor.device)
        counts = place < stop
        return place.where(counts, 0), counts

    def without(self, removed: Tensor | None, dtype: torch.dtype) -> Removal:
        """Return the graph without the edges where ``removed`` (E,) is not zero; counts and scales have the dtype."""
        keep = torch.ones_like(self.source, dtype=torch.uint8) if removed is None else (removed == 0).to(torch.uint8)
        count = torch.ones(self.n_entities, dtype=dtype, device=keep.device)
        count = count.index_add(0, self.destination, keep.to(dtype))
        logarithm = count.log()
        return Removal(keep, count, logarithm / logarithm.mean().clamp(min=SMALLEST_SCALE))


Places = tuple[Graph, Removal]
Made = tuple[Tensor, Tensor, Tensor]
"""Tensors that a layer keeps for its gradients: states, their statistics, and the winners among the edges."""


class LayerTensors(NamedTuple):
    """The tensors of one layer.

    Attributes:
        edge: vectors of directed relations, (2R, B, d), or (2R, d) where all queries share them.
        weight: (13d, d) for ``pna``: d rows for the state, then 4d for the statistics as they are, multiplied by the
            scale, and divided by it. (2d, d) for sums.
        bias: added to the product, (d,).
        gain, shift: of the layer norm, (d,).
    """

    edge: Tensor
    weight: Tensor
    bias: Tensor
    gain: Tensor
    shift: Tensor

    @property
    def pna(self) -> bool:
        """Whether the layer keeps four statistics instead of the sum."""
        return len(self.weight) == 13 * self.weight.shape[1]

    def to(self, dtype: torch.dtype) -> "LayerTensors":
        """Return the layer as the kernels read it: edge vectors and weights of the states' type, without gradients."""
        edge, weight = (tensor.detach().to(dtype).contiguous() for tensor in self[:2])
        return LayerTensors(edge, weight, *(tensor.detach().contiguous() for tensor in self[2:]))


def usable(query: Tensor) -> bool:
    """Say whether the kernels can run where ``query`` (B, d) is."""
    return fused_operations.usable(query) and query.shape[1] in KERNEL_WIDTHS


def propagate(query: Tensor, anchor: Tensor, layers: Sequence[LayerTensors], graph: Graph, removal: Removal) -> Tensor:
    """Return the states after all layers, (N, B, d), for queries with vectors (B, d) at anchors (B,).

    Where the kernels run, states are bfloat16; elsewhere they have the type of ``query``.
    """
    if usable(query):
        return fused(query, anchor, layers, graph, removal, torch.bfloat16)
    if cpu_propagation.usable(query):
        limits = SMALLEST_VARIANCE, SMALLEST_SCALE
        return cpu_propagation.propagate(query, anchor, layers, graph, removal, limits)
    return plain(query, anchor, layers, graph, removal)


def plain(query: Tensor, anchor: Tensor, layers: Sequence[LayerTensors], graph: Graph, removal: Removal) -> Tensor:
    """Propagate in plain PyTorch; the same on every run on a CPU."""
    edges = removal.keep.nonzero().squeeze(1)
    chunk = max(1, MESSAGES // max(1, len(edges) * query.shape[1]))
    kept = KEPT_PER_STATE * len(layers) * graph.n_entities * query.numel()
    again = torch.is_grad_enabled() and kept > KEPT
    states = []
    for start in range(0, len(query), chunk):
        rows = slice(start, start + chunk)
        parts = [part._replace(edge=part.edge[:, rows] if part.edge.dim() == 3 else part.edge) for part in layers]
        run = partial(_plain_layers, query[rows], anchor[rows], parts, graph, removal, edges)
        states.append(checkpoint(run, use_reentrant=False) if again else run())
    return torch.cat(states, dim=1)


def _plain_layers(
    query: Tensor, anchor: Tensor, layers: Sequence[LayerTensors], graph: Graph, removal: Removal, edges: Tensor
) -> Tensor:
    """Propagate some queries along the kept ``edges``; see ``plain``."""
    place = anchor, torch.arange(len(query), device=query.device)
    boundary = query.new_zeros(graph.n_entities, *query.shape).index_put(place, query)
    ends = [ids[edges] for ids in (graph.source, graph.relation, graph.destination)]
    state = boundary
    for layer in layers:
        vectors = layer.edge if layer.edge.dim() == 3 else layer.edge.unsqueeze(1).expand(-1, *query.shape)
        rows = (tensor.flatten(1) for tensor in (state, vectors, boundary))
        elements = removal.elements if layer.pna else None
        fields = _Collection.apply(*rows, ends, elements)  # type: ignore[no-untyped-call]
        collected = torch.cat([field.view_as(state) for field in fields], dim=2)
        state = mix(state, collected, layer, removal.scale)
    return state


class _Collection(torch.autograd.Function):
    """Statistics of the messages of every entity: rows of C numbers for all queries side by side.

    Without ``elements``, the sizes of all multisets, it is their sum alone. Messages are made anew for the gradients.
    The first edge with an extreme message takes the gradient, before the boundary.
    """

    @staticmethod
    def forward(
        ctx: Any, state: Tensor, edge: Tensor, boundary: Tensor, ends: list[Tensor], elements: Tensor | None
    ) -> tuple[Tensor, ...]:
        source, relation, destination = ends
        ctx.ends = ends
        messages = state.index_select(0, source) * edge.index_select(0, relation)
        total = boundary.index_add(0, destination, messages)
        if elements is None:
            ctx.save_for_backward(state, edge)
            return (total,)
        n = elements.unsqueeze(1)
        mean = total.div_(n)
        squares = boundary.square().index_add_(0, destination, messages.square()).div_(n)
        deviation = squares.sub_(mean.square()).clamp_(min=SMALLEST_VARIANCE).sqrt_()
        index = destination.long().unsqueeze(1).expand_as(messages)
        top, bottom = (boundary.scatter_reduce(0, index, messages, kind) for kind in ("amax", "amin"))
        won = [_first_of(messages, best, index) for best in (top, bottom)] if any(ctx.needs_input_grad) else ()
        ctx.save_for_backward(state, edge, boundary, elements, mean, deviation, *won)
        return mean, top, bottom, deviation

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        state, edge, *saved = ctx.saved_tensors
        source, relation, destination = ctx.ends
        sent, vectors = state.index_select(0, source), edge.index_select(0, relation)
        if not saved:
            of_boundary = gradients[0]
            of_messages = of_boundary.index_select(0, destination)
        else:
            boundary, elements, mean, deviation, *won = saved
            of_mean, *of_extremes, of_deviation = gradients
            # A message m has the gradient α + β·m, and that of the maximum and the minimum where it is the first.
            lowest = SMALLEST_VARIANCE**0.5 * (1 + 1e-6)
            beta = torch.where(deviation > lowest, of_deviation / deviation, 0) / elements.unsqueeze(1)
            alpha = of_mean / elements.unsqueeze(1) - beta * mean
            of_messages = beta.index_select(0, destination).mul_(sent).mul_(vectors)
            of_messages += alpha.index_select(0, destination)
            of_boundary = alpha + beta * boundary
            place = torch.arange(len(sent), dtype=won[0].dtype, device=sent.device).unsqueeze(1)
            for winner, of_extreme in zip(won, of_extremes, strict=True):
                is_first = winner.index_select(0, destination) == place
                of_messages += of_extreme.index_select(0, destination).mul_(is_first)
                of_boundary = of_boundary + of_extreme * winner.isinf()
        of_state = torch.zeros_like(state).index_add_(0, source, vectors.mul_(of_messages))
        of_edge = torch.zeros_like(edge).index_add_(0, relation, sent.mul_(of_messages))
        return of_state, of_edge, of_boundary, None, None


def _first_of(messages: Tensor, best: Tensor, index: Tensor) -> Tensor:
    """Return the place of the first message (n, C) equal to its entity's ``best`` (N, C); infinity for none, (N, C).

    Places are numbers of a real type: PyTorch reduces those many times faster than integers.
    """
    dtype = torch.float32 if len(messages) < 1 << 24 else torch.float64
    place = torch.arange(len(messages), dtype=dtype, device=messages.device).unsqueeze(1)
    offered = place.where(messages == best.index_select(0, index[:, 0]), torch.inf)
    return torch.full_like(best, torch.inf, dtype=dtype).scatter_reduce(0, index, offered, "amin")


def mix(state: Tensor, collected: Tensor, layer: LayerTensors, scale: Tensor) -> Tensor:
    """Return the new states (N, B, d) from the states and the collected statistics, (N, B, 4d), or sums, (N, B, d)."""
    width = state.shape[2]
    own, blocks = layer.weight[:width], layer.weight[width:].reshape(-1, collected.shape[2], width)
    mixed = state @ own + layer.bias
    if layer.pna:
        factor = scale.view(-1, 1, 1)
        factors = 1.0, factor, 1 / factor.clamp(min=SMALLEST_SCALE)
        for block, by in zip(blocks, factors, strict=True):
            mixed = mixed + by * (collected @ block)
    else:
        mixed = mixed + collected @ blocks[0]
    return functional.layer_norm(mixed, (width,), layer.gain, layer.shift).relu() + state


def fused(
    query: Tensor,
    anchor: Tensor,
    layers: Sequence[LayerTensors],
    graph: Graph,
    removal: Removal,
    dtype: torch.dtype,
) -> Tensor:
    """Propagate in the kernels, with states of a type; see ``propagate``."""
    tensors = [tensor for layer in layers for tensor in layer]
    if not torch.is_grad_enabled():
        return _Propagation.run(query, anchor, layers, (graph, removal), dtype)[0]
    result: Tensor = _Propagation.apply(query, anchor, graph, removal, dtype, *tensors)  # type: ignore[no-untyped-call]
    return result


def first_states(query: Tensor, anchor: Tensor, n_entities: int) -> Tensor:
    """Return the states before the first layer, (N, B, d): the query's vector at the anchor, and zeros."""
    state = query.new_zeros(n_entities, *query.shape)
    state[anchor, torch.arange(len(query), device=query.device)] = query
    return state


def gathers_twice(state: Tensor, layers: Sequence[LayerTensors]) -> bool:
    """Say whether the backward pass gathers the statistics again, because keeping all of them takes too much memory."""
    if not state.is_cuda:
        return False
    kept = state.nbytes * sum(KEPT_BY_KERNELS[layer.pna] for layer in layers)
    return kept > KEPT_SHARE * torch.cuda.get_device_properties(state.device).total_memory


class _Propagation(torch.autograd.Function):
    """All layers in one, so that gradients of states stay float32 between them."""

    @staticmethod
    def run(
        query: Tensor,
        anchor: Tensor,
        layers: Sequence[LayerTensors],
        places: Places,
        dtype: torch.dtype,
        kept: list[Tensor] | None = None,
    ) -> tuple[Tensor, list[LayerTensors]]:
        """Return the last states and the layers as the kernels read them; add to ``kept`` what gradients need.

        That is ``Made`` of every layer, or its states alone where the rest is gathered twice.
        """
        from relens.models.fused import propagation_kernels as kernels  # needs triton, which only CUDA machines have

        query = query.detach().to(dtype).contiguous()
        state, read = first_states(query, anchor, places[0].n_entities), []
        twice = gathers_twice(state, layers)
        for index, layer in enumerate(layers):
            read.append(layer.to(dtype))
            track = kept is not None and not twice
            stats, winner = kernels.gather(state, read[-1], (query, anchor), places, first=index == 0, track=track)
            if kept is not None:
                kept += [state] if twice else [state, stats, winner]
            state = kernels.mix(state, stats, read[-1], places[1])
        return state, read

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, anchor: Tensor, graph: Graph, removal: Removal, dtype: torch.dtype, *tensors: Tensor
    ) -> Tensor:
        fields = len(LayerTensors._fields)
        layers = [LayerTensors(*tensors[i : i + fields]) for i in range(0, len(tensors), fields)]
        kept: list[Tensor] = []
        state, read = _Propagation.run(query, anchor, layers, (graph, removal), dtype, kept)
        ctx.save_for_backward(query, anchor, *kept, *(tensor for layer in read for tensor in layer))
        ctx.places, ctx.n_layers, ctx.n_kept = (graph, removal), len(layers), len(kept)
        ctx.dtypes = [tensor.dtype for tensor in tensors]
        return state

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        from relens.models.fused import propagation_kernels as kernels

        query, anchor, *saved = ctx.saved_tensors
        kept, read = saved[: ctx.n_kept], saved[ctx.n_kept :]
        fields, per_layer = len(LayerTensors._fields), ctx.n_kept // ctx.n_layers
        place = anchor, torch.arange(len(query), device=query.device)
        gradient = gradients[0].contiguous()
        rounded = query.to(kept[0].dtype).contiguous()
        of_query = torch.zeros_like(query, dtype=kernels.real_of(kept[0].dtype))
        of_tensors: list[Tensor] = []
        for index in reversed(range(ctx.n_layers)):
            layer = LayerTensors(*read[fields * index : fields * (index + 1)])
            state, *rest = kept[per_layer * index : per_layer * (index + 1)]
            if not rest:
                rest = kernels.gather(state, layer, (rounded, anchor), ctx.places, first=index == 0, track=True)
            made: Made = (state, *rest)
            found = kernels.mix_gradients(*made[:2], layer, ctx.places[1], gradient)
            of_weight = kernels.weight_gradient(*made[:2], layer, ctx.places[1], found.mixed)
            of_edge = torch.zeros_like(layer.edge, dtype=of_weight.dtype)
            only = anchor if index == 0 else None
            kernels.spread(made, layer, found.stats, ctx.places, only, found.state, of_edge)
            of_query += _of_boundary(made, found.stats, rounded, ctx.places[1], place)
            of_tensors = [of_edge, of_weight, *found.vectors, *of_tensors]
            gradient = found.state
        of_query += gradient[place]
        returned = (of.to(dtype) for of, dtype in zip(of_tensors, ctx.dtypes, strict=True))
        return of_query.to(query.dtype), None, None, None, None, *returned


def _of_boundary(made: Made, of_stats: Tensor, query: Tensor, removal: Removal, place: tuple[Tensor, Tensor]) -> Tensor:
    """Return the gradient of the boundary, which is one more message, at the anchors: (B, d)."""
    from relens.models.fused import propagation_kernels as kernels

    (_, stats, winner), (anchor, row) = made, place
    own = of_stats[anchor, :, row].to(kernels.real_of(query.dtype))
    if own.shape[1] == 1:
        return own[:, 0]
    of_mean, of_top, of_bottom, of_deviation = own.unbind(1)
    mean, _, _, deviation = stats[anchor, :, row].to(own.dtype).unbind(1)
    n = removal.elements[anchor].to(own.dtype).unsqueeze(1)
    beta = torch.where(deviation > kernels.floor_of(query.dtype), of_deviation / deviation, 0) / n
    top_won, bottom_won = (winner[anchor, :, row] == -1).unbind(1)
    return of_mean / n + beta * (query - mean) + top_won * of_top + bottom_won * of_bottom
