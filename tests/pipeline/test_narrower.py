"""A run with fewer models or methods asks before it replaces results."""

import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

import relens
from relens.errors import InputError
from relens.pipeline.narrower import check_losses
from relens.runs import Run
from tests.cli.commands import fail
from tests.pipeline.test_upgrade import OLD, PLAN, contents

METHODS = (
    "mean",
    "mrr-mean",
    "stacking",
    "greedy",
    "simple:input=rank",
    "dsc:input=rank,regularise=none",
    "simple",
    "dsc",
)
MODELS = ("transe", "complex")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of two models with weights, a comparison and a report; tests only read it."""
    folder = tmp_path_factory.mktemp("narrower")
    run = shutil.copytree(OLD / "run", folder / "run")
    relens.upgrade(run, data=OLD / "graph")
    return Run.open(run)


def test_equal_and_wider_plans_lose_nothing(made):
    check_losses(made, MODELS, METHODS, ())
    check_losses(made, ("rotate", *MODELS), (*METHODS, "dsc:input=log"), ())
    check_losses(made, MODELS[::-1], METHODS[::-1], ("train",))


def test_fewer_models_need_consent(made):
    message = (
        r"run has ranks of transe, complex\. A run of complex would replace these ranks, the weights dsc, .* that were "
        r"fitted on them, the comparison and the report, without transe\. Choose another run with `run=PATH`, or pass "
        r"`force=rank` to replace them"
    )
    for repeated in ((), ("train",), ("search", "report")):
        with pytest.raises(InputError, match=message):
            check_losses(made, ("complex",), METHODS, repeated)
    check_losses(made, ("complex",), ("dsc",), ("rank",))
    with pytest.raises(InputError, match=r"A run of conve, rotate would replace .*, without transe, complex"):
        check_losses(made, ("conve", "rotate"), METHODS, ())


def test_fewer_methods_need_consent(made):
    message = (
        r"run compares the methods mean, mrr-mean, .*, dsc\. A run with mean, dsc would replace the comparison and the "
        r"report, without mrr-mean, stacking, .*, simple\. .* `force=search` to replace them"
    )
    for repeated in ((), ("train",), ("report",)):
        with pytest.raises(InputError, match=message):
            check_losses(made, MODELS, ("mean", "dsc"), repeated)
    check_losses(made, MODELS, ("mean", "dsc"), ("search",))
    check_losses(made, MODELS, ("mean", "dsc"), ("rank",))


def test_what_is_missing_or_damaged_cannot_be_lost(made, tmp_path):
    run = Run(shutil.copytree(made.path, tmp_path / "run"), made.name, made.dataset)
    shutil.rmtree(run.report_path)
    with pytest.raises(InputError, match="would replace the comparison, without"):
        check_losses(run, MODELS, ("dsc",), ())
    run.comparison_path.write_text("{")
    check_losses(run, MODELS, ("dsc",), ())
    shutil.rmtree(run.path / "weights")
    run.comparison_path.unlink()
    with pytest.raises(InputError, match="would replace these ranks, without transe"):
        check_losses(run, ("complex",), METHODS, ())
    for split in ("valid", "test"):
        (run.ranks_path(split) / "manifest.json").write_text("{")
    check_losses(run, ("complex",), METHODS, ())


def test_the_command_says_so_before_anything_changes(made, tmp_path, monkeypatch):
    run = shutil.copytree(made.path, tmp_path / "run")
    before = contents(run)
    words = [word for word in PLAN if not word.startswith(("transe", "--models"))]
    at = words.index("--set")
    plan = [*words[:at], *(word for word in words[at:] if word != "--set")]
    settings = [word for change in plan if "=" in change for word in ("--set", change)]
    command = ("run", "--run", run, "--models", "complex", "--seed", "3", "--device", "cpu", *settings)
    fail(2, "Choose another run with --run PATH, or pass --force rank to replace them", *command)
    assert contents(run) == before
    with pytest.raises(InputError, match="pass `force=rank` to replace them"):
        relens.run(run=run, models=["complex"], seed=3, device="cpu", changes=settings[1::2], jobs=1)
    assert contents(run) == before
    assert not Path("runs").exists()
