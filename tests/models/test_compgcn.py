"""When CompGCN encodes its graph, and what its edges weigh."""

import pytest
import torch

from relens.models.graph import Edges
from tests.models.small import OPTIONS, make


@pytest.fixture
def counted():
    """A model, and a list that grows by one whenever its graph is encoded."""
    model, calls = make("compgcn", OPTIONS["compgcn"][0]), []
    model.layers[0].register_forward_hook(lambda *_: calls.append(1))
    return model, calls


IDS = torch.tensor([0, 1])


def test_an_evaluation_encodes_the_graph_once(counted):
    model, calls = counted
    with torch.no_grad():
        first = model.score(model.encode(IDS, IDS))
        second = model.score(model.encode(IDS, IDS))
    assert len(calls) == 1
    assert torch.equal(first, second)


def change_a_parameter(model):
    with torch.no_grad():
        model.entity += 0.1


def load_other_parameters(model):
    model.load_state_dict(make("compgcn", OPTIONS["compgcn"][0], seed=1).state_dict())


def change_statistics(model):
    model.layers[0].norm.running_mean += 0.1


@pytest.mark.parametrize("change", [change_a_parameter, load_other_parameters, change_statistics])
def test_what_was_kept_does_not_outlive_a_change(counted, change):
    model, calls = counted
    with torch.no_grad():
        before = model.score(model.encode(IDS, IDS))
        change(model)
        after = model.score(model.encode(IDS, IDS))
    assert len(calls) == 2
    assert not torch.equal(before, after)


def test_what_was_kept_does_not_outlive_training(counted):
    model, calls = counted
    with torch.no_grad():
        model.encode(IDS, IDS)
        model.entity.data += 0.1  # a change that leaves no trace, as replayed CUDA graphs make
        model.train().eval().encode(IDS, IDS)
    assert len(calls) == 2


def test_training_encodes_the_graph_at_every_step(counted):
    model, calls = counted
    model.train()
    for _ in range(2):
        queries = model.encode(IDS, IDS)
        (model.score(queries, IDS.view(2, 1)).sum() + model.score(queries).sum()).backward()
    assert len(calls) == 2


def test_gradients_at_evaluation_are_not_lost_to_what_was_kept(counted):
    model, _ = counted
    with torch.no_grad():
        model.encode(IDS, IDS)
    model.score(model.encode(IDS, IDS)).sum().backward()
    assert model.entity.grad is not None


def test_anchors_and_candidates_share_one_dropped_out_matrix(counted):
    model, _ = counted
    queries = model.train().encode(IDS, IDS)
    torch.testing.assert_close(model.score(queries), queries.vector @ queries.table.T + model.bias)
    assert (queries.table == 0).any()


@pytest.mark.parametrize(("layers", "dropped"), [(1, False), (2, True)])
def test_the_second_layer_is_dropped_out_like_features(layers, dropped):
    options = OPTIONS["compgcn"][0] | {"layers": layers, "entity_dropout": 0.0, "feature_dropout": 0.9}
    x, _ = make("compgcn", options).train().graph()
    assert (x == 0).any() == dropped


def test_messages_of_entities_that_never_receive_are_dropped():
    edges = Edges(torch.tensor([(0, 0, 1), (0, 0, 2), (1, 0, 0)]), 3, 1)
    # 0 receives twice as a head, 1 once, 2 never; as tails all receive once.
    torch.testing.assert_close(edges.norm, torch.tensor([0.5**0.5, 0.0, 0.5**0.5, 1.0, 1.0, 1.0]))
    assert edges.sender.tolist() == [1, 2, 0, 0, 0, 1]
    assert edges.receiver.tolist() == [0, 0, 1, 4, 5, 3]
    assert edges.relation.tolist() == [0, 0, 0, 1, 1, 1]


def test_the_triples_are_not_parameters(counted):
    model, _ = counted
    assert not [key for key in model.state_dict() if key.startswith("edges")]
