"""The whole path on a tiny graph: what is done, what is left alone, and what survives interruptions."""

import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

import torch
from safetensors.numpy import load_file

from relens.ensemble.learning_curves import curves_to_json
from relens.errors import InputError
from relens.files import locked, write_json
from relens.packs.export import Ranker
from relens.pipeline import run as pipeline
from relens.pipeline import training
from relens.pipeline.plan import Plan
from relens.pipeline.resolving import settings_of
from relens.pipeline.run import STAGES
from relens.prediction import calibrating
from relens.presets import read_preset
from relens.progress import Silent
from relens.runs import Run
from relens.training.trained import TrainedModel
from tests.cli.commands import succeed
from tests.pipeline.graph import CHANGES, MODELS, write_ring

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    graph = write_ring(tmp_path_factory.mktemp("graphs") / "ring")
    return Plan(dataset=str(graph), models=MODELS, methods=("mean", "simple", "dsc")).with_changes(CHANGES)


def go(plan, path, **options):
    execution = pipeline.Execution(**{"devices": [CPU], "report": False, **options})
    return pipeline.run_plan(plan, path, execution).comparison()


@pytest.fixture(scope="module")
def finished(plan, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "ring"
    return path, go(plan, path)


def contents(path: Path) -> dict[str, object]:
    """Return what a run holds."""
    found: dict[str, object] = {}
    for name in MODELS:
        for key, value in load_file(path / "models" / name / "trained" / "model.safetensors").items():
            found[f"{name}.{key}"] = value
    for split in ("valid", "test"):
        packed = Run.open(path).ranks(split)
        found |= {f"{split}.{name}": getattr(packed, name) for name in ("answer", "contested", "gaps", "always_ahead")}
    for file in sorted((path / "weights").glob("*.json")):
        found[file.name] = np.array(file.read_text())
    return found


def assert_same(one: Path, other: Path) -> None:
    first, second = contents(one), contents(other)
    assert first.keys() == second.keys()
    for key in first:
        np.testing.assert_array_equal(first[key], second[key], err_msg=key)


def test_a_run_compares_models_and_methods(finished):
    path, comparison = finished
    assert [evaluation.name for evaluation in comparison.evaluations] == [*MODELS, "mean", "simple", "dsc"]
    assert Run.open(path).model_names == sorted(MODELS)
    assert Run.open(path).weights_names == ["dsc", "mean", "simple"]
    assert all(0 < evaluation.overall.mrr <= 1 for evaluation in comparison.evaluations)


def test_complete_stages_are_skipped(plan, finished, monkeypatch):
    path, comparison = finished
    for owner, name in ((training, "train_model"), (pipeline, "rank_models"), (pipeline, "compare")):
        monkeypatch.setattr(owner, name, None)  # calling it fails
    again = go(plan, path)
    assert again.evaluations == comparison.evaluations


@pytest.mark.parametrize("stage", STAGES[:-1])
def test_a_forced_stage_is_done_again_and_gives_the_same(plan, finished, stage, monkeypatch):
    path, comparison = finished
    done = []

    def watch(owner, name, of_stage):
        real = getattr(owner, name)

        def watched(*arguments, **options):
            done.append(of_stage)
            return real(*arguments, **options)

        monkeypatch.setattr(owner, name, watched)

    watch(training, "train_model", "train")
    watch(pipeline, "rank_models", "rank")
    watch(pipeline, "compare", "search")
    watch(calibrating, "calibrate", "calibrate")
    assert go(plan, path, force=[stage]).evaluations == comparison.evaluations
    # Training again gives the same parameters: what was made from them is still right.
    expected = ["train"] if stage == "train" else list(STAGES[STAGES.index(stage) : -1])
    assert list(dict.fromkeys(done)) == expected


def test_a_changed_method_searches_again_and_no_more(plan, finished, monkeypatch, tmp_path):
    path = shutil.copytree(finished[0], tmp_path / "ring")
    monkeypatch.setattr(pipeline, "rank_models", None)
    more = Plan(plan.dataset, plan.models, None, plan.changes, plan.model_changes, methods=(*plan.methods, "greedy"))
    assert [found.name for found in go(more, path).evaluations][-4:] == [*plan.methods, "greedy"]


def test_side_by_side_training_gives_the_same(plan, finished, tmp_path):
    go(plan, tmp_path / "run", jobs=2)
    assert_same(finished[0], tmp_path / "run")


class KilledError(BaseException):
    """Unlike a failing model, it ends everything."""


def killed_at(owner, name, call, monkeypatch):
    """Let a function end the run when it is called for the first time, the second time, …"""
    real, calls = getattr(owner, name), []

    def fragile(*arguments, **options):
        calls.append(1)
        if len(calls) == call:
            raise KilledError
        return real(*arguments, **options)

    monkeypatch.setattr(owner, name, fragile)


@pytest.mark.parametrize(("victim", "call"), [("save_trained", 2), ("pack", 2), ("compare", 1), ("write_json", 1)])
def test_a_run_interrupted_anywhere_resumes_to_the_same_result(plan, finished, tmp_path, monkeypatch, victim, call):
    """Each part is interrupted when it is called for the first or second time, then the run goes on."""
    killed_at({"save_trained": training, "pack": Ranker}.get(victim, pipeline), victim, call, monkeypatch)
    with pytest.raises(KilledError):
        go(plan, tmp_path / "run")
    monkeypatch.undo()
    assert go(plan, tmp_path / "run").evaluations == finished[1].evaluations
    assert_same(finished[0], tmp_path / "run")


def test_forced_training_keeps_a_model_until_its_successor_is_complete(plan, finished, tmp_path, monkeypatch):
    """The settings are other ones, so that old and new models cannot be taken for each other."""
    path, other = shutil.copytree(finished[0], tmp_path / "ring"), replace(plan, seed=1)
    killed_at(training, "save_trained", 2, monkeypatch)
    with pytest.raises(KilledError):
        go(other, path, force=["train"])
    monkeypatch.undo()
    seeds = {name: TrainedModel.open(path / "models" / name / "trained").settings.seed for name in MODELS}
    assert seeds == {"transe": 1, "complex": 0, "conve": 0}
    for name in ("complex", "conve"):
        old, kept = (at / "models" / name / "trained" / "model.safetensors" for at in (finished[0], path))
        assert old.read_bytes() == kept.read_bytes()
    # Nobody says force again: what was asked for is finished, and left alone from then on.
    assert go(other, path).evaluations == go(other, tmp_path / "fresh").evaluations
    assert_same(tmp_path / "fresh", path)
    monkeypatch.setattr(training, "train_model", None)  # calling it fails
    go(other, path)


def test_forced_training_begins_anew_where_it_was_interrupted(plan, finished, tmp_path, monkeypatch):
    """A checkpoint of other settings is no obstacle."""
    path = tmp_path / "ring"
    monkeypatch.setattr(training, "optimise", partial(training.optimise, checkpoint_seconds=0))
    with monkeypatch.context() as patch:
        killed_at(training, "save_trained", 2, patch)
        with pytest.raises(KilledError):
            go(replace(plan, seed=1), path)
    with pytest.raises(InputError, match="holds a run with seed 1 instead of 0"):
        go(replace(plan, models=("complex",), model_changes={}), path)
    go(plan, path, force=["train"])
    assert_same(finished[0], path)


def test_a_model_that_somebody_else_trains_is_not_trained_again(plan, finished, tmp_path):
    path = shutil.copytree(finished[0], tmp_path / "ring")
    with locked(path / "models" / "transe"), pytest.raises(InputError, match="transe is in use by another relens"):
        go(plan, path, force=["train"])
    assert not list(path.glob("models/*/.again"))


def test_other_settings_are_refused_before_anything_is_lost(plan, finished, tmp_path):
    path, _ = finished
    before = shutil.copytree(path, tmp_path / "before")
    with pytest.raises(InputError, match=r"different: options.*remove .*transe to train it again"):
        go(plan.with_changes(["transe.gamma=2"]), path)
    assert_same(before, path)


def test_a_graph_that_has_changed_is_refused(plan, finished, tmp_path):
    """Under the same name the models would be those of another graph."""
    changed = shutil.copytree(plan.dataset, tmp_path / "ring")
    (changed / "train.txt").write_text((changed / "train.txt").read_text() + "e0\tplus_3\te9\n")
    with pytest.raises(InputError, match=r"was trained on an earlier version of .*ring"):
        go(replace(plan, dataset=str(changed)), finished[0])


def test_ranks_that_another_command_replaced_are_made_again(plan, finished, tmp_path):
    path, comparison = finished
    copy = shutil.copytree(path, tmp_path / "ring")
    succeed("rank", copy, "--models", "complex", "--force", "--device", "cpu")
    assert Run.open(copy).ranks("test").models == ("complex",)
    assert go(plan, copy).evaluations == comparison.evaluations
    assert_same(path, copy)


@pytest.mark.parametrize(
    "file", ["ranks/test/gaps.bin", "ranks/valid/manifest.json", "weights/dsc.json", "stages/rank.json"]
)
def test_what_is_damaged_is_made_again(plan, finished, tmp_path, file):
    path, comparison = finished
    copy = shutil.copytree(path, tmp_path / "ring")
    content = bytearray((copy / file).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / file).write_bytes(content)
    assert go(plan, copy).evaluations == comparison.evaluations
    assert_same(path, copy)


@pytest.fixture(scope="module")
def reported(plan, finished, tmp_path_factory):
    """The finished run with a report and an evaluation."""
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'relens[report]'")
    path = shutil.copytree(finished[0], tmp_path_factory.mktemp("reported") / "ring")
    go(plan, path, report=True)
    return path


def without_times(path: Path) -> dict[str, bytes]:
    """Return the bytes of the report of a run."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.glob("report/**/*") if file.is_file()}


WORK = ("training ", "ranking ", "searching ", "calibrating ", "writing ")


@pytest.mark.parametrize(
    ("file", "stages"),
    [
        ("report/index.html", ["writing the report"]),
        ("report/figures/weights.svg", ["writing the report"]),
        ("report/relations.csv", ["writing the report"]),
        ("stages/report.json", ["writing the report"]),
        ("comparison.json", ["searching weights", "calibrating the confidence", "writing the report"]),
        (
            "ranks/made_by.json",
            ["ranking the", "searching weights", "calibrating the confidence", "writing the report"],
        ),
        ("models/complex/trained/model.safetensors", ["training 1 model"]),
        ("models/complex/trained/model.json", ["training 1 model"]),
        ("models/complex/trained/labels.json", ["training 1 model"]),
        ("run.json", []),
        ("graph/graph.json", []),
        ("graph/train.bin.gz", []),
        ("calibrations/dsc.json", ["calibrating the confidence", "writing the report"]),
        ("reliability/dsc.json", ["writing the report"]),
        ("stages/calibrate.json", ["calibrating the confidence", "writing the report"]),
    ],
)
@pytest.mark.parametrize("damage", ["missing", "flipped"])
def test_every_file_of_a_run_is_made_again(plan, reported, tmp_path, file, stages, damage):
    class Notes(Silent):
        said: ClassVar[list[str]] = []

        def note(self, message: str) -> None:
            self.said.append(message)

    copy = shutil.copytree(reported, tmp_path / "ring")
    content = bytearray((copy / file).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / file).unlink()
    if damage == "flipped":
        (copy / file).write_bytes(content)
    Notes.said = []
    go(plan, copy, report=True, progress=Notes())
    done = [note for note in Notes.said if note.startswith(WORK)]
    assert [note[: len(stage)] for note, stage in zip(done, stages, strict=True)] == stages
    assert_same(reported, copy)
    assert without_times(copy).keys() == without_times(reported).keys()
    if file.startswith("models/"):
        [warning] = [note for note in Notes.said if note.startswith("warning: ") and str(copy / file) in note]
        assert "complex has no checkpoints any more: it is trained again from the first step" in Notes.said, warning
    Notes.said = []
    go(plan, copy, report=True, progress=Notes())
    assert not [note for note in Notes.said if note.startswith(WORK)]


def test_learning_curves_that_are_gone_are_not_left_out_silently(plan, reported, tmp_path):
    """Whoever measured them did so by another command."""
    copy = shutil.copytree(reported, tmp_path / "ring")
    run = Run.open(copy)
    write_json(copy / "curves.json", curves_to_json([], run.ranks("valid")))
    go(plan, copy, report=True, force=["report"])
    (copy / "curves.json").unlink()
    with pytest.raises(InputError, match=rf"curves.json is missing.*`relens report {copy} --curves`, or pass `force=r"):
        go(plan, copy, report=True)
    go(plan, copy, report=True, force=["report"])
    go(plan, copy, report=True)


def test_weights_that_were_changed_are_searched_again(plan, finished, tmp_path):
    copy = shutil.copytree(finished[0], tmp_path / "ring")
    shutil.copy(copy / "weights" / "mean.json", copy / "weights" / "dsc.json")
    go(plan, copy)
    assert_same(finished[0], copy)


def test_the_report_is_written_once_and_again_after_a_search(plan, finished, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'relens[report]'")
    import relens.reports

    written, real = [], relens.reports.write_report
    monkeypatch.setattr(relens.reports, "write_report", lambda *a, **k: (written.append(1), real(*a, **k))[1])
    copy = shutil.copytree(finished[0], tmp_path / "ring")
    for options in ({}, {}, {"force": ["search"]}, {}, {"force": ["report"]}):
        go(plan, copy, report=True, **options)
    assert (copy / "report" / "index.html").is_file()
    assert len(written) == 3


def test_a_name_of_its_own_for_a_second_model(plan, tmp_path):
    two = Plan(plan.dataset, ("transe", "other"), methods=("mean",)).with_changes(
        ["steps=10", "validate_every=10", "dim=4", "other.model=transe", "other.seed=5"]
    )
    found = go(two, tmp_path / "run")
    assert [evaluation.name for evaluation in found.evaluations] == ["transe", "other", "mean"]
    tables = [load_file(tmp_path / "run" / "models" / name / "trained" / "model.safetensors") for name in two.models]
    assert not np.array_equal(tables[0]["entity"], tables[1]["entity"])


@pytest.mark.parametrize(
    ("changes", "force", "message"),
    [
        (["filterz=3"], [], r"'filterz=3' changes a setting that no model has"),
        (["trans.dim=3"], [], "'trans.dim=3' changes a model that is not in the run; did you mean 'transe'"),
        (["transe.filters=3"], [], "unknown setting 'filters' of transe"),
        (["conve.height=7"], [], "`dim=16` and `height=7` of ConvE: expected"),
        ([], ["rnak"], "unknown stage 'rnak'; did you mean 'rank'"),
    ],
)
def test_wrong_requests_are_refused(plan, tmp_path, changes, force, message):
    with pytest.raises(InputError, match=message):
        go(plan.with_changes(changes), tmp_path / "run", force=force)
    assert not (tmp_path / "run").exists()


def test_a_run_without_names_of_models_has_the_members_of_its_preset():
    plan = Plan("ring", preset="strong").with_changes(["nbfnet-2.width=16"])
    settings = settings_of(plan, "ring", on_cpu=True)
    assert tuple(settings) == read_preset("strong").members_for("ring")
    assert (settings["nbfnet"].options["width"], settings["nbfnet-2"].options["width"]) == (32, 16)
    assert settings["nbfnet-2"].model == "nbfnet"


def test_an_unknown_setting_lists_all_there_are_in_order(plan, tmp_path):
    with pytest.raises(InputError, match="'zzz=1' changes a setting that no model has; available: ") as caught:
        go(plan.with_changes(["zzz=1"]), tmp_path / "run")
    listed = re.findall(r"'(\w+)'", str(caught.value).partition("available: ")[2])
    assert listed == sorted(listed)
    assert {"batch", "steps", "dim", "channels", "gamma", "validate_every"} <= set(listed)


def test_complete_stages_are_counted_and_noted(plan, finished, tmp_path):
    class Notes(Silent):
        said: ClassVar = []

        def note(self, message: str) -> None:
            self.said.append(message)

    path = shutil.copytree(finished[0], tmp_path / "ring")
    shutil.rmtree(path / "models" / "complex")
    shutil.copytree(path / "models" / "conve" / "trained", path / "models" / "transe" / "step-000000020")
    (path / "models" / "transe" / "trained").rename(tmp_path / "gone")
    with pytest.raises(InputError):  # that is no checkpoint
        go(plan, path, progress=Notes())
    assert Notes.said[Notes.said.index("training 2 models") - 3 :][:4] == [
        "transe: resumes at step 20 of 30", "complex: begins", "conve: complete", "training 2 models"
    ]  # fmt: skip


def test_another_data_set_is_refused(plan, finished, tmp_path):
    other = write_ring(tmp_path / "circle")
    with pytest.raises(InputError, match="is a run on 'ring', not on 'circle'"):
        go(Plan(str(other), plan.models).with_changes(CHANGES), finished[0])


@pytest.mark.parametrize(("method", "message"), [("dcs", "did you mean 'dsc'"), ("dsc:group=a/b", "cannot be kept")])
def test_wrong_methods_are_refused_before_training(plan, tmp_path, method, message):
    with pytest.raises(InputError, match=message):
        go(replace(plan, methods=(method,)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_run_is_called_like_the_data_set(plan, tmp_path, monkeypatch):
    """Also where the folder is the one we are in."""
    graph = write_ring(tmp_path / "circle")
    monkeypatch.chdir(graph)
    small = replace(plan, dataset=".", models=("transe",), methods=("mean",), changes=(), model_changes={})
    execution = pipeline.Execution([CPU], report=False)
    run = pipeline.run_plan(small.with_changes(["steps=2", "validate_every=2", "dim=4"]), None, execution)
    assert run.path == Path("runs/circle")
    assert run.graph().name == "circle"


@pytest.mark.parametrize(("seconds", "says"), [(400.0, True), (100.0, False)])
def test_long_training_on_a_cpu_is_announced_before_it_begins(plan, tmp_path, monkeypatch, seconds, says):
    class Notes(Silent):
        def __init__(self) -> None:
            self.lines: list[str] = []

        def note(self, message: str) -> None:
            self.lines.append(message)

    def stop(*arguments, **options):
        raise KilledError

    monkeypatch.setattr(pipeline, "expected_seconds", lambda dataset, wanted, device: dict.fromkeys(wanted, seconds))
    monkeypatch.setattr(pipeline, "train_side_by_side", stop)
    notes = Notes()
    with pytest.raises(KilledError):
        go(plan, tmp_path / "run", jobs=2, progress=notes)
    found = [line for line in notes.lines if line.startswith("warning: training will take about")]
    assert bool(found) == says
    if says:
        assert "about 13 min on this machine, 2 at a time: transe 7 min, complex 7 min, conve 7 min. " in found[0]
