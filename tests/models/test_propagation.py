"""Propagation against a plain loop over edges; the kernels on a GPU, or in Triton's interpreter where there is none."""

import math

import pytest
import torch

from benchmarks.propagation import graph as propagation
from benchmarks.propagation.graph import Graph, LayerTensors
from benchmarks.propagation.nbfnet import Batch, NBFNet, answers_of, choose_targets, cross_entropy

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
KINDS = [("pna", "dependent"), ("pna", "independent"), ("sum", "dependent"), ("sum", "independent")]
N_ENTITIES, N_RELATIONS = 9, 3


@pytest.fixture
def one_thread():
    """Compute in one thread: small products take longer in several that share their cores with other tests."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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
    monkeypatch.setattr(propagation, "SEGMENT", segment)

    def fused(query, anchor, layers, graph):
        assert (graph.n_parts > 0) == (segment == 5)
        dtype = torch.float32 if DEVICE == "cuda" else torch.float64
        return propagation.fused(query, anchor, layers, graph, graph.without(None, query.dtype), dtype)

    tolerance = {"rtol": 1e-3, "atol": 1e-3} if DEVICE == "cuda" else None
    assert_same(fused, aggregate, edge_vectors, odd_triples(), tolerance=tolerance)


@pytest.mark.parametrize("segment", [128, 5], ids=["whole", "segments"])
def test_kernels_with_bfloat16_find_the_winners(segment, monkeypatch):
    needs_triton()
    from benchmarks.propagation import kernels

    monkeypatch.setattr(propagation, "SEGMENT", segment)
    graph = Graph(odd_triples(), N_ENTITIES, N_RELATIONS).to(DEVICE)
    removed = torch.zeros(graph.n_edges, dtype=torch.uint8, device=DEVICE)
    removed[::4] = 1
    removal = graph.without(removed, torch.float32)
    anchor = torch.tensor([5, 8], device=DEVICE)
    query, state = torch.randn(2, 16).to(DEVICE).bfloat16(), torch.randn(N_ENTITIES, 2, 16).relu().to(DEVICE).bfloat16()
    layer = random_layers("pna", "dependent", 2, 16)[0].to(torch.bfloat16)
    stats, winner = kernels.gather(state, layer, (query, anchor), (graph, removal), False, True)
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
def test_kernels_with_bfloat16_come_near(aggregate):
    triples = odd_triples()
    graph = Graph(triples, N_ENTITIES, N_RELATIONS).to(DEVICE)
    query, anchor = torch.randn(2, 16, device=DEVICE, requires_grad=True), torch.tensor([5, 8], device=DEVICE)
    layers = random_layers(aggregate, "dependent", 2, 16)
    inputs = [query, *(tensor for layer in layers for tensor in layer)]
    weights = torch.randn(N_ENTITIES, 2, 16, device=DEVICE)
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


def model_of(triples, n_entities=N_ENTITIES, n_relations=N_RELATIONS, **options):
    model = NBFNet(n_entities, n_relations, triples, **{"width": 16, "layers": 2, **options})
    model.initialise(torch.Generator().manual_seed(1))
    return model


@pytest.mark.parametrize(("aggregate", "edge_vectors"), KINDS)
def test_removing_edges_equals_building_the_graph_without_them(aggregate, edge_vectors):
    triples = odd_triples()
    options = {"aggregate": aggregate, "edge_vectors": edge_vectors}
    model, smaller = model_of(triples, **options), model_of(triples[5:], **options)
    removed = (model.graph.triple < 5).to(torch.uint8)
    queries = torch.tensor([0, 5, 8]), torch.tensor([0, 4, 2])
    torch.testing.assert_close(model.score_all(*queries, removed), smaller.score_all(*queries))


def test_renaming_entities_renames_scores():
    triples, names = odd_triples(), torch.randperm(N_ENTITIES)
    renamed = torch.stack([names[triples[:, 0]], triples[:, 1], names[triples[:, 2]]], dim=1)
    anchor, relation = torch.tensor([0, 5, 8]), torch.tensor([0, 4, 2])
    scores = model_of(triples).score_all(anchor, relation)
    other = model_of(renamed).score_all(names[anchor], relation)
    assert scores.shape == (3, N_ENTITIES)
    torch.testing.assert_close(other[:, names], scores)


def batch_of(model, edges, share=0.0, mode="triple"):
    """Return the batch for training queries that are given as edges of the graph, and all random numbers .5."""
    graph, known = model.graph, answers_of(model.graph)
    queries = tuple(ids[edges].long() for ids in (graph.source, graph.relation, graph.destination))
    chance = torch.full((len(edges), known.longest), 0.5)
    return queries, choose_targets(queries, known, graph, chance, share, mode)


@pytest.mark.parametrize("mode", ["triple", "pair"])
def test_removed_edges_are_those_of_the_targets(mode):
    triples = torch.tensor([(0, 0, 1), (0, 0, 2), (1, 1, 0), (0, 2, 1), (3, 0, 1), (0, 1, 2)])
    model = model_of(triples)
    graph = model.graph
    (edge,) = ((graph.source == 0) & (graph.relation == 0) & (graph.destination == 1)).nonzero()
    for share, n_targets in ((0.0, 1), (1.0, 2)):
        _, batch = batch_of(model, edge, share, mode)
        assert batch.target.sum() == n_targets
        assert batch.other.sum() == 2 - n_targets
        found = {
            (h, r, t)
            for h, r, t, gone in zip(graph.source, graph.relation, graph.destination, batch.removed, strict=True)
            if gone
            for h, r, t in [(int(h), int(r), int(t))]
        }
        told = [(0, 0, 1), (0, 0, 2)][:n_targets] if mode == "triple" else [
            triple for triple in map(tuple, triples.tolist()) if set(triple[::2]) in [{0, 1}, {0, 2}][:n_targets]
        ]  # fmt: skip
        assert found == {*told, *((t, r + N_RELATIONS, h) for h, r, t in told)}


def test_the_loss_is_the_mean_over_targets_among_what_is_not_known():
    scores = torch.randn(2, 5)
    answer = torch.tensor([[0, 3, 4], [2, 1, 0]])
    target = torch.tensor([[True, True, False], [True, False, False]])
    other = torch.tensor([[False, False, True], [False, True, False]])  # the last place of the second row is padding
    first = torch.log_softmax(scores[0, [0, 1, 2, 3]], 0)[[0, 3]].mean()
    second = torch.log_softmax(scores[1, [0, 2, 3, 4]], 0)[1]
    found = cross_entropy(scores, Batch(answer, target, other, torch.zeros(0)))
    torch.testing.assert_close(found, -(first + second) / 2)


def fit(model, mode, steps, share=0.3, halves=(True, True), only=None):
    """Train on all queries (of one relation) at once; ``halves`` says which of a target's two edges are removed."""
    graph, known = model.graph, answers_of(model.graph)
    chosen = torch.ones_like(graph.source, dtype=torch.bool) if only is None else graph.relation == only
    edges = chosen.nonzero().squeeze(1)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.0)
    generator = torch.Generator().manual_seed(2)
    forward = graph.relation < graph.n_relations
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = 0.01 * (1 + math.cos(math.pi * step / steps))
        drawn = edges[torch.randint(len(edges), (16,), generator=generator)]
        queries = tuple(ids[drawn].long() for ids in (graph.source, graph.relation, graph.destination))
        chance = torch.rand(16, known.longest, generator=generator)
        batch = choose_targets(queries, known, graph, chance, share, mode)
        removed = batch.removed * torch.where(forward, *halves).to(torch.uint8)
        loss = cross_entropy(model.score_all(*queries[:2], removed), batch)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    return float(loss.detach())


