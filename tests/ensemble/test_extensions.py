"""Methods, searchers and inputs of other packages: installed, they are choices like any other."""

import os
import sys
from pathlib import Path

import pytest

from tests import simulated
from tests.cli.commands import Outcome, relens_process

CODE = """
import numpy as np

from relens.ensemble.grid import to_grid, uniform
from relens.ensemble.inputs.base import RankInput
from relens.ensemble.methods.base import MethodResult, Method
from relens.options import Option
from relens.ensemble.sampling import Sampler


class First(Method):
    name = "first"
    description = "the first model gets a share, the others the rest"
    options = {"share": Option("Share of the first model.", default=0.5, kind=float, minimum=0)}

    def search(self, context):
        n, share = context.packed.n_models, context.options["share"]
        return MethodResult(to_grid(np.array([share, *[(1 - share) / (n - 1)] * (n - 1)])))


class Plain(Method):
    name = "plain"
    description = "a method that declares nothing"

    def search(self, context):
        return MethodResult(uniform(context.packed.n_models))


class Corners(Sampler):
    name = "corners"
    description = "the corners of the simplex"

    def propose(self, record, dimension, trials, rng):
        record(np.full(dimension, 1.0 / dimension))
        for corner in np.eye(dimension)[: trials - 1]:
            record(corner)


class Cube(RankInput):
    name = "cube"
    description = "the cube root of the rank"

    def value(self, rank):
        return -np.cbrt(rank)


FIRST, PLAIN, CORNERS, CUBE = First(), Plain(), Corners(), Cube()
"""
ENTRY_POINTS = """
[relens.methods]
first = extension:FIRST
plain = extension:PLAIN
[relens.searchers]
corners = extension:CORNERS
[relens.inputs]
cube = extension:CUBE
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a package with one entry of each kind for other processes; return a run."""
    site = tmp_path / "site"
    facts = site / "extension-1.0.dist-info"
    facts.mkdir(parents=True)
    (site / "extension.py").write_text(CODE)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: extension\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), *sys.path]))
    return simulated.write_run(tmp_path / "run", simulated.packed("valid"), simulated.packed("test"))


def succeed(*arguments: object) -> Outcome:
    done = relens_process(*arguments)
    assert done.code == 0, done.err
    return done


def test_a_method_and_its_options_work_everywhere(installed):
    found = succeed("search", installed, "--method", "first", "--share", "0.75", "--json").json
    assert found["weights"].endswith("weights/first.json")
    assert found["settings"] == {"method": "first", "input": "rank", "seed": 0, "share": 0.75}
    shown = succeed("weights", "show", installed, "--json").json
    assert list(shown["fallback"].values()) == [2**20, round(2**20 / 6), round(2**20 / 6)]
    compared = succeed("compare", installed, "first:share=1", "first", "plain", "mean", "--json").json
    mrr = {row["name"]: row["overall"]["mrr"] for row in compared["evaluations"]}
    assert mrr["first:share=1"] == mrr["alpha"]
    assert mrr["plain"] == mrr["mean"]
    assert compared["settings"]["first"]["share"] == 0.5
    text = " ".join(succeed("search", "--help").out.split())
    assert "first: the first model gets a share, the others the rest." in text
    assert "--share FLOAT RANGE Share of the first model. [default: 0.5]" in text


def test_a_searcher_and_an_input_work_together(installed):
    options = ("--method", "dsc", "--searcher", "corners", "--input", "cube", "--trials", 4)
    one, two = (succeed("search", installed, *options, "--jobs", jobs, "--json").json for jobs in (1, 2))
    assert one["weights"].endswith("weights/dsc-corners.json")
    assert one["validation"] == two["validation"]
    assert one["validation"]["mrr"] >= one["validation"]["best_single_mrr"]
    assert one["settings"] == {
        "method": "dsc", "input": "cube", "seed": 0, "searcher": "corners", "grouping": "relation-direction",
        "trials": 4, "kappa": 0.0,
    }  # fmt: skip
    chosen = succeed("search", installed, "--json").json["settings"]["cross_validation"]
    assert list(chosen) == ["rank", "log", "sqrt", "rrf", "score", "cube"]
    assert succeed("search", installed, "--method", "basic", "--searcher", "corners", "--trials", 2, "--json")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("search", "--method", "mean", "--share", "0.3"),
         "neither the method 'mean' nor the searcher 'sweep' has an option 'share'"),
        (("search", "--method", "first", "--share", "-1"), "'--share': -1.0 is not in the range x>=0"),
        (("compare", "first:share=x"), "method 'first:share=x': share is 'x', expected a number"),
        (("compare", "first:share=-1"), "share is -1.0, expected at least 0"),
        (("compare", "mean:share=1"), "method 'mean:share=1': found 'share=1', expected key=value"),
        (("search", "--method", "basic"), "Choose the searcher tpe or random or corners, or the method dsc."),
    ],
)  # fmt: skip
def test_wrong_options_are_explained(installed, arguments, message):
    verb, *others = arguments
    done = relens_process(verb, installed, *others)
    assert (done.code, done.out) == (2, "")
    assert message in " ".join(done.err.split())
