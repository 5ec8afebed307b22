"""Propagation against a plain loop over edges; the kernels on a GPU, or in Triton's interpreter where there is none."""

import math

import pytest
import torch

from relens.models import propagation
from relens.models.propagation import Graph, LayerTensors

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
KINDS = [("pna", "dependent"), ("pna", "independent"), ("sum", "dependent"), ("sum", "independent")]
N_ENTITIES, N_RELATIONS = 9, 3


def needs_triton():
    pytest.importorskip("triton", reason="Triton is not installed")


def odd_triples():
    """Return triples with multi-edges of all kinds, a loop, a hub, and two entities without edges (7 and 8)."""
    generator = torch.Generator().manual_seed(0)
    some = torch.stack([torch.randint(n, (12,), generator=generator) for n in (7, N_RELATIONS, 7)], dim=1)
    odd = [(0, 0, 1), (0, 1, 1), (1, 0, 0), (2, 2, 2), (3, 1, 4), (3, 1, 4), *((i % 7, 2, 5) for i in range(11))]
    return torch.cat([some, torch.tensor(odd)])


def random_layers(aggregate, edge_vectors, n_queries, width, n_layers=2):
    """Return layers with random parameters, gains and shifts far from their first values."""
    layers = []
    for _ in range(n_layers):
        queries = (n_queries,) if edge_vectors == "dependent" else ()
        rows = (13 if aggregate == "pna" else 2) * width
        weight = torch.randn(rows, width) / math.sqrt(rows)
        parts = torch.randn(2 * N_RELATIONS, *queries, width), weight, *torch.randn(3, width)
        layers.append(LayerTensors(*(part.to(DEVICE).requires_grad_() for part in parts)))
    return layers


def loop(query, anchor, layers, triples, n_entities=N_ENTITIES):
    """Return the states after all layers, (N, B, d), entity by entity and message by message."""
    edges = [(h, r, t) for h, r, t in triples.tolist()] + [(t, r + N_RELATIONS, h) for h, r, t in triples.tolist()]
    edges.sort(key=lambda edge: (edge[2], edge[1], edge[0]))
    counts = [1 + sum(edge[2] == v for edge in edges) for v in range(n_entities)]
    average = sum(map(math.log, counts)) / n_entities
    columns = []
    for b, a in enumerate(anchor.tolist()):
        zero = torch.zeros_like(query[b])
        state = [query[b] if v == a else zero for v in range(n_entities)]
        for layer in layers:
            edge = layer.edge if layer.edge.dim() == 2 else layer.edge[:, b]
            fresh = []
            for v in range(n_entities):
                messages = [state[u] * edge[r] for u, r, t in edges if t == v] + [query[b] if v == a else zero]
                columns_of = torch.stack(messages)
                if layer.pna:
                    mean = columns_of.mean(0)
                    variance = (columns_of**2).mean(0) - mean**2
                    top = columns_of.gather(0, columns_of.argmax(0, keepdim=True))[0]
                    bottom = columns_of.gather(0, columns_of.argmin(0, keepdim=True))[0]
                    kept = [mean, top, bottom, variance.clamp(min=1e-6).sqrt()]
                    s = math.log(counts[v]) / average
                    scaled = [part * factor for factor in (1, s, 1 / max(s, 0.01)) for part in kept]
                else:
                    scaled = [columns_of.sum(0)]
                z = torch.cat([state[v], *scaled]) @ layer.weight + layer.bias
                z = (z - z.mean()) / (z.var(unbiased=False) + 1e-5).sqrt()
                fresh.append((z * layer.gain + layer.shift).relu() + state[v])
            state = fresh
        columns.append(torch.stack(state))
    return torch.stack(columns, dim=1)


def assert_same(found_of, aggregate, edge_vectors, triples, width=16, tolerance=None):
    """Compare states and gradients with the loop's; ``found_of`` takes query, anchor, layers and a graph."""
    query = torch.randn(2, width).to(DEVICE).requires_grad_()
    anchor = torch.tensor([5, 8], device=DEVICE)
    layers = random_layers(aggregate, edge_vectors, 2, width)
    graph = Graph(triples, N_ENTITIES, N_RELATIONS).to(DEVICE)
    wanted, found = loop(query, anchor, layers, triples), found_of(query, anchor, layers, graph)
    weights = torch.randn_like(wanted)
    inputs = [query, *(tensor for layer in layers for tensor in layer)]
    tolerance = tolerance or {}
    torch.testing.assert_close(found.to(wanted.dtype), wanted, **tolerance)
    gradients = [torch.autograd.grad((states * weights).sum(), inputs) for states in (found.to(wanted.dtype), wanted)]
    torch.testing.assert_close(*gradients, **tolerance)


