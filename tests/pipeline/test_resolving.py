"""The settings of the members of a plan: several seeds. Other cases are in ``test_plan`` and ``test_run``."""

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from relens.errors import InputError
from relens.pipeline.plan import Plan
from relens.pipeline.resolving import settings_of, with_seeds
from relens.training.settings import TrainSettings


def seeds_of(plan):
    return {name: settings.seed for name, settings in settings_of(plan, "patterns", on_cpu=True).items()}


def test_seeds_are_further_members():
    plan = Plan(models=("complex", "rotate"), seed=5, seeds=3)
    assert seeds_of(plan) == {
        "complex": 5, "rotate": 5, "complex-2": 6, "complex-3": 7, "rotate-2": 6, "rotate-3": 7
    }  # fmt: skip
    found = settings_of(plan, "patterns", on_cpu=True)
    assert {**found["complex"].as_dict(), "seed": 7} == found["complex-3"].as_dict()


def test_names_and_seeds_that_the_plan_has_are_left_out():
    plan = Plan(models=("rotate", "rotate-2"), seeds=2).with_changes(["rotate-2.model=rotate", "rotate-2.seed=1"])
    assert seeds_of(plan) == {"rotate": 0, "rotate-2": 1, "rotate-3": 2, "rotate-2-2": 3}


def test_one_seed_changes_nothing():
    settings = {"a": TrainSettings("transe", seed=3)}
    assert with_seeds(settings, 1) == settings


@pytest.mark.parametrize("seeds", [0, -1])
def test_fewer_than_one_seed_is_refused(seeds):
    with pytest.raises(InputError, match=f"`seeds={seeds}`: expected at least 1"):
        Plan(seeds=seeds)
