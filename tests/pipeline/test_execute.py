"""The whole path on a tiny graph: what is done, what is left alone, and what survives interruptions."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

import torch
from safetensors.numpy import load_file

from relens.errors import InputError
from relens.pipeline import execute as pipeline
from relens.pipeline import training
from relens.pipeline.plan import Plan
from relens.pipeline.stages import STAGES
from relens.run import Run
from tests.pipeline.graph import CHANGES, MODELS, write_ring

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    graph = write_ring(tmp_path_factory.mktemp("graphs") / "ring")
    return Plan(dataset=str(graph), models=MODELS, methods=("mean", "simple", "dsc")).with_changes(CHANGES)


def go(plan, path, **options):
    return pipeline.execute(plan, path, device=CPU, **{"report": False, **options})


@pytest.fixture(scope="module")
def finished(plan, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "ring"
    return path, go(plan, path)


def contents(path: Path) -> dict[str, object]:
    """Return what a run holds, without the times it took."""
    found: dict[str, object] = {}
    for name in MODELS:
        for key, value in load_file(path / "models" / name / "trained" / "model.safetensors").items():
            found[f"{name}.{key}"] = value
    for split in ("valid", "test"):
        found[split] = Run.open(path).ranks(split).contested
    for file in sorted((path / "weights").glob("*.json")):
        found[file.name] = np.array(json.dumps({**json.loads(file.read_text()), "trace": None}))
    return found


def assert_same(one: Path, other: Path) -> None:
    first, second = contents(one), contents(other)
    assert first.keys() == second.keys()
    for key in first:
        np.testing.assert_array_equal(first[key], second[key], err_msg=key)


def test_a_run_compares_models_and_methods(finished):
    path, comparison = finished
    assert [evaluation.name for evaluation in comparison.evaluations] == [*MODELS, "mean", "simple", "dsc"]
    assert Run.open(path).model_names() == sorted(MODELS)
    assert Run.open(path).weights_names() == ["dsc", "mean", "simple"]
    assert all(0 < evaluation.overall.mrr <= 1 for evaluation in comparison.evaluations)


def test_what_is_complete_is_left_alone(plan, finished, monkeypatch):
    path, comparison = finished
    for owner, name in ((training, "train_model"), (pipeline, "_rank"), (pipeline, "_search")):
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
    watch(pipeline, "_rank", "rank")
    watch(pipeline, "_search", "search")
    assert go(plan, path, force=[stage]).evaluations == comparison.evaluations
    assert stage in done
    assert set(done).isdisjoint(STAGES[: STAGES.index(stage)])


def test_a_changed_method_searches_again_and_no_more(plan, finished, monkeypatch, tmp_path):
    path = shutil.copytree(finished[0], tmp_path / "ring")
    monkeypatch.setattr(pipeline, "_rank", None)
    more = Plan(plan.dataset, plan.models, None, plan.changes, plan.model_changes, methods=("mean", "greedy"))
    assert [found.name for found in go(more, path).evaluations][-2:] == ["mean", "greedy"]


def test_side_by_side_training_gives_the_same(plan, finished, tmp_path):
    go(plan, tmp_path / "run", jobs=2)
    assert_same(finished[0], tmp_path / "run")


class KilledError(Exception):
    pass


@pytest.mark.parametrize("victim", ["save_trained", "pack", "compare", "write_json"])
def test_interrupted_anywhere_the_same_call_ends_alike(plan, finished, tmp_path, monkeypatch, victim):
    """Each part is interrupted the second time it is called, where it is, then the run goes on."""
    owner = {"save_trained": training, "pack": pipeline.Ranker}.get(victim, pipeline)
    real, calls = getattr(owner, victim), []

    def fragile(*arguments, **options):
        calls.append(1)
        if len(calls) == (2 if victim in ("save_trained", "pack") else 1):
            raise KilledError
        return real(*arguments, **options)

    monkeypatch.setattr(owner, victim, fragile)
    with pytest.raises(KilledError):
        go(plan, tmp_path / "run")
    monkeypatch.undo()
    assert go(plan, tmp_path / "run").evaluations == finished[1].evaluations
    assert_same(finished[0], tmp_path / "run")


def test_other_settings_are_refused_before_anything_is_lost(plan, finished):
    path, _ = finished
    before = contents(path)
    with pytest.raises(InputError, match=r"options differ.*--force"):
        go(plan.with_changes(["transe.gamma=2"]), path)
    assert contents(path).keys() == before.keys()


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
        (["transe.filters=3"], [], "unknown setting 'filters' for transe"),
        ([], ["rnak"], "unknown stage 'rnak'; did you mean 'rank'"),
    ],
)
def test_wrong_requests_are_refused(plan, tmp_path, changes, force, message):
    with pytest.raises(InputError, match=message):
        go(plan.with_changes(changes), tmp_path / "run", force=force)
    assert not (tmp_path / "run").exists()


def test_another_data_set_is_refused(plan, finished, tmp_path):
    other = write_ring(tmp_path / "circle")
    with pytest.raises(InputError, match="is a run on 'ring', not on 'circle'"):
        go(Plan(str(other), plan.models).with_changes(CHANGES), finished[0])
