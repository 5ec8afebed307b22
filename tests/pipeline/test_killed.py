"""The files of a run are the same for the same seed, byte by byte, also where the run was killed on its way.

Each run is a process of its own; see ``mortal.py`` for how it is killed. Logs, which hold times, are left out.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'relens[report]'")

from campaigns.compared import contents
from relens.runs import Run
from relens.training.log import read_log
from tests.cli.commands import succeed
from tests.patience import HANG
from tests.pipeline.graph import CHANGES, MODELS, write_ring

SETTINGS = [word for change in CHANGES for word in ("--set", change)]
ALIVE = "^$"


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """A plan in a file: few methods, because each run begins in an interpreter that knows nothing."""
    folder = tmp_path_factory.mktemp("plans")
    graph = write_ring(folder / "ring")
    (folder / "plan.toml").write_text(
        f'dataset = "{graph}"\nmodels = {list(MODELS)}\nmethods = ["mean", "simple", "dsc"]\n'
    )
    return folder / "plan.toml"


def run_until(
    pattern: str, plan: Path, path: Path, *options: str, jobs: int = 1, umask: int = 0o022, **environment: str
) -> int:
    """Run a plan in a process that dies at a path with the pattern; return how it ended."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(Path(__file__).with_name("mortal.py")), pattern, "run", "--config", str(plan)]
    command += ["--run", str(path), "--device", "cpu", "--jobs", str(jobs), *SETTINGS, *options]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=HANG, check=False, cwd=path.parent, umask=umask,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", **environment},
    )  # fmt: skip
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def assert_same_files(one: Path, other: Path, *, report: bool = True) -> None:
    """Compare two runs byte by byte, with or without their reports."""
    first, second = contents(one), contents(other)
    if not report:
        of_report = ("report/", "reliability/", "stages/report")
        first = {name: content for name, content in first.items() if not name.startswith(of_report)}
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    for name in MODELS:
        assert untimed_log(one, name) == untimed_log(other, name)


def untimed_log(run: Path, name: str) -> list[dict[str, object]]:
    """Return the records of the training of a model without their times."""
    timed = ("examples_per_second", "seconds", "seconds_left")
    records = read_log(run / "models" / name / "log.jsonl")
    return [{key: value for key, value in record.items() if key not in timed} for record in records]


@pytest.fixture(scope="module")
def whole(plan, tmp_path_factory):
    """A run that nothing interrupted; tests only read it."""
    path = tmp_path_factory.mktemp("whole") / "ring"
    assert run_until(ALIVE, plan, path) == 0
    return path


