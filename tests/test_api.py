"""The Python API: a few names, loaded when first used, that do what the verbs do in a few lines."""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import relens
from tests import simulated
from tests.patience import HANG

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", relens.__all__)
def test_every_public_name_resolves(name):
    value = getattr(relens, name)
    assert getattr(relens, name) is value
    if name != "__version__":
        module, _, attribute = relens._PUBLIC[name].partition(":")
        assert value is getattr(importlib.import_module(module), attribute or name)
        assert value.__doc__


def test_dir_shows_the_public_names_alone():
    """Before any of them is loaded, and after submodules and private names have come."""
    script = "import relens; print(*dir(relens)); import relens.runs, relens.api; relens.run; print(*dir(relens))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert [line.split() for line in done.stdout.splitlines()] == [sorted(relens.__all__)] * 2
    assert len(set(relens.__all__)) == len(relens.__all__)


VERBS = ("run", "train", "rank", "search", "fit", "evaluate", "compare", "report", "predict", "load_dataset",
         "open_run", "upgrade")  # fmt: skip
RANDOM_IMPORTS = """
import importlib, pkgutil, random, sys
import relens
names = [module.name for module in pkgutil.walk_packages(relens.__path__, "relens.") if "__main__" not in module.name]
random.Random(int(sys.argv[1])).shuffle(names)
for number, name in enumerate(names):
    importlib.import_module(name)
    if number % 20 == 0:
        assert callable(getattr(relens, sys.argv[2 + number // 20 % (len(sys.argv) - 2)]))
print(*[verb for verb in sys.argv[2:] if not callable(getattr(relens, verb)) or verb in sys.modules])
print(*[verb for verb in sys.argv[2:] if f"relens.{verb}" in names])
"""


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_module_takes_the_name_of_a_verb(seed):
    """Modules may be imported in any order: importing ``relens.x`` binds ``x`` in ``relens``."""
    for extra in ("torch", "fastapi", "matplotlib"):
        pytest.importorskip(extra, reason="needs all extras: pip install 'relens[all]'")
    pytest.importorskip("triton", reason="the kernels' module needs triton")
    command = [sys.executable, "-c", RANDOM_IMPORTS, str(seed), *VERBS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG)
    assert (done.returncode, done.stdout) == (0, "\n\n"), done.stderr


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in ("fit", "search", "evaluate", "compare")])
def test_verbs_are_typed_and_documented_and_take_keywords(verb):
    function = getattr(relens, verb)
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    assert all(p.annotation is not inspect.Parameter.empty for p in signature.parameters.values())
    positional = [p.name for p in signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert len(positional) == 1
    if verb not in ("open_run", "load_dataset"):
        for name in signature.parameters:
            assert re.search(rf"^        (\w+, )?{name}(, \w+)?: ", function.__doc__, re.MULTILINE), name
        assert "Returns:" in function.__doc__
        assert f"relens.{verb}(" in function.__doc__.partition("For example::")[2]


PAGES = [path for path in (ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.py")) if path.is_file()]


def test_pages_and_examples_import_public_names_only():
    """From ``relens`` itself or one level below; nothing private."""
    lines = {
        f"{path.name}: {line}"
        for path in PAGES
        for line in re.findall(r"^(?:from|import) relens\b.*$", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert lines
    assert [line for line in lines if re.search(r"[ .]_", line.partition(": ")[2])] == []
    deep = {found[0] for line in lines if (found := re.search(r"relens(\.\w+){2,}", line))}
    assert deep == set()


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
        assert f"    from {module} import {attribute or name} as {name}" in text


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
