"""Neighbours and anchors against sets and searches over Python's own integers."""

import numpy as np
import pytest
import torch

from relens.errors import InputError
from relens.models import MODELS, token_model
from relens.models.tokens import MISSING, nearest_anchors, neighbours_of
from tests.models.small import N_ENTITIES, OPTIONS, all_queries, all_scores, make

N = 30


def random_graph(seed, n):
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randint(high, (n,), generator=generator) for high in (N, 3, N)], dim=1)


def degree_of(triples):
    ends = [entity for h, _, t in triples.tolist() for entity in (h, t)]
    return {entity: ends.count(entity) for entity in range(N)}


def filled(values, most):
    return (values + [MISSING] * most)[:most]


@pytest.mark.parametrize("side", ["out", "in", "both"])
@pytest.mark.parametrize(("seed", "n"), [(0, 20), (1, 60), (2, 300)])
def test_neighbours_are_those_of_highest_degree(seed, n, side):
    triples = random_graph(seed, n)
    degree = degree_of(triples)
    found = neighbours_of(triples, N, 4, side)
    for entity, row in enumerate(found.tolist()):
        after = {t for h, _, t in triples.tolist() if h == entity}
        before = {h for h, _, t in triples.tolist() if t == entity}
        others = {"out": after, "in": before, "both": after | before}[side] - {entity}
        assert row == filled(sorted(others, key=lambda e: (-degree[e], e)), 4)


def distances_from(entity, triples):
    """Search breadth first along triples in either direction."""
    distance, ring, steps = {}, {entity}, 0
    while ring:
        distance |= dict.fromkeys(ring, steps)
        ends = [(a, b) for h, _, t in triples.tolist() for a, b in ((h, t), (t, h))]
        ring, steps = {b for a, b in ends if a in ring} - distance.keys(), steps + 1
    return distance


@pytest.mark.parametrize(("seed", "n"), [(0, 15), (1, 30), (2, 60), (3, 300)])
@pytest.mark.parametrize(("n_anchors", "most"), [(6, 3), (30, 5), (1, 2), (4, 9)])
def test_anchors_are_the_nearest(seed, n, n_anchors, most):
    triples = random_graph(seed, n)
    degree = degree_of(triples)
    anchors = sorted(range(N), key=lambda e: (-degree[e], e))[:n_anchors]
    found = nearest_anchors(triples, N, n_anchors, most)
    for entity, row in enumerate(found.tolist()):
        distance = distances_from(entity, triples)
        reached = [number for number, anchor in enumerate(anchors) if anchor in distance]
        assert row == filled(sorted(reached, key=lambda number: (distance[anchors[number]], number)), most)


@pytest.mark.parametrize("name", ["stargraph", "interht"])
def test_entities_encoded_in_pieces_are_the_same(name, monkeypatch):
    model = make(name, OPTIONS[name][0])
    whole = all_scores(model)
    monkeypatch.setattr(token_model, "PIECE", 2)
    model.eval()  # forgets what was kept
    torch.testing.assert_close(all_scores(model), whole)


@pytest.mark.parametrize("name", ["stargraph", "interht"])
def test_kept_entities_follow_the_parameters(name):
    model = make(name, OPTIONS[name][0])
    before = all_scores(model)
    kept = model._kept
    assert torch.equal(all_scores(model), before)
    assert model._kept is kept
    with torch.no_grad():
        model.anchor += 0.5
    assert not torch.allclose(all_scores(model), before)


@pytest.mark.parametrize("name", ["stargraph", "interht"])
def test_heads_divide_the_dimension(name):
    with pytest.raises(InputError, match=r"`dim=9` of (StarGraph|InterHT): expected a multiple of `heads=4`"):
        MODELS[name].build(3, 1, {"dim": 9, "heads": 4}, torch.tensor([[0, 0, 1]]))


@pytest.fixture
def features(tmp_path):
    path = tmp_path / "features.npy"
    np.save(path, np.random.default_rng(0).normal(size=(N_ENTITIES, 5)).astype(np.float32))
    return str(path)


def test_features_stand_in_for_the_table_of_entities(features):
    model = make("stargraph", {**OPTIONS["stargraph"][0], "features": features})
    given = torch.from_numpy(np.load(features)).double()
    assert torch.equal(model.entity, given)
    plain = make("stargraph", {**OPTIONS["stargraph"][0], "token_dim": 5})
    assert plain.n_parameters - model.n_parameters == given.numel()
    with torch.no_grad():
        for name, value in plain.named_parameters():
            value.copy_(model.get_parameter(name))
    torch.testing.assert_close(all_scores(model), all_scores(plain.eval()))
    (model.score(model.encode(*all_queries())) * torch.randn(54, 9)).sum().backward()
    assert model.entity.grad is None
    assert model.linear.weight.grad.abs().max() > 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((4, 2)), "has 4 rows, expected 9: one per entity, in the order of the labels"),
        (np.zeros(9), r"holds float64 of shape \(9,\), expected an array of real numbers, one row per entity"),
        (np.zeros((9, 2), dtype=int), "holds int64 of shape"),
        (np.full((9, 2), np.nan), "holds non-finite numbers"),
        (np.array([{}]), "cannot be read as a plain .npy array .it holds '|O', expected numbers"),
        (None, "features.npy does not exist"),
    ],
)
def test_wrong_features_are_refused(tmp_path, values, message):
    path = tmp_path / "features.npy"
    if values is not None:
        np.save(path, values, allow_pickle=True)
    with pytest.raises(InputError, match=message):
        make("stargraph", {**OPTIONS["stargraph"][0], "features": str(path)})


def test_several_arrays_are_no_features(tmp_path):
    path = tmp_path / "features.npz"
    np.savez(path, a=np.zeros((9, 2)))
    with pytest.raises(InputError, match=r"features\.npz cannot be read as a plain \.npy array"):
        make("stargraph", {**OPTIONS["stargraph"][0], "features": str(path)})