def plain(query, anchor, layers, graph):
    return propagation.plain(query, anchor, layers, graph, graph.without(None, query.dtype))


@pytest.mark.parametrize(("aggregate", "edge_vectors"), KINDS)
def test_plain_propagation_equals_a_loop(aggregate, edge_vectors, monkeypatch):
    assert_same(plain, aggregate, edge_vectors, odd_triples(), width=3)
    monkeypatch.setattr(propagation, "MESSAGES", 1)  # one query at a time
    assert_same(plain, aggregate, edge_vectors, odd_triples(), width=3)


@pytest.mark.parametrize(("aggregate", "edge_vectors"), KINDS)
@pytest.mark.parametrize("segment", [128, 5], ids=["whole", "segments"])
def test_kernels_equal_a_loop(aggregate, edge_vectors, segment, monkeypatch):
    needs_triton()
    assert_kernels_same(aggregate, edge_vectors, segment, 16, monkeypatch)


@pytest.mark.parametrize(("aggregate", "edge_vectors"), [KINDS[0], KINDS[3]])
@pytest.mark.parametrize("width", [width for width in propagation.KERNEL_WIDTHS if width > 16])
def test_kernels_of_other_widths_equal_a_loop(aggregate, edge_vectors, width, monkeypatch):
    needs_triton()
    assert_kernels_same(aggregate, edge_vectors, 5, width, monkeypatch)


@pytest.mark.parametrize("unroll", [1, 2])
def test_kernels_may_multiply_any_number_of_statistics_at_a_time(unroll, monkeypatch):
    needs_triton()
    from relens.models.fused import propagation_kernels as kernels

    monkeypatch.setattr(
        kernels, "NARROW", {name: tile._replace(unroll=unroll) for name, tile in kernels.NARROW.items()}
    )
    assert_kernels_same("pna", "independent", 128, 16, monkeypatch)


def test_kernels_that_gather_twice_have_the_same_gradients(monkeypatch):
    needs_triton()
    from relens.models.fused import propagation_kernels as kernels

    tracked, gather = [], kernels.gather

    def watched(*arguments, first, track):
        tracked.append(track)
        return gather(*arguments, first=first, track=track)

    monkeypatch.setattr(kernels, "gather", watched)
    monkeypatch.setattr(propagation, "gathers_twice", lambda state, layers: True)
    assert_kernels_same("pna", "dependent", 128, 16, monkeypatch)
    assert tracked == [False, False, True, True]


def assert_kernels_same(aggregate, edge_vectors, segment, width, monkeypatch):
    """Compare the kernels with the loop, in segments of as many edges; float64 in the interpreter."""
    monkeypatch.setattr(propagation, "SEGMENT", segment)

    def fused(query, anchor, layers, graph):
        assert (graph.n_parts > 0) == (segment == 5)
        dtype = torch.float32 if DEVICE == "cuda" else torch.float64
        return propagation.fused(query, anchor, layers, graph, graph.without(None, query.dtype), dtype)

    tolerance = {"rtol": 1e-3, "atol": 1e-3} if DEVICE == "cuda" else None
    assert_same(fused, aggregate, edge_vectors, odd_triples(), width, tolerance)


