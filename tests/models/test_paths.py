"""Paths that carried a score: gradients against two oracles, the search against all paths, and a learnt rule."""

from itertools import combinations

import numpy as np
import pytest
import torch

from relens.models import paths
from relens.models.nbfnet import NBFNet, Reached
from relens.models.paths import best_paths
from tests.models.test_nbfnet import fit, model_of
from tests.models.test_nbfnet import one_thread as one_thread
from tests.models.test_propagation import KINDS, N_ENTITIES, odd_triples

LAYERS = 3


@pytest.fixture
def real():
    """Compute in float64, so that oracles agree to many digits."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def model(real):
    return model_of(odd_triples(), layers=LAYERS)


def ones(model):
    """Return a factor of 1 for every edge in every layer, (L, E)."""
    return torch.ones(len(model.layers), model.graph.n_edges)


def score_with(model, query, factors):
    """Return a score by a plain loop over entities and messages, each message times a factor (L, E)."""
    anchor, relation, answer = query
    graph = model.graph
    vector = model.query[[relation]].detach()
    state = torch.zeros(N_ENTITIES, vector.shape[1])
    state[anchor] = vector[0]
    boundary = state.clone()
    removal = graph.without(None, vector.dtype)
    for layer, module in enumerate(model.layers):
        tensors = module.tensors(vector, lambda rows: rows)
        rows = tensors.edge.flatten(1)
        fresh = []
        for v in range(N_ENTITIES):
            edges = (graph.destination == v).nonzero().squeeze(1).tolist()
            messages = [factors[layer, e] * state[graph.source[e]] * rows[graph.relation[e]] for e in edges]
            messages = torch.stack([*messages, boundary[v]])
            if tensors.pna:
                mean = messages.mean(0)
                deviation = ((messages**2).mean(0) - mean**2).clamp(min=1e-6).sqrt()
                # Of several equal messages the first takes the gradient.
                extremes = (messages.gather(0, of(0, keepdim=True))[0] for of in (messages.argmax, messages.argmin))
                kept = [mean, *extremes, deviation]
                kept = [part * factor for factor in scales(removal.scale[v]) for part in kept]
            else:
                kept = [messages.sum(0)]
            mixed = torch.cat([state[v], *kept]) @ tensors.weight + tensors.bias
            normal = torch.nn.functional.layer_norm(mixed, mixed.shape, tensors.gain, tensors.shift)
            fresh.append(normal.relu() + state[v])
        state = torch.stack(fresh)
    return model.score(Reached(state.unsqueeze(1), vector))[0, answer]


def scales(scale):
    return 1, scale, 1 / scale.clamp(min=0.01)


def entities_after(graph, start, n_steps):
    """Return where walks of at most n steps from an entity end, as a set, by steps over the list of edges."""
    ends = set(zip(graph.source.tolist(), graph.destination.tolist(), strict=True))
    reached = {start}
    for _ in range(n_steps):
        reached |= {v for u, v in ends if u in reached}
    return reached


def assert_gradients_are_of_factors(model, query):
    """Compare with a factor per edge and layer; where no walk may pass, the gradient is zero."""
    anchor, _, answer = query
    factors = ones(model).requires_grad_()
    (wanted,) = torch.autograd.grad(score_with(model, query, factors), factors)
    walks, gradients = model.edge_gradients(*query)
    ends = list(zip(model.graph.source.tolist(), model.graph.destination.tolist(), strict=True))
    n_layers = len(model.layers)
    on_walks = [
        [
            u in entities_after(model.graph, anchor, layer)
            and v in entities_after(model.graph, answer, n_layers - layer - 1)
            for u, v in ends
        ]
        for layer in range(n_layers)
    ]
    assert walks.edges.tolist() == np.flatnonzero(np.any(on_walks, axis=0)).tolist()
    assert np.array_equal(walks.passable, np.array(on_walks)[:, walks.edges])
    expected = np.where(on_walks, wanted.numpy(), 0)[:, walks.edges]
    np.testing.assert_allclose(gradients, expected, rtol=1e-8, atol=1e-10)
    return expected


@pytest.mark.kernels
@pytest.mark.parametrize(("aggregate", "edge_vectors"), KINDS)
def test_gradients_are_those_of_a_factor_per_edge_and_layer(aggregate, edge_vectors, real):
    model = model_of(odd_triples(), layers=LAYERS, aggregate=aggregate, edge_vectors=edge_vectors)
    for query in ((0, 1, 5), (5, 3, 4), (2, 0, 2)):
        assert np.count_nonzero(np.abs(assert_gradients_are_of_factors(model, query)) > 1e-6) > 10
    for query in ((8, 0, 8), (8, 0, 1), (1, 0, 7)):  # entities without edges
        assert assert_gradients_are_of_factors(model, query).shape == (LAYERS, 0)


@pytest.mark.parametrize(("aggregate", "edge_vectors"), KINDS)
def test_gradients_are_those_of_weakened_edges(aggregate, edge_vectors, real):
    # Of two equal messages the first takes the gradient of the maximum, and a difference sees a kink: no multi-edges.
    triples = torch.unique(odd_triples(), dim=0)
    model = model_of(triples, layers=2, aggregate=aggregate, edge_vectors=edge_vectors)
    query, step = (0, 1, 5), 1e-6
    walks, gradients = model.edge_gradients(*query)
    assert np.count_nonzero(np.abs(gradients) > 1e-6) > 10
    for layer, place in zip(*walks.passable.nonzero(), strict=True):
        scores = []
        for by in (step, -step):
            factors = ones(model)
            factors[layer, walks.edges[place]] += by
            with torch.no_grad():
                scores.append(float(score_with(model, query, factors)))
        assert gradients[layer, place] == pytest.approx((scores[0] - scores[1]) / (2 * step), abs=1e-6)


def test_gradients_in_float32_are_those_in_float64(real):
    model = model_of(odd_triples(), layers=LAYERS)
    _, wanted = model.edge_gradients(0, 1, 5)
    _, found = model.float().edge_gradients(0, 1, 5)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


def test_paths_are_the_same_with_and_without_autograd(model):
    with torch.no_grad():
        found = model.explain(0, 1, 4, 5)
    assert found == model.explain(0, 1, 4, 5) != []
    assert all(parameter.grad is None for parameter in model.parameters())


def ends_of(walks):
    return list(zip(walks.source.tolist(), walks.relation.tolist(), walks.destination.tolist(), strict=True))


def all_paths(walks, gradients):
    """Return the importance of every path without repeated entities: the mean gradient at the best layers."""
    ends = ends_of(walks)
    found = {}

    def walk(at, visited, edges):
        if edges and at == walks.answer:
            timings = combinations(range(len(gradients)), len(edges))
            total = max(sum(gradients[layer, e] for layer, e in zip(t, edges, strict=True)) for t in timings)
            steps = tuple(ends[e] for e in edges)
            found[steps] = max(total / len(edges), found.get(steps, -np.inf))
            return
        for edge, (u, _, v) in enumerate(ends):
            if u == at and len(edges) < len(gradients) and (v not in visited or v == walks.answer):
                walk(v, {*visited, v}, (*edges, edge))

    walk(walks.anchor, {walks.anchor}, ())
    return found


def steps_of(path):
    return tuple(zip(path.entities[:-1], path.relations, path.entities[1:], strict=True))


@pytest.mark.kernels
@pytest.mark.parametrize(("anchor", "answer"), [(0, 4), (5, 3), (2, 2), (1, 0)])
def test_the_search_finds_the_best_of_all_paths(model, anchor, answer, monkeypatch):
    monkeypatch.setattr(paths, "PATHS_OF_A_NODE", 10**4)
    walks, gradients = model.edge_gradients(anchor, 1, answer)
    every = all_paths(walks, gradients)
    expected = {steps: importance for steps, importance in every.items() if importance > 0}
    assert len(every) > len(expected) > 2
    found = best_paths(walks, gradients, 10**4)
    assert [path.importance for path in found] == pytest.approx(sorted(expected.values(), reverse=True))
    assert len(found) == len(expected)
    assert {steps_of(path): path.importance for path in found} == pytest.approx(expected)
    assert all((path.entities[0], path.entities[-1]) == (anchor, answer) for path in found)
    assert best_paths(walks, gradients, 3) == found[:3]


def plain_beam(walks, gradients, per_entity, per_length):
    """Return the importance of the paths that a beam keeps, by sets of edges in Python."""
    ends, n_layers = ends_of(walks), len(gradients)

    def end(path):
        return ends[path[-1]][2] if path else walks.anchor

    def visited(path):
        return {walks.anchor, *(ends[edge][2] for edge in path)}

    kept = {(): 0.0}
    for layer, gradient in enumerate(gradients):
        longer = dict(kept)
        for path, total in kept.items():
            if path and end(path) == walks.answer:
                continue
            for edge, (u, _, v) in enumerate(ends):
                if u == end(path) and (v == walks.answer or v not in visited(path)):
                    grown = (*path, edge)
                    longer[grown] = max(longer.get(grown, -np.inf), total + gradient[edge])
        kept, counts = {}, {}
        for path in sorted(longer, key=longer.get, reverse=True):
            places = (len(path), end(path)), len(path)
            full = any(
                counts.get(place, 0) == most for place, most in zip(places, (per_entity, per_length), strict=True)
            )
            if not full and walks.to_answer[end(path)] < n_layers - layer:
                kept[path] = longer[path]
                for place in places:
                    counts[place] = counts.get(place, 0) + 1
    steps = {path: tuple(ends[edge] for edge in path) for path in kept if path and kept[path] > 0}
    return {steps[path]: kept[path] / len(path) for path in steps}


@pytest.mark.kernels
@pytest.mark.parametrize(("per_entity", "per_length"), [(1, 100), (2, 3), (3, 8), (100, 4)])
def test_a_narrow_beam_keeps_what_a_plain_one_keeps(real, per_entity, per_length, monkeypatch):
    triples = torch.unique(odd_triples(), dim=0)  # equal paths would compete for a place
    model = model_of(triples, layers=4)
    monkeypatch.setattr(paths, "PATHS_OF_A_NODE", per_entity)
    monkeypatch.setattr(paths, "PATHS_OF_A_LENGTH", per_length)
    for number, (anchor, answer) in enumerate([(0, 4), (5, 3), (2, 2)]):
        walks, gradients = model.edge_gradients(anchor, 1, answer)
        gradients = np.random.default_rng(number).normal(0.5, 1, gradients.shape)
        expected = plain_beam(walks, gradients, per_entity, per_length)
        assert 0 < len(expected) < len(all_paths(walks, gradients))
        found = best_paths(walks, gradients, 10**4)
        assert {steps_of(path): path.importance for path in found} == pytest.approx(expected)


def test_an_entity_out_of_reach_has_no_paths(model):
    assert model.explain(0, 1, 8, 5) == []
    assert model.explain(8, 1, 8, 5) == []


def test_a_learnt_rule_is_the_best_path(one_thread):
    """r(x, z) follows from p(x, y) and q(y, z); facts of another relation lead elsewhere."""
    torch.set_default_dtype(torch.float32)
    n, generator = 60, torch.Generator().manual_seed(3)
    p, q, other = (torch.randperm(n, generator=generator) for _ in range(3))
    x = torch.arange(n)
    ends = ((0, x, p), (1, p, q[p]), (2, x, q[p]), (3, x, other))
    triples = [torch.stack([a, torch.full_like(a, r), b], 1) for r, a, b in ends]
    hidden = triples[2][n // 2 :]
    model: NBFNet = model_of(torch.cat([*triples[:2], triples[2][: n // 2], triples[3]]), n, 4, layers=3)
    fit(model, "triple", 60)
    right = 0
    for h, _, t in hidden.tolist():
        (best, *_) = model.explain(h, 2, t, 3)
        right += (best.entities, best.relations) == ((h, int(p[h]), t), (0, 1))
    assert right >= 0.8 * len(hidden)
    backwards = model.explain(int(hidden[0, 2]), 2 + 4, int(hidden[0, 0]), 1)[0]
    assert backwards.relations == (1 + 4, 0 + 4)
