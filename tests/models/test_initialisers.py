"""How parameters are drawn."""

import math

import pytest
import torch

from relens.errors import InputError
from relens.models import MODELS
from relens.models.embedding import INITIALISERS, fill
from tests.models.small import CASES, IDS, N_ENTITIES, N_RELATIONS, TRIPLES


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("name", "bound", "deviation"),
    [
        ("uni", 0.01, 0.01 / math.sqrt(3)),
        ("norm", math.inf, 0.01),
        ("x_uni", math.sqrt(6 / 500), math.sqrt(2 / 500)),
        ("x_norm", math.inf, math.sqrt(2 / 500)),
    ],
)
def test_named_initialisers(name, bound, deviation):
    table = torch.empty(400, 100)
    fill(table, name, generator())
    assert table.abs().max() < bound
    assert table.std().item() == pytest.approx(deviation, rel=0.02)
    assert abs(table.mean().item()) < 0.02 * deviation


def test_the_table_is_covered_above():
    assert list(INITIALISERS) == ["uni", "norm", "x_uni", "x_norm"]


def test_an_unknown_initialiser_is_an_error():
    with pytest.raises(InputError, match=r"^unknown `initialiser=x_nrm`; did you mean 'x_norm'"):
        MODELS["transe"].build(3, 1, {"dim": 2}).initialise("x_nrm", generator())


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_the_generator_decides_all_parameters(name, options):
    first, second, third = (MODELS[name].build(N_ENTITIES, N_RELATIONS, options, TRIPLES) for _ in range(3))
    state = torch.get_rng_state()
    first.initialise("uni", generator())
    second.initialise("uni", generator())
    third.initialise("uni", generator(1))
    assert torch.equal(torch.get_rng_state(), state)
    for (key, a), b, c in zip(first.named_parameters(), second.parameters(), third.parameters(), strict=True):
        assert torch.equal(a, b), key
        constant = a.numel() == 0 or a.unique().numel() == 1  # batch norms and biases
        assert constant or not torch.equal(a, c), key


def test_tables_follow_the_name():
    model = MODELS["rotate"].build(300, 20, {"dim": 50})
    model.initialise("norm", generator())
    assert model.entity.std().item() == pytest.approx(0.01, rel=0.05)
    assert model.relation.std().item() == pytest.approx(0.01, rel=0.1)
    model.initialise(None, generator())
    assert model.entity.std().item() == pytest.approx(math.sqrt(2 / 350), rel=0.05)
    assert model.relation.std().item() == pytest.approx(math.sqrt(2 / 45), rel=0.1)


@pytest.mark.parametrize(
    ("options", "bound"),
    [
        ({"dim": 800, "block": 8, "gamma": 6.0}, 0.02828),
        ({"dim": 600, "block": 20, "projections": 6, "gamma": 5.0}, 0.05217),
    ],
)
def test_house_has_a_rule_of_its_own(options, bound):
    model = MODELS["house"].build(20, 5, options)
    model.initialise("norm", generator())
    for table in (model.entity, model.relation):
        assert table.abs().max().item() == pytest.approx(bound, rel=2e-3)
    assert torch.equal(model.strength[:, 1], -model.strength[:, 0])
    assert 0 < model.strength.abs().max() < 0.01
    assert 0.95 < model.block_strength.abs().max() < 1


def test_compgcn_draws_every_matrix_from_xaviers_normal():
    model = MODELS["compgcn"].build(200, 50, {"dim": 60, "init_dim": 40, "filters": 2, "height": 10}, TRIPLES)
    model.initialise("uni", generator())
    matrices = [model.entity, model.relation, *model.layers[0].weight, *model.layers[1].weight]
    for matrix in (*matrices, model.layers[0].relation_weight, model.layers[1].relation_weight):
        assert matrix.std().item() == pytest.approx(math.sqrt(2 / sum(matrix.shape)), rel=0.06)
    assert model.layers[0].loop_relation.std().item() == pytest.approx(math.sqrt(2 / 41), rel=0.4)


@pytest.mark.parametrize("name", ["autoblm", "triplere"])
def test_models_with_a_rule_of_their_own_follow_a_name_as_well(name):
    model = MODELS[name].build(300, 50, {"dim": 40})
    model.initialise("norm", generator())
    for table in (model.entity, model.relation):
        assert table.std().item() == pytest.approx(0.01, rel=0.05)


def test_autoblm_begins_with_a_deviation_of_its_own():
    model = MODELS["autoblm"].build(300, 50, {"dim": 40})
    model.initialise(None, generator())
    for table in (model.entity, model.relation):
        assert table.std().item() == pytest.approx(0.1, rel=0.05)


def test_triplere_begins_within_its_margin():
    model = MODELS["triplere"].build(300, 50, {"dim": 5000, "gamma": 12.0})
    model.initialise(None, generator())
    for table in (model.entity, model.relation):
        assert table.abs().max().item() == pytest.approx(14 / 5000, rel=1e-3)