@pytest.mark.parametrize("segment", [128, 5], ids=["whole", "segments"])
def test_kernels_with_bfloat16_find_the_winners(segment, monkeypatch):
    needs_triton()
    from relens.models.fused import propagation_kernels as kernels

    monkeypatch.setattr(propagation, "SEGMENT", segment)
    graph = Graph(odd_triples(), N_ENTITIES, N_RELATIONS).to(DEVICE)
    removed = torch.zeros(graph.n_edges, dtype=torch.uint8, device=DEVICE)
    removed[::4] = 1
    removal = graph.without(removed, torch.float32)
    anchor = torch.tensor([5, 8], device=DEVICE)
    query, state = torch.randn(2, 16).to(DEVICE).bfloat16(), torch.randn(N_ENTITIES, 2, 16).relu().to(DEVICE).bfloat16()
    layer = random_layers("pna", "dependent", 2, 16)[0].to(torch.bfloat16)
    stats, winner = kernels.gather(state, layer, (query, anchor), (graph, removal), first=False, track=True)
    for v in range(N_ENTITIES):
        places = range(int(graph.offset[v]), int(graph.offset[v + 1]))
        messages = {
            place - places.start: (state[graph.source[place]].float() * layer.edge[graph.relation[place]].float())
            for place in places
            if not removed[place]
        }
        boundary = torch.where((anchor == v).unsqueeze(1), query, 0).float()
        messages[-1] = boundary
        stacked = torch.stack(list(messages.values()))
        for b in range(2):
            for j in range(16):
                top, bottom = (messages[int(winner[v, i, b, j])][b, j] for i in (0, 1))
                assert top == stacked[:, b, j].max()
                assert bottom == stacked[:, b, j].min()
        torch.testing.assert_close(stats[v, 1].float(), stacked.amax(0), rtol=1e-2, atol=1e-6)
        torch.testing.assert_close(stats[v, 0].float(), stacked.mean(0), rtol=1e-2, atol=1e-2)
        deviation = stacked.var(0, unbiased=False).clamp(min=1e-6).sqrt()
        torch.testing.assert_close(stats[v, 3].float(), deviation, rtol=1e-2, atol=1e-2)


@pytest.mark.skipif(DEVICE == "cpu", reason="Triton's interpreter does not multiply matrices of bfloat16")
@pytest.mark.parametrize("aggregate", ["pna", "sum"])
@pytest.mark.parametrize("width", propagation.KERNEL_WIDTHS)
def test_kernels_with_bfloat16_come_near(aggregate, width):
    triples = odd_triples()
    graph = Graph(triples, N_ENTITIES, N_RELATIONS).to(DEVICE)
    query, anchor = torch.randn(2, width, device=DEVICE, requires_grad=True), torch.tensor([5, 8], device=DEVICE)
    layers = random_layers(aggregate, "dependent", 2, width)
    inputs = [query, *(tensor for layer in layers for tensor in layer)]
    weights = torch.randn(N_ENTITIES, 2, width, device=DEVICE)
    removal = graph.without(None, query.dtype)
    wanted = propagation.plain(query, anchor, layers, graph, removal)
    found = propagation.fused(query, anchor, layers, graph, removal, torch.bfloat16)
    assert found.dtype == torch.bfloat16
    assert (found - wanted).norm() < 0.03 * wanted.norm()
    results = [torch.autograd.grad((states.to(query.dtype) * weights).sum(), inputs) for states in (found, wanted)]
    for one, other in zip(*results, strict=True):
        assert torch.nn.functional.cosine_similarity(one.flatten(), other.flatten(), dim=0) > 0.97


def test_without_gradients_the_states_are_the_same():
    needs_triton()
    graph = Graph(odd_triples(), N_ENTITIES, N_RELATIONS).to(DEVICE)
    query, anchor = torch.randn(2, 16, device=DEVICE), torch.tensor([5, 8], device=DEVICE)
    arguments = query, anchor, random_layers("pna", "dependent", 2, 16), graph, graph.without(None, query.dtype)
    with torch.no_grad():
        states = propagation.fused(*arguments, torch.float32)
    torch.testing.assert_close(states, propagation.fused(*arguments, torch.float32))


def test_kernels_leave_out_removed_edges():
    needs_triton()
    triples = odd_triples()
    arguments = torch.randn(2, 16, device=DEVICE), torch.tensor([5, 8], device=DEVICE)
    layers = random_layers("pna", "dependent", 2, 16)
    inputs = [tensor for layer in layers for tensor in layer]
    results = []
    for graph in (Graph(triples, N_ENTITIES, N_RELATIONS), Graph(triples[5:], N_ENTITIES, N_RELATIONS)):
        graph = graph.to(DEVICE)
        removed = (graph.triple < 5).to(torch.uint8) if not results else None
        removal = graph.without(removed, torch.float64)
        states = propagation.fused(*arguments, layers, graph, removal, torch.float32)
        results.append((states, *torch.autograd.grad(states.square().sum(), inputs)))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)
