"""Names and options of models, and what is said about wrong ones."""

import math

import pytest
import torch

from relens.errors import InputError
from relens.models import MODELS, build, resolve_name, resolve_options


@pytest.mark.parametrize("name", ["TransE", "transe", "TRANSE"])
def test_names_ignore_case(name):
    assert resolve_name(name) == "transe"
    assert type(build(name, 3, 1, {"dim": 2})) is MODELS["transe"]


def test_options_are_filled_up_with_defaults():
    assert resolve_options("RotatE", {"gamma": 9}) == {"dim": 1000, "gamma": 9.0, "shared_inverse": True}
    assert type(resolve_options("rotate", {"gamma": 9})["gamma"]) is float
    assert resolve_options("house", {"reflections": None})["reflections"] is None
    assert resolve_options("house", {"reflections": 0})["reflections"] == 0


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("trense", {}, "there is no model 'trense': did you mean 'transe'?"),
        ("xyz", {}, "there is no model 'xyz': available: " + ", ".join(map(repr, MODELS))),
        ("conve", {"chanels": 3}, "ConvE has no option 'chanels': did you mean 'channels'?"),
        ("complex", {"gamma": 3}, "ComplEx has no option 'gamma': available: 'dim', 'shared_inverse'"),
        ("transe", {"dim": 0}, "dim of TransE is 0, expected a whole number of at least 1"),
        ("transe", {"dim": 2.5}, "dim of TransE is 2.5, expected a whole number of at least 1"),
        ("transe", {"dim": True}, "dim of TransE is True, expected a whole number of at least 1"),
        ("transe", {"gamma": -1}, "gamma of TransE is -1.0, expected a number of at least 0"),
        ("transe", {"gamma": math.nan}, "gamma of TransE is nan, expected a number of at least 0"),
        ("transe", {"gamma": math.inf}, "gamma of TransE is inf, expected a number of at least 0"),
        ("transe", {"gamma": "6"}, "gamma of TransE is '6', expected a number of at least 0"),
        ("transe", {"shared_inverse": 1}, "shared_inverse of TransE is 1, expected true or false"),
        ("autoblm", {"dim": 6}, "dim of AutoBLM is 6, expected a multiple of 4: its vectors have four quarters"),
        ("stargraph", {"features": 3}, "features of StarGraph is 3, expected a text"),
        ("house", {"reflections": -1}, "reflections of HousE is -1, expected a whole number of at least 0"),
        ("house", {"dim": 5, "block": 6}, "dim of HousE is 5, expected at least one block, 6"),
        ("rotate", {"dim": 5}, "dim of RotatE is 5, expected an even number: real and imaginary parts"),
        ("complex", {"dim": 5}, "dim of ComplEx is 5, expected an even number: real and imaginary parts"),
        (
            "conve",
            {"hidden_dropout": 1.0},
            "hidden_dropout of ConvE is 1.0, expected a number of at least 0 and below 1",
        ),
        (
            "conve",
            {"dim": 50},
            "dim of ConvE is 50 and height 20, expected a height of at least 2 and a dim that is a multiple of it, "
            "3 times or more",
        ),
        ("compgcn", {"layers": 3}, "layers of CompGCN is 3, expected a whole number of at least 1 and below 3"),
        ("compgcn", {"composition": "cor"}, "composition of CompGCN is 'cor': did you mean 'corr'?"),
        ("compgcn", {"composition": ["corr"]}, "composition of CompGCN is ['corr']: did you mean 'corr'?"),
        (
            "compgcn",
            {"dim": 60},
            "dim of CompGCN is 60, height 20 and kernel 7: expected an image of 2·dim numbers in height full rows, "
            "no side shorter than the kernel",
        ),
    ],
)
def test_wrong_names_and_options_are_explained(name, options, message):
    with pytest.raises(InputError) as caught:
        build(name, 3, 1, options, torch.zeros(1, 3, dtype=torch.long))
    assert str(caught.value) == message


def test_compgcn_needs_the_triples():
    with pytest.raises(InputError, match=r"^CompGCN encodes the training graph: pass the training triples$"):
        build("compgcn", 3, 1)
