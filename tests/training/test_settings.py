import json

import pytest

from relens.errors import InputError
from relens.training.settings import SETTINGS, TrainSettings


def test_as_dict_goes_through_json_and_back() -> None:
    settings = TrainSettings(model="transe", options={"dim": 8}, schedule="steps", milestones=(5, 10), stop_after=3)
    assert TrainSettings.from_dict(json.loads(json.dumps(settings.as_dict()))) == settings


def test_whole_numbers_count_as_real_ones() -> None:
    assert TrainSettings(model="transe", lr=1).lr == 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lr": -0.1}, "`lr=-0.1`: expected 1e-12 to 1000"),
        ({"lr": float("nan")}, "`lr=nan`: expected"),
        ({"dropout": 1.0}, "`dropout=1.0`: expected 0.0 to 0.99"),
        ({"steps": 0}, "`steps=0`: expected 1 to"),
        ({"stop_after": 0}, "`stop_after=0`: expected 1 to"),
        ({"seed": -1}, "`seed=-1`: expected 0 to"),
        ({"batch": 1.5}, "`batch=1.5`: expected a whole number"),
        ({"batch": True}, "`batch=True`: expected a whole number"),
        ({"row_weights": "yes"}, "`row_weights='yes'`: expected true or false"),
        ({"milestones": [1.5]}, "`milestones=.*expected a list of steps"),
        ({"loss": "bce_avd"}, "`loss='bce_avd'`: .*did you mean 'bce_adv'"),
        ({"optimiser": "sgd"}, "`optimiser='sgd'`: expected one of adam, adagrad"),
        ({"initialiser": 3}, "`initialiser=3`: expected one of"),
        ({"batch": 10, "pool_rows": 4}, "`batch=10` is not a multiple of `pool_rows=4`.*divisor"),
        ({"loss": "kvsall", "row_weights": True}, "`row_weights=true` with `loss=kvsall`.*set `row_weights=false`"),
        ({"loss": "kvsall", "regulariser": "n3"}, "`regulariser=n3` with `loss=kvsall`"),
        (
            {"relation_weight": 0.3},
            "`relation_weight=0.3`, but transe cannot score relations; complex, autoblm, complex-rp can: set",
        ),
        ({"relation_weight": -1}, "`relation_weight=-1.0`: expected 0.0 to"),
        (
            {"model": "complex", "relation_weight": 0.3, "loss": "kvsall"},
            "`relation_weight=0.3` with `loss=kvsall`.*set `relation_weight=0`",
        ),
        ({"clip": 0.0}, "`clip=0.0`: expected 1e-12 to"),
        ({"averaging": 1.0}, "`averaging=1.0`: expected 0.0 to 0.999999"),
        ({"focus": 1.5}, "`focus=1.5`: expected 0.0 to 1.0"),
        ({"weight_decay": 0.1, "optimiser": "adagrad"}, "`weight_decay=0.1` with `optimiser=adagrad`: only adam"),
        ({"schedule": "steps"}, "`schedule=steps` with `milestones="),
        ({"milestones": (5,)}, "the others have none"),
        ({"schedule": "steps", "milestones": (10, 5)}, "expected increasing steps"),
    ],
)
def test_values_out_of_range_are_refused(changes, message) -> None:
    with pytest.raises(InputError, match=message):
        TrainSettings(**{"model": "transe", **changes})


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="unknown setting 'negative'; did you mean 'negatives'"):
        TrainSettings.from_dict({"model": "transe", "negative": 3})


def test_every_setting_is_described() -> None:
    assert all(setting.help.endswith(".") for setting in SETTINGS.values())
    assert SETTINGS["lr"].describe(0.001) == "default: 0.001"
    assert SETTINGS["optimiser"].describe("adam") == "adam, adagrad; default: adam"
    assert SETTINGS["stop_after"].describe(None) == "default: none"
    assert SETTINGS["tf32"].describe(True) == "default: true"
