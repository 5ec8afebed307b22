"""Scores against PyKEEN's interaction functions, on the same parameters."""

import math

import pytest
import torch

from tests.models.small import N_RELATIONS, OPTIONS, all_scores, make

interactions = pytest.importorskip("pykeen.nn.modules", reason="PyKEEN is not installed")


def tail_scores(model):
    """Return scores of queries for tails, (E, R, E)."""
    return all_scores(model)[:, :N_RELATIONS]


def slots(entity, relation):
    """Return heads, relations and tails so that they broadcast to (E, R, E, d)."""
    return entity[:, None, None], relation[None, :, None], entity[None, None]


def complex_rows(table):
    return torch.complex(*table.detach().chunk(2, dim=-1))


def test_transe():
    model = make("transe", OPTIONS["transe"][0])
    expected = interactions.TransEInteraction(p=1)(*slots(model.entity.detach(), model.relation.detach()))
    torch.testing.assert_close(tail_scores(model) - model.gamma, expected)


def test_rotate():
    """PyKEEN takes the Euclidean norm over coordinates, RotatE's authors and we the sum: one coordinate at a time."""
    model = make("rotate", OPTIONS["rotate"][0])
    turns = torch.exp(1j * model.relation.detach() * math.pi / 0.01)
    parts = zip(complex_rows(model.entity).split(1, dim=-1), turns.split(1, dim=-1), strict=True)
    expected = sum(interactions.RotatEInteraction()(*slots(*part)) for part in parts)
    torch.testing.assert_close(tail_scores(model) - model.gamma, expected)


def test_complex():
    model = make("complex", OPTIONS["complex"][0])
    rows = slots(complex_rows(model.entity), complex_rows(model.relation))
    torch.testing.assert_close(tail_scores(model), interactions.ComplExInteraction()(*rows))


def test_conve_in_the_original_layout():
    model = make("conve", OPTIONS["conve"][1])
    theirs = interactions.ConvEInteraction(
        output_channels=2, embedding_dim=12, embedding_height=4, embedding_width=3, input_channels=1
    ).eval()
    with torch.no_grad():
        for ours, module in (
            (model.image[0], theirs.hr2d[0]),
            (model.convolution, theirs.hr2d[2]),
            (model.features[0], theirs.hr2d[3]),
            (model.linear, theirs.hr1d[0]),
            (model.hidden[1], theirs.hr1d[2]),
        ):
            module.load_state_dict(ours.state_dict(), strict=False)
        theirs.hr2d[2].bias.zero_()
        head, relation, tail = slots(model.entity, model.relation[:N_RELATIONS])
        expected = theirs(head, relation, (tail, model.bias[None, None]))
    torch.testing.assert_close(tail_scores(model), expected)
