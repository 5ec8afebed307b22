"""Propagation on a CPU: the states of plain PyTorch and of a loop, and the same bits in every batch."""

import numpy as np
import pytest
import torch

from relens.data.queries import Queries
from relens.models import cpu, cpu_propagation, cpu_propagation_kernels, propagation
from relens.models.nbfnet import NBFNet
from relens.models.propagation import Graph
from relens.ranking.scoring import score_queries
from tests.models.test_propagation import KINDS, N_ENTITIES, N_RELATIONS, loop, odd_triples, random_layers


@pytest.fixture(autouse=True)
def single_precision():
    torch.set_default_dtype(torch.float32)


def compiled(query, anchor, layers, graph, removed=None):
    with torch.no_grad():
        assert cpu_propagation.usable(query)
        return propagation.propagate(query, anchor, layers, graph, graph.without(removed, query.dtype))


@pytest.mark.kernels
@pytest.mark.parametrize("aggregate", ["pna", "sum"])
def test_a_layer_equals_a_loop(aggregate):
    query, anchor = torch.randn(1, 3), torch.tensor([5])
    layers = random_layers(aggregate, "independent", 1, 3, n_layers=2)
    found = compiled(query, anchor, layers, Graph(odd_triples(), N_ENTITIES, N_RELATIONS))
    torch.testing.assert_close(found, loop(query, anchor, layers, odd_triples()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("aggregate", "edge_vectors"), KINDS)
@pytest.mark.parametrize("width", [2, 32, 35])
def test_layers_of_several_queries_equal_a_loop(aggregate, edge_vectors, width):
    query, anchor = torch.randn(3, width), torch.tensor([5, 8, 2])  # 8 has no edges, 2 has one to itself
    layers = random_layers(aggregate, edge_vectors, 3, width, n_layers=3)
    found = compiled(query, anchor, layers, Graph(odd_triples(), N_ENTITIES, N_RELATIONS))
    torch.testing.assert_close(found, loop(query, anchor, layers, odd_triples()), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("aggregate", ["pna", "sum"])
@pytest.mark.parametrize("kept", ["some", "none"])
def test_removed_edges_send_nothing(aggregate, kept):
    graph = Graph(odd_triples(), N_ENTITIES, N_RELATIONS)
    removed = torch.arange(graph.n_edges) % 3 == 0 if kept == "some" else torch.ones(graph.n_edges, dtype=torch.bool)
    query, anchor = torch.randn(2, 5), torch.tensor([5, 2])
    layers = random_layers(aggregate, "dependent", 2, 5)
    expected = propagation.plain(query, anchor, layers, graph, graph.without(removed, query.dtype)).detach()
    torch.testing.assert_close(compiled(query, anchor, layers, graph, removed), expected, rtol=1e-4, atol=1e-5)


def crowd(n_entities):
    """Return a graph of several tiles of entities, and a hub."""
    generator = torch.Generator().manual_seed(1)
    columns = [torch.randint(n, (4 * n_entities,), generator=generator) for n in (n_entities, N_RELATIONS, n_entities)]
    triples = torch.stack(columns, dim=1)
    triples[: n_entities // 2, 0] = 7
    return triples


def model_of(n_entities, **options):
    model = NBFNet(n_entities, N_RELATIONS, crowd(n_entities), **options)
    model.initialise(None, torch.Generator().manual_seed(0))
    return model.eval()


@pytest.mark.parametrize("aggregate", ["pna", "sum"])
def test_several_tiles_and_threads_are_scored_as_by_plain_pytorch(aggregate, monkeypatch):
    n_entities = 2 * cpu_propagation_kernels.WIDTH + 9
    model = model_of(n_entities, width=20, layers=3, aggregate=aggregate)
    anchor, relation = torch.tensor([7, 100]), torch.tensor([1, 4])
    with torch.no_grad():
        alone = model.score(model.encode(anchor, relation))
        monkeypatch.setattr(cpu, "SMALL", 1)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
        assert torch.equal(model.score(model.encode(anchor, relation)), alone)
        monkeypatch.setattr(cpu, "usable", lambda vector: False)
        torch.testing.assert_close(alone, model.score(model.encode(anchor, relation)), rtol=1e-4, atol=1e-5)


def test_given_candidates_have_the_scores_that_they_have_among_all():
    model = model_of(150, width=6, layers=2)
    anchor, relation = torch.tensor([7, 100]), torch.tensor([1, 4])
    with torch.no_grad():
        encoded = model.encode(anchor, relation)
        every = model.score(encoded)
        candidates = torch.tensor([[0, 149, 7], [3, 3, 100]])
        assert torch.equal(model.score(encoded, candidates), every.gather(1, candidates))
        assert torch.equal(model.score(encoded, candidates[:1]), every[:, candidates[0]])


@pytest.mark.parametrize("options", [{}, {"edge_vectors": "independent"}, {"aggregate": "sum"}])
def test_the_scores_of_a_query_have_the_same_bits_alone_in_a_batch_and_in_any_order(options):
    model = model_of(150, width=5, layers=2, **options)
    rng = np.random.default_rng(0)
    columns = [rng.integers(size, size=70) for size in (150, N_RELATIONS, 2)]
    queries = Queries.from_columns(np.array([*columns, np.zeros(70, int), np.zeros(70, int)]))
    together = score_queries(model, queries)
    for some in (np.array([4]), np.array([69]), np.arange(70)[::-1].copy(), np.array([3, 3, 5])):
        assert torch.equal(score_queries(model, queries[some]), together[some])


def test_one_question_is_propagated_once(monkeypatch):
    model = model_of(20, width=4, layers=2)
    encoded = []
    monkeypatch.setattr(model, "encode", lambda *query: encoded.append(len(query[0])) or NBFNet.encode(model, *query))
    score_queries(model, Queries.from_columns(np.zeros((5, 3), int)))
    assert encoded == [1, 1, 1]


def test_states_that_are_not_finite_stay_so():
    query, anchor = torch.tensor([[1.0, torch.nan]]), torch.tensor([5])
    layers = random_layers("pna", "independent", 1, 2)
    found = compiled(query, anchor, layers, Graph(odd_triples(), N_ENTITIES, N_RELATIONS))
    assert found[5].isnan().all()


def test_gradients_and_double_precision_take_another_way():
    assert not cpu_propagation.usable(torch.zeros(1, 2))
    with torch.no_grad():
        assert not cpu_propagation.usable(torch.zeros(1, 2).double())