@pytest.fixture(scope="module")
def again(plan, tmp_path_factory):
    """The same run in other surroundings; tests only read it."""
    path = tmp_path_factory.mktemp("again") / "deeper" / "ring"
    surroundings = {"PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    assert run_until(ALIVE, plan, path, jobs=2, umask=0o077, **surroundings) == 0
    return path


def test_equal_runs_differ_only_in_logs(whole, again):
    """Whatever the folder, the time zone, the order of sets of texts, the permissions of files, and the workers."""
    assert_same_files(whole, again)
    names = {str(file.relative_to(whole)) for file in whole.rglob("*") if file.is_file()}
    assert {"comparison.json", "weights/dsc.json", "report/index.html", "report/figures/training.svg"} <= names
    assert names - contents(whole).keys() == {
        ".lock", "report/log.html", "weights/dsc.log.jsonl", "weights/simple.log.jsonl",
        *(f"models/{name}/{file}" for name in MODELS for file in (".lock", "log.jsonl")),
    }  # fmt: skip


@pytest.mark.parametrize(
    "command",
    [
        ("predict", "--head", "e3", "--relation", "plus_1", "-o", "answers.json"),
        ("predict", "--head", "e3", "--relation", "plus_1", "-o", "answers.csv"),
        ("ranks", "reduce", "-o", "reduced.npz"),
        ("weights", "export", "-o", "weights.json"),
        ("weights", "export", "-o", "weights.csv"),
        ("weights", "export", "-o", "weights.npy"),
        ("evaluate", "--weights", "mean", "-o", "evaluation.csv"),
        ("compare", "--json"),
        ("report", "-o", "report"),
    ],
    ids=" ".join,
)
def test_equal_runs_give_equal_output(whole, again, tmp_path, monkeypatch, command):
    """The second output is made a day later, as far as zip and gzip files can tell."""
    clock, found = time.time, []
    for place, run in ((tmp_path / "one", whole), (tmp_path / "the other", again)):
        shutil.copytree(run, place / "ring")
        monkeypatch.chdir(place)
        verb = 2 if command[0] in ("ranks", "weights") else 1
        printed = succeed(*command[:verb], "ring", *command[verb:]).out
        shutil.rmtree(place / "ring")
        found.append((printed, contents(place)))
        monkeypatch.setattr(time, "time", lambda: clock() + 86_400)
    (printed, first), (again_printed, second) = found
    assert printed == again_printed
    assert first.keys() == second.keys()
    assert first or printed
    assert [name for name in first if first[name] != second[name]] == []


def test_another_seed_gives_other_files(plan, whole, tmp_path):
    assert run_until(ALIVE, plan, tmp_path / "other" / "ring", "--seed", "1", "--no-report") == 0
    ours, others = contents(whole), contents(tmp_path / "other" / "ring")
    for name in ("models/transe/trained/model.safetensors", "ranks/test/answer.bin", "comparison.json"):
        assert ours[name] != others[name]


def left_over(path: Path) -> list[str]:
    """Return what never took its place."""
    return [name for name in contents(path) if ".part" in name]


@pytest.mark.parametrize(
    ("pattern", "models", "present"),
    [
        ("/models/complex/step-000000020$", {"transe"}, "models/complex/step-000000010/state.json"),
        ("/models/conve/trained$", {"transe", "complex"}, "models/conve/step-000000030/state.json"),
        (r"/\.ranks\.[^/]*/test$", set(MODELS), "run.json"),
        ("/weights/simple.json$", set(MODELS), "weights/mean.json"),
    ],
    ids=["checkpoint", "train", "rank", "search"],
)
def test_resume_after_a_kill_before_the_report(plan, whole, tmp_path, pattern, models, present):
    path = tmp_path / "ring"
    assert run_until(pattern, plan, path, "--no-report") == -signal.SIGKILL
    # It died half way: what was complete is there, what was not is aside.
    assert set(Run.open(path).model_names) == models
    assert present in contents(path)
    assert left_over(path)
    assert "comparison.json" not in contents(path)
    assert run_until(ALIVE, plan, path, "--no-report") == 0
    assert_same_files(whole, path, report=False)


def test_resume_after_a_kill_while_figures_are_drawn(plan, whole, tmp_path):
    path = tmp_path / "ring"
    assert run_until("/figures/weights.svg$", plan, path) == -signal.SIGKILL
    assert any(name.endswith("figures/comparison.svg") for name in left_over(path))
    assert not (path / "report").exists()
    assert run_until(ALIVE, plan, path) == 0
    assert_same_files(whole, path)


def test_resume_after_a_kill_before_the_run_exists(plan, whole, tmp_path):
    path = tmp_path / "ring"
    assert run_until("/ring/run.json$", plan, path, "--no-report") == -signal.SIGKILL
    assert [name.rsplit(".", 2)[::2] for name in contents(path)] == [[".run.json", "part"]]
    assert run_until(ALIVE, plan, path, "--no-report") == 0
    assert_same_files(whole, path, report=False)


def test_resume_after_a_kill_before_checkpoints_are_removed(plan, whole, tmp_path):
    path = tmp_path / "ring"
    assert run_until("^remove .*/complex/step-000000030$", plan, path, "--no-report") == -signal.SIGKILL
    assert {"models/complex/trained/model.json", "models/complex/step-000000030/state.json"} <= contents(path).keys()
    assert run_until(ALIVE, plan, path, "--no-report") == 0
    assert_same_files(whole, path, report=False)


@pytest.mark.parametrize(("stage", "place"), [("train", "models/complex/trained"), ("rank", "ranks")])
def test_resume_after_a_kill_between_removal_and_rename(plan, whole, tmp_path, stage, place):
    """A folder is replaced in two steps. The command that goes on does not say ``--force`` again."""
    path = shutil.copytree(whole, tmp_path / "ring")
    assert run_until(f"/ring/{place}$", plan, path, "--force", stage) == -signal.SIGKILL
    assert left_over(path)
    assert not (path / place).exists()
    assert run_until(ALIVE, plan, path) == 0
    assert_same_files(whole, path)
