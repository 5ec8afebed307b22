"""Names and options of models, and what is said about wrong ones."""

import math

import pytest
import torch

from relens.errors import InputError, nearest
from relens.models import MODELS

BEYOND = "`{}` of TransE is a whole number beyond ±2,147,483,648, expected a smaller one"


@pytest.mark.parametrize("name", ["TransE", "transe", "TRANSE"])
def test_names_ignore_case(name):
    assert MODELS.find(name) is MODELS["transe"]
    assert type(MODELS.find(name).build(3, 1, {"dim": 2})) is MODELS["transe"].model


def test_options_are_filled_up_with_defaults():
    rotate, house = MODELS["rotate"], MODELS["house"]
    assert rotate.resolve_options({"gamma": 9}) == {"dim": 1000, "gamma": 9.0, "shared_inverse": True}
    assert type(rotate.resolve_options({"gamma": 9})["gamma"]) is float
    assert house.resolve_options({"reflections": None})["reflections"] is None
    assert house.resolve_options({"reflections": 0})["reflections"] == 0
    assert rotate.options == {"dim": 1000, "gamma": 6.0, "shared_inverse": True}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("trense", {}, "unknown model 'trense'; did you mean 'transe'?"),
        ("xyz", {}, f"unknown model 'xyz'; {nearest('xyz', MODELS)}"),
        ("conve", {"chanels": 3}, "ConvE has no option 'chanels'; did you mean 'channels'?"),
        ("complex", {"gamma": 3}, f"ComplEx has no option 'gamma'; {nearest('gamma', ['dim', 'shared_inverse'])}"),
        ("transe", {"dim": 0}, "`dim=0` of TransE: expected a whole number of at least 1"),
        ("transe", {"dim": 2.5}, "`dim=2.5` of TransE: expected a whole number of at least 1"),
        ("transe", {"dim": 10**5000}, BEYOND.format("dim")),
        ("transe", {"gamma": -9 * 10**9}, BEYOND.format("gamma")),
        ("transe", {"dim": True}, "`dim=True` of TransE: expected a whole number of at least 1"),
        ("transe", {"gamma": -1}, "`gamma=-1` of TransE: expected a number of at least 0"),
        ("transe", {"gamma": math.nan}, "`gamma=nan` of TransE: expected a number of at least 0"),
        ("transe", {"gamma": math.inf}, "`gamma=inf` of TransE: expected a number of at least 0"),
        ("transe", {"gamma": "6"}, "`gamma='6'` of TransE: expected a number of at least 0"),
        ("transe", {"shared_inverse": 1}, "`shared_inverse=1` of TransE: expected true or false"),
        ("autoblm", {"dim": 6}, "`dim=6` of AutoBLM: expected a multiple of 4, because vectors have four quarters"),
        ("stargraph", {"features": 3}, "`features=3` of StarGraph: expected a text"),
        ("house", {"reflections": -1}, "`reflections=-1` of HousE: expected a whole number of at least 0"),
        ("house", {"dim": 5, "block": 6}, "`dim=5` of HousE: expected at least `block=6`"),
        ("rotate", {"dim": 5}, "`dim=5` of RotatE: expected an even number, real and imaginary parts"),
        ("complex", {"dim": 5}, "`dim=5` of ComplEx: expected an even number, real and imaginary parts"),
        (
            "conve",
            {"hidden_dropout": 1.0},
            "`hidden_dropout=1.0` of ConvE: expected a number of at least 0 and below 1",
        ),
        (
            "conve",
            {"dim": 50},
            "`dim=50` and `height=20` of ConvE: expected a height of at least 2, and a dim that is a multiple of it, "
            "at least 3 times",
        ),
        ("compgcn", {"layers": 3}, "`layers=3` of CompGCN: expected a whole number of at least 1 and below 3"),
        ("compgcn", {"composition": "cor"}, "`composition='cor'` of CompGCN: did you mean 'corr'?"),
        ("compgcn", {"composition": ["corr"]}, "`composition=['corr']` of CompGCN: did you mean 'corr'?"),
        (
            "compgcn",
            {"dim": 60},
            "`dim=60`, `height=20` and `kernel=7` of CompGCN: expected an image of 2·dim numbers in height full rows, "
            "no side shorter than the kernel",
        ),
    ],
)
def test_wrong_names_and_options_are_explained(name, options, message):
    with pytest.raises(InputError) as caught:
        MODELS.find(name).build(3, 1, options, torch.zeros(1, 3, dtype=torch.long))
    assert str(caught.value) == message


def test_compgcn_needs_the_triples():
    with pytest.raises(InputError, match=r"^CompGCN encodes the training graph: pass `triples=…`$"):
        MODELS["compgcn"].build(3, 1)
