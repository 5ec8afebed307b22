"""The Python API: a few names, loaded when first used, that do what the verbs do in a few lines."""

import importlib
import subprocess
import sys
from typing import Any

import pytest

import relens
from tests import simulated


@pytest.mark.parametrize("name", relens.__all__)
def test_every_public_name_resolves(name):
    value = getattr(relens, name)
    assert getattr(relens, name) is value
    if name != "__version__":
        module, _, attribute = relens._PUBLIC[name].partition(":")
        assert value is getattr(importlib.import_module(module), attribute)
        assert value.__doc__


def test_dir_names_what_all_names():
    script = "import relens; print(sorted(set(relens.__all__) - set(dir(relens))))"  # before any of them is loaded
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert dir(relens) == sorted(dir(relens))
    assert len(set(relens.__all__)) == len(relens.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'relens' has no attribute 'fti'"):
        _ = relens.fti
    assert not hasattr(relens, "searches")


def test_names_are_loaded_when_first_used():
    script = "import sys, relens; before = 'numba' in sys.modules; relens.fit; print(before, 'numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"


def test_type_checkers_see_the_same_names():
    """Names under TYPE_CHECKING and the table of lazy names do not drift apart."""
    with open(relens.__file__, encoding="utf-8") as file:
        text = file.read()
    for name, place in relens._PUBLIC.items():
        module, _, attribute = place.partition(":")
        assert f"    from {module} import {attribute} as {name}" in text


def test_fit_evaluate_compare_in_ten_lines():
    simulation = relens.Simulation(
        ("alpha", "beta", "gamma"), (3, 6, 9, 12), 30, level=(1.2, 1.0), skill=0.8, noise=0.5, agreement=0.3, seed=36
    )
    valid, test = simulation.packed("valid"), simulation.packed("test")
    weights = relens.fit(valid, method="dsc", input="rank")
    evaluation = relens.evaluate(test, weights, reference="gamma")
    comparison = relens.compare(valid, test, ["mean", "dsc:input=rank"])

    by_loop = simulated.mrr_by_loop("test", simulated.weights_of(weights.to_json()))
    assert evaluation.overall.mrr == pytest.approx(by_loop, abs=1e-12)
    assert evaluation.paired.reference == "gamma"
    gamma = simulated.model_mrr_by_loop("test", "gamma")
    assert evaluation.paired.difference == pytest.approx(by_loop - gamma, abs=1e-12)
    assert comparison.evaluations[-1].overall == evaluation.overall
    assert comparison.weights["dsc:input=rank"].table.tolist() == weights.table.tolist()


def test_ranks_and_weights_are_kept_and_read_again(tmp_path):
    valid, test = simulated.packed("valid"), simulated.packed("test")
    relens.save_ranks(valid, tmp_path / "valid")
    relens.save_ranks(test, tmp_path / "test")
    weights = relens.fit(relens.load_ranks(tmp_path / "valid"), method="greedy")
    weights.save(tmp_path / "w.json")
    again = relens.EnsembleWeights.load(tmp_path / "w.json")
    evaluated: Any = [
        relens.evaluate(ranks, w) for ranks, w in ((test, weights), (relens.load_ranks(tmp_path / "test"), again))
    ]
    assert evaluated[0] == evaluated[1]
    assert evaluated[0].name == "greedy"


def test_wrong_settings_are_refused_before_any_work():
    with pytest.raises(ValueError, match="unknown method 'dcs'"):
        relens.fit(simulated.packed("valid"), method="dcs")
    with pytest.raises(ValueError, match="jobs is 0, expected at least 1"):
        relens.fit(simulated.packed("valid"), jobs=0)
    with pytest.raises(TypeError, match="methd"):
        relens.fit(simulated.packed("valid"), methd="dsc")
