"""Training and ranking from the command line, on a tiny graph."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import relens
from relens.data.known_answers import KnownAnswers
from relens.files import locked, read_json
from relens.runs import Run
from tests.cli.commands import fail, relens_process, succeed

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from relens.data.dataset import read_folder
from relens.ranking.competition import Competition
from relens.ranking.validation import mean_reciprocal_rank
from relens.training.log import readable_duration
from relens.training.trained import TrainedModel

SMALL = ("--preset", "demo", "--set", "dim=8", "--set", "steps=20", "--set", "validate_every=10", "--set", "batch=64")


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs") / "ring"
    folder.mkdir()
    rows = [(f"e{i}", "next", f"e{(i + 1) % 12}") for i in range(12)] + [
        (f"e{i}", "twice", f"e{(2 * i) % 12}") for i in range(12)
    ]
    for split, part in (("train", rows[4:]), ("valid", rows[:2]), ("test", rows[2:4])):
        (folder / f"{split}.txt").write_text("".join("\t".join(row) + "\n" for row in part))
    return folder


@pytest.fixture(scope="module")
def trained(graph, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "ring"
    for model in ("transe", "complex"):
        succeed("train", graph, "--model", model, "--run", path, "--device", "cpu", *SMALL)
    return path


def test_training_reports_its_result(graph, trained):
    again = succeed("train", graph, "--model", "TransE", "--run", trained, "--device", "cpu", *SMALL, "--json")
    assert "is already trained" in again.err
    dataset = read_folder(graph)
    stored = TrainedModel.open(trained / "models" / "transe" / "trained")
    known = KnownAnswers.build(list(dataset.splits.values()), 12, 2)
    mrr = mean_reciprocal_rank(stored.load(dataset), Competition(dataset.queries("valid"), known))
    assert again.json["best_mrr"] == pytest.approx(mrr)
    assert again.json["settings"]["options"]["dim"] == 8
    records = [json.loads(line) for line in (trained / "models" / "transe" / "log.jsonl").read_text().splitlines()]
    assert max(record["mrr"] or 0 for record in records) == pytest.approx(mrr)
    # How long it took is a message: what is printed and kept is the same for the same seed.
    assert "seconds" not in again.json.keys() | stored.result.keys()
    assert f"relens: training took {readable_duration(records[-1]['seconds'])}\n" in again.err
    assert not list((trained / "models" / "transe").glob("step-*"))


def test_ranking_packs_all_trained_models(trained, graph):
    found = succeed("rank", trained, "--device", "cpu", "--force", "--json").json["mrr"]
    valid = Run.open(trained).ranks("valid")
    assert valid.models == ("complex", "transe")
    assert valid.gaps is not None
    assert valid.provenance.filter_splits == ("train", "valid", "test")
    dataset = read_folder(graph)
    known = KnownAnswers.build(list(dataset.splits.values()), 12, 2)
    model = TrainedModel.open(trained / "models" / "complex" / "trained").load(dataset)
    expected = mean_reciprocal_rank(model, Competition(dataset.queries("test"), known))
    assert found["test"]["complex"] == pytest.approx(expected, abs=1e-9)
    np.testing.assert_array_equal(valid.queries.answer, dataset.queries("valid").answer)
    assert "complex: validation MRR" in succeed("rank", trained, "--models", "complex", "--no-gaps", "--force").out


def test_wrong_requests_are_refused(graph, trained, tmp_path):
    fail(
        2,
        "unknown model 'rotat'; did you mean 'rotate'?",
        "train",
        graph,
        "--model",
        "rotat",
        "--run",
        tmp_path / "r",
    )
    fail(2, "unknown setting 'dimm'", "train", graph, "--model", "transe", "--set", "dimm=3", "--run", tmp_path / "r")
    fail(
        2,
        "was trained with other settings",
        "train",
        graph,
        "--model",
        "transe",
        "--run",
        trained,
        *SMALL,
        "--seed",
        9,
    )
    fail(2, "is a run on 'ring', not on 'patterns'", "train", "patterns", "--model", "transe", "--run", trained)
    fail(2, "unknown device 'gpu'", "train", graph, "--model", "transe", "--run", tmp_path / "d", "--device", "gpu")
    fail(2, "already has ranks", "rank", trained, "--device", "cpu")
    empty = Run.create(tmp_path / "empty", "ring")
    fail(2, "has no trained models", "rank", empty.path)


def test_the_help_names_the_models_of_the_table(monkeypatch):
    from relens.models import MODELS

    assert f"--model TEXT {', '.join([*MODELS][:-1])} or {[*MODELS][-1]}." in " ".join(
        succeed("train", "--help").out.split()
    )
    monkeypatch.setitem(MODELS._loaded, "mine", MODELS["transe"])
    assert f"{[*MODELS][-2]} or mine." in " ".join(succeed("train", "--help").out.split())


def without_torch(*arguments):
    """Run a command where torch is not installed."""
    script = "import sys; sys.modules['torch'] = None\nfrom relens.cli import main\nmain()"
    return subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)


def test_without_torch_there_is_help_and_a_message(tmp_path):
    assert "--model TEXT Name of a model." in " ".join(without_torch("train", "--help").stdout.split())
    to_rank, to_make = Run.create(tmp_path / "there", "patterns").path, ["--run", str(tmp_path / "run")]
    commands = (
        ["train", "patterns", "--model", "transe", *to_make],
        ["run", "patterns", *to_make],
        ["rank", str(to_rank)],
    )
    for command in commands:
        ended = without_torch(*command)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert "needs an optional dependency: pip install -c constraints.txt '.[train]'" in " ".join(
            ended.stderr.split()
        )
        assert "Traceback" not in ended.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["train", "run"])
def test_the_help_names_the_presets_of_the_folder(command):
    """Also without torch."""
    folder = Path(relens.__file__).parent / "presets"
    *names, last = sorted(file.stem for file in folder.glob("*.toml"))
    assert len(names) > 1
    told = " ".join(without_torch(command, "--help").stdout.split())
    assert f"Settings to start from: {', '.join(names)} or {last}. [default: " in told


def test_a_missing_gpu_is_named(graph, tmp_path):
    message = "there is no device 'cuda:77'"
    fail(2, message, "train", graph, "--model", "transe", "--run", tmp_path / "d", "--device", "cuda:77")


def test_force_trains_again(graph, tmp_path):
    path = tmp_path / "run"
    succeed("train", graph, "--model", "complex", "--run", path, "--name", "mine", "--device", "cpu", *SMALL)
    out = succeed("train", graph, "--model", "complex", "--run", path, "--name", "mine", "--force", *SMALL, "--seed", 3)
    assert "validation MRR" in out.out
    assert TrainedModel.open(path / "models" / "mine" / "trained").settings.seed == 3


def test_checkpoints_that_a_killed_process_left_beside_a_complete_model_go(graph, trained, tmp_path):
    """Not those of a model that is to be trained again, nor of one that somebody trains now."""
    path = Path(shutil.copytree(trained, tmp_path / "ring"))
    left = [path / "models" / name / "step-000000020" for name in ("transe", "complex", "mine")]
    shutil.copytree(path / "models" / "complex", path / "models" / "mine")
    for folder in left:
        folder.mkdir()
    (path / "models" / "complex" / ".again").touch()
    (path / "models" / "transe" / ".trained.ab12cd34.part").mkdir()
    command = ("train", graph, "--model", "transe", "--run", path, "--device", "cpu", *SMALL)
    with locked(path / "models" / "mine"):
        assert "is already trained" in succeed(*command).err
    assert [folder.is_dir() for folder in left] == [False, True, True]
    assert not (path / "models" / "transe" / ".trained.ab12cd34.part").exists()
    succeed(*command)
    assert [folder.is_dir() for folder in left] == [False, True, False]


def test_interrupted_retraining_resumes_without_force(graph, tmp_path, monkeypatch):
    path = tmp_path / "run"
    command = ("train", graph, "--model", "complex", "--run", path, "--device", "cpu", *SMALL)
    succeed(*command)
    with monkeypatch.context() as patch:
        patch.setattr("relens.pipeline.training.save_trained", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
        fail(130, "Run the same command again to resume", *command, "--seed", 3, "--force")
    trained = path / "models" / "complex" / "trained"
    assert TrainedModel.open(trained).settings.seed == 0
    assert "validation MRR" in succeed(*command, "--seed", 3).out
    assert TrainedModel.open(trained).settings.seed == 3
    assert "is already trained" in succeed(*command, "--seed", 3).err


@pytest.fixture
def toy_package(tmp_path):
    """A folder with a package that adds the model ``toy`` through an entry point."""
    folder = tmp_path / "site"
    information = folder / "toy_models-1.0.dist-info"
    information.mkdir(parents=True)
    shutil.copy(Path(__file__).parents[1] / "models" / "toy.py", folder / "toy_models.py")
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-models\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[relens.models]\ntoy = toy_models:TOY\n")
    return os.pathsep.join([str(folder), *sys.path])


def test_a_model_of_another_package_is_trained_like_ours(graph, toy_package, tmp_path):
    few = ("--set", "steps=6", "--set", "validate_every=3", "--set", "batch=16", "--device", "cpu")
    found = relens_process(
        "train", graph, "--model", "TOY", "--run", tmp_path / "run", "--set", "scale=3", *few, PYTHONPATH=toy_package
    )
    assert found.code == 0, found.err
    assert "training toy: preset demo, 6 steps on cpu" in found.err
    assert "step 3 of 6, loss" in found.err
    record = read_json(tmp_path / "run" / "models" / "toy" / "trained" / "model.json", "record")
    assert (record["settings"]["loss"], record["settings"]["options"]) == ("1vsall", {"scale": 3.0})
    path = tmp_path / "both"
    found = relens_process(
        "run", graph, "--models", "toy,complex", "--set", "complex.dim=8", "--run", path, "--no-report", "--jobs", 2,
        *few, PYTHONPATH=toy_package,
    )  # fmt: skip
    assert found.code == 0, found.err
    assert Run.open(path).ranks("test").models == ("toy", "complex")
    missing = relens_process("train", graph, "--model", "toy", "--run", tmp_path / "none")
    assert missing.code == 2
    assert "unknown model 'toy'" in missing.err


def test_without_a_preset_a_cpu_gets_the_demo(graph, tmp_path):
    few = ("--set", "dim=8", "--set", "steps=2", "--set", "validate_every=2", "--set", "batch=64")
    out = succeed("train", graph, "--model", "transe", "--run", tmp_path / "r", "--device", "cpu", *few)
    assert "training transe: preset demo, 2 steps on cpu" in out.err
    assert "step 2 of 2, loss" in out.err


def test_training_that_takes_long_on_a_cpu_is_announced(graph, tmp_path, monkeypatch):
    monkeypatch.setattr("relens.training.loop.ESTIMATE_SECONDS", 0.0)
    monkeypatch.setattr("relens.training.loop.LONG_SECONDS", 0.0)
    out = succeed("train", graph, "--model", "transe", "--run", tmp_path / "r", "--device", "cpu", *SMALL)
    assert out.err.count("left at this pace. --preset demo, for CPUs, has smaller models") == 1
    assert re.search(r"step 10 of 20, .*, about \d+ s left", out.err)


def test_the_help_lists_every_setting():
    from relens.training.settings import SETTINGS

    told = " ".join(succeed("train", "--help").out.split())
    assert "lr Learning rate of the first step. [default: 0.001]" in told
    for name, setting in SETTINGS.items():
        if name not in {"model", "options"}:
            assert f" {name} {setting.help}" in told
