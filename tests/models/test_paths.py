"""Paths that carried a score: gradients against finite differences, the search against all paths, and a learnt rule."""

from itertools import combinations

import numpy as np
import pytest
import torch

from relens.models import paths
from relens.models.nbfnet import NBFNet
from relens.models.paths import EdgeFactors, best_paths
from relens.models.propagation import plain
from tests.models.test_nbfnet import fit, model_of
from tests.models.test_nbfnet import one_thread as one_thread
from tests.models.test_propagation import KINDS, N_ENTITIES, odd_triples

LAYERS = 3


@pytest.fixture
def model():
    torch.set_default_dtype(torch.float64)
    yield model_of(odd_triples(), layers=LAYERS)
    torch.set_default_dtype(torch.float32)


def layers_of(model, relation):
    query = model.query[[relation]].detach()
    return query, [layer.tensors(query, lambda rows: rows) for layer in model.layers]


def gradients_of(model, anchor, relation, answer):
    """Return the factors of all edges between two entities, and their gradients."""
    query, layers = layers_of(model, relation)
    factors = EdgeFactors(model.graph, anchor, answer, layers)
    everything = model.graph.without(None, query.dtype)

    def score(layers):
        states = plain(query, torch.tensor([anchor]), layers, factors.graph, everything)
        return model.score((states, query))[0, answer]

    return factors, factors.gradients(score)


def weakened_score(model, query, edge, by):
    """Return a score on copies of the model's own loop over messages, one edge of one layer times ``by``."""
    anchor, relation, answer = query
    layer, number = edge
    graph = model.graph
    vector, layers = layers_of(model, relation)
    state = torch.zeros(N_ENTITIES, vector.shape[1])
    state[anchor] = vector[0]
    boundary = state.clone()
    removal = graph.without(None, vector.dtype)
    for place, tensors in enumerate(layers):
        rows = tensors.edge.flatten(1)
        fresh = []
        for v in range(N_ENTITIES):
            messages = [boundary[v]]
            for e in (graph.destination == v).nonzero().squeeze(1).tolist():
                factor = by if (place, e) == (layer, number) else 1.0
                messages.append(factor * state[graph.source[e]] * rows[graph.relation[e]])
            messages = torch.stack(messages)
            if tensors.pna:
                mean = messages.mean(0)
                deviation = ((messages**2).mean(0) - mean**2).clamp(min=1e-6).sqrt()
                kept = [mean, messages.max(0).values, messages.min(0).values, deviation]
                kept = [part * factor for factor in scales(removal.scale[v]) for part in kept]
            else:
                kept = [messages.sum(0)]
            mixed = torch.cat([state[v], *kept]) @ tensors.weight + tensors.bias
            normal = torch.nn.functional.layer_norm(mixed, mixed.shape, tensors.gain, tensors.shift)
            fresh.append(normal.relu() + state[v])
        state = torch.stack(fresh)
    return float(model.score((state.unsqueeze(1), vector))[0, answer])


def scales(scale):
    return 1, scale, 1 / scale.clamp(min=0.01)


@pytest.mark.parametrize(("aggregate", "edge_vectors"), KINDS)
def test_gradients_are_those_of_weakened_edges(aggregate, edge_vectors):
    torch.set_default_dtype(torch.float64)
    # Of two equal messages the first takes the gradient of the maximum, and a difference sees a kink: no multi-edges.
    triples = torch.unique(odd_triples(), dim=0)
    model = model_of(triples, layers=2, aggregate=aggregate, edge_vectors=edge_vectors)
    query, step = (0, 1, 5), 1e-6
    with torch.no_grad():
        factors, gradients = gradients_of(model, *query)
        assert len(factors.edges) > 10
        assert np.count_nonzero(np.abs(gradients) > 1e-6) > 10
        for layer in range(2):
            for place, edge in enumerate(factors.edges.tolist()):
                more, less = (weakened_score(model, query, (layer, edge), 1 + by) for by in (step, -step))
                assert gradients[layer, place] == pytest.approx((more - less) / (2 * step), abs=1e-6)
    torch.set_default_dtype(torch.float32)


def all_paths(factors, gradients, anchor):
    """Return the importance of every path without repeated entities: the mean gradient at the best layers."""
    ends = list(zip(factors.source.tolist(), factors.relation.tolist(), factors.destination.tolist(), strict=True))
    found = {}

    def walk(at, visited, edges):
        if edges and factors.to_answer[at] == 0:
            timings = combinations(range(len(gradients)), len(edges))
            total = max(sum(gradients[layer, e] for layer, e in zip(t, edges, strict=True)) for t in timings)
            steps = tuple(ends[e] for e in edges)
            found[steps] = max(total / len(edges), found.get(steps, -np.inf))
            return
        for edge, (u, _, v) in enumerate(ends):
            if u == at and len(edges) < len(gradients) and (v not in visited or factors.to_answer[v] == 0):
                walk(v, {*visited, v}, (*edges, edge))

    walk(anchor, {anchor}, ())
    return found


@pytest.mark.parametrize(("anchor", "answer"), [(0, 4), (5, 3), (2, 2), (1, 0)])
def test_the_search_finds_the_best_of_all_paths(model, anchor, answer, monkeypatch):
    monkeypatch.setattr(paths, "PATHS_OF_A_NODE", 10**4)
    factors, gradients = gradients_of(model, anchor, 1, answer)
    every = all_paths(factors, gradients, anchor)
    expected = {steps: importance for steps, importance in every.items() if importance > 0}
    assert len(every) > len(expected) > 2
    found = best_paths(factors, gradients, anchor, 10**4)
    assert [path.importance for path in found] == pytest.approx(sorted(expected.values(), reverse=True))
    steps = [tuple(zip(path.entities[:-1], path.relations, path.entities[1:], strict=True)) for path in found]
    assert len(steps) == len(expected)
    assert {of: path.importance for of, path in zip(steps, found, strict=True)} == pytest.approx(expected)
    assert all((path.entities[0], path.entities[-1]) == (anchor, answer) for path in found)
    assert best_paths(factors, gradients, anchor, 3) == found[:3]


def test_a_narrow_beam_finds_few_of_them(model, monkeypatch):
    factors, gradients = gradients_of(model, 0, 1, 4)
    best = max(all_paths(factors, gradients, 0).values())
    monkeypatch.setattr(paths, "PATHS_OF_A_NODE", 2)
    found = best_paths(factors, gradients, 0, 100)
    assert 0 < len(found) <= 2 * LAYERS
    assert found[0].importance <= best + 1e-12


def test_an_entity_out_of_reach_has_no_paths(model):
    assert model.explain(0, 1, 8, 5) == []
    assert model.explain(8, 1, 8, 5) == []


def test_too_little_memory_shortens_paths(model, monkeypatch):
    factors, _ = gradients_of(model, 0, 1, 4)
    assert factors.longest == LAYERS
    vectors = 2 * LAYERS * 16 * 8
    monkeypatch.setattr(paths, "FACTOR_BYTES", (len(factors.edges) - 1) * vectors)
    fewer, gradients = gradients_of(model, 0, 1, 4)
    assert 0 < len(fewer.edges) < len(factors.edges)
    assert fewer.longest < LAYERS
    found = best_paths(fewer, gradients, 0, 100)
    assert {len(path.relations) for path in found} <= set(range(1, fewer.longest + 1))
    monkeypatch.setattr(paths, "FACTOR_BYTES", 0)
    assert model.explain(0, 1, 4, 5) == []


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
