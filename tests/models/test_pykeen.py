"""Scores against PyKEEN's interaction functions, on the same parameters."""

import math

import pytest
import torch

from tests.models.small import N_RELATIONS, OPTIONS, all_scores, make

interactions = pytest.importorskip("pykeen.nn.modules", reason="PyKEEN is not installed")


def slots(entity, relation):
    """Return heads, relations and tails so that they broadcast to (E, R, E, d)."""
    return entity[:, None, None], relation[None, :, None], entity[None, None]


def complex_rows(table):
    return torch.complex(*table.detach().chunk(2, dim=-1))


def assert_triples_score(model, expected, margin=0.0):
    """Check the scores of all triples, ``expected`` (E, R, E), asked for by tail and by head."""
    scores = all_scores(model) - margin
    torch.testing.assert_close(scores[:, :N_RELATIONS], expected)
    if model.shared_inverse:
        torch.testing.assert_close(scores[:, N_RELATIONS:].permute(2, 1, 0), expected)


def test_transe():
    model = make("transe", OPTIONS["transe"][0])
    expected = interactions.TransEInteraction(p=1)(*slots(model.entity.detach(), model.relation.detach()))
    assert_triples_score(model, expected, model.gamma)


def test_rotate():
    """PyKEEN takes the Euclidean norm over coordinates, RotatE's authors and we the sum: one coordinate at a time."""
    model = make("rotate", OPTIONS["rotate"][0])
    turns = torch.exp(1j * model.relation.detach() * math.pi / 0.01)
    parts = zip(complex_rows(model.entity).split(1, dim=-1), turns.split(1, dim=-1), strict=True)
    expected = sum(interactions.RotatEInteraction()(*slots(*part)) for part in parts)
    assert_triples_score(model, expected, model.gamma)


def test_complex():
    model = make("complex", OPTIONS["complex"][0])
    rows = slots(complex_rows(model.entity), complex_rows(model.relation))
    assert_triples_score(model, interactions.ComplExInteraction()(*rows))


def test_autoblm():
    model = make("autoblm", OPTIONS["autoblm"][0])
    theirs = interactions.AutoSFInteraction([(0, 0, 0, 1), (1, 1, 1, 1), (2, 2, 3, 1), (3, 3, 2, 1)])
    head, relation, tail = (part.chunk(4, dim=-1) for part in slots(model.entity.detach(), model.relation.detach()))
    assert_triples_score(model, theirs(head, relation, tail))


def test_triplere():
    """PyKEEN leaves the lengths of entities, and the factor of the translation, to the representations."""
    model = make("triplere", OPTIONS["triplere"][0])
    head, relation, tail = slots(torch.nn.functional.normalize(model.entity.detach()), model.relation.detach())
    of_heads, of_tails, translation = relation.chunk(3, dim=-1)
    theirs = interactions.TripleREInteraction(u=model.offset)
    assert_triples_score(model, theirs(head, (of_heads, model.offset * translation, of_tails), tail), model.gamma)


def test_conve_in_the_original_layout():
    model = make("conve", OPTIONS["conve"][1])
    # The width follows: PyKEEN refuses to be given all four sizes, even where they agree.
    theirs = interactions.ConvEInteraction(
        input_channels=1, output_channels=2, embedding_dim=12, embedding_height=4
    ).eval()
    with torch.no_grad():
        for ours, module in (
            (model.image[0], theirs.hr2d[0]),
            (model.features[0], theirs.hr2d[3]),
            (model.linear, theirs.hr1d[0]),
            (model.hidden[1], theirs.hr1d[2]),
        ):
            module.load_state_dict(ours.state_dict())
        theirs.hr2d[2].weight.copy_(model.convolution.weight)
        theirs.hr2d[2].bias.zero_()  # relens has none: the batch norm that follows takes it away
        head, relation, tail = slots(model.entity, model.relation[:N_RELATIONS])
        expected = theirs(head, relation, (tail, model.bias[None, None]))
    assert_triples_score(model, expected)