def mean_reciprocal_rank(model, triples, known):
    """Return the filtered MRR of tail queries; ``known`` holds triples whose tails do not compete."""
    with torch.no_grad():
        scores = model.score_all(triples[:, 0], triples[:, 1]).cpu()
    total = 0.0
    for row, (h, r, t) in zip(scores, triples.tolist(), strict=True):
        rivals = torch.ones(len(row), dtype=torch.bool)
        rivals[[z for x, y, z in known.tolist() if (x, y) == (h, r)]] = False
        total += 1 / (1 + float((row[rivals] > row[t]).sum()) + float((row[rivals] == row[t]).sum()) / 2)
    return total / len(triples)


def test_a_rule_of_two_steps_is_learnt(one_thread):
    torch.set_default_dtype(torch.float32)
    n, generator = 60, torch.Generator().manual_seed(3)
    p, q = torch.randperm(n, generator=generator), torch.randperm(n, generator=generator)
    x = torch.arange(n)
    triples = [torch.stack([a, torch.full_like(a, r), b], 1) for r, a, b in ((0, x, p), (1, p, q[p]), (2, x, q[p]))]
    shown, hidden = triples[2][: n // 2], triples[2][n // 2 :]
    train = torch.cat([*triples[:2], shown])
    model = model_of(train, n, 3, layers=3)
    fit(model, "triple", 60)
    assert mean_reciprocal_rank(model, hidden, torch.cat([train, hidden])) > 0.95


BOTH, FORWARD_ONLY, INVERSE_ONLY = (True, True), (True, False), (False, True)


@pytest.mark.parametrize(
    ("relation", "halves", "told"),
    [(0, BOTH, False), (0, INVERSE_ONLY, True), (2, BOTH, False), (2, FORWARD_ONLY, True)],
    ids=["tails", "tails, forward edge left", "heads", "heads, inverse edge left"],
)
def test_edges_do_not_tell_the_answer(relation, halves, told, one_thread):
    """Tails are random: with both edges removed there is nothing to learn; the one that is left gives them away."""
    torch.set_default_dtype(torch.float32)
    n, generator = 40, torch.Generator().manual_seed(4)
    tails, ends = torch.randperm(n, generator=generator), torch.randint(n, (2, 60), generator=generator)
    asked = torch.stack([torch.arange(n), torch.zeros(n, dtype=torch.long), tails], dim=1)
    noise = torch.stack([ends[0], torch.ones(60, dtype=torch.long), ends[1]], dim=1)
    model = model_of(torch.cat([asked, noise]), n, 2)
    loss = fit(model, "triple", 40, halves=halves, only=relation)
    assert loss < 1 if told else loss > 2
