"""``relens run`` from the command line."""

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from relens.errors import InputError
from relens.files import locked
from relens.training.checkpoint import newest_step
from tests.cli.commands import fail, succeed
from tests.patience import HANG
from tests.pipeline.graph import CHANGES, MODELS, write_ring

OPTIONS = ("--models", ",".join(MODELS), "--device", "cpu", "--no-report", "--jobs", "1")
OPTIONS += tuple(part for change in CHANGES for part in ("--set", change))


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return write_ring(tmp_path_factory.mktemp("graphs") / "ring")


@pytest.fixture(scope="module")
def finished(graph, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "ring"
    return path, succeed("run", graph, "--run", path, *OPTIONS)


def test_one_command_prints_the_table(finished):
    path, outcome = finished
    assert "Comparison on ring (test)" in outcome.out
    assert "transe (model 1 of 3): step 30 of 30, loss" in outcome.err
    assert f"relens predict {path}" in outcome.err


def test_the_same_command_again_prints_the_same(graph, finished):
    path, outcome = finished
    again = succeed("run", graph, "--run", path, *OPTIONS)
    assert again.out == outcome.out
    assert "step" not in again.err


def test_few_validation_queries_are_counted_and_warned_of(graph, finished):
    n_queries = 2 * len((graph / "valid.txt").read_text().splitlines())
    assert f"warning: {n_queries} validation queries are few" in " ".join(finished[1].err.split())


def test_json_and_a_configuration_file(graph, finished, tmp_path):
    config = tmp_path / "plan.toml"
    config.write_text(
        f'dataset = "{graph}"\nmodels = {list(MODELS)}\n'
        "set = { steps = 30, validate_every = 10, batch = 64, dim = 16 }\n"
        "[conve]\nchannels = 2\nheight = 4\n[transe]\nnegatives = 8\n"
    )
    found = succeed("run", "--config", config, "--run", finished[0], "--device", "cpu", "--no-report", "--json").json
    assert [evaluation["name"] for evaluation in found["evaluations"]][:3] == list(MODELS)


def test_wrong_requests(graph, tmp_path):
    fail(2, "did you mean 'transe'", "run", graph, "--run", tmp_path / "r", "--models", "trans", "--device", "cpu")
    fail(2, "unknown stage", "run", graph, "--run", tmp_path / "r", "--force", "everything", "--device", "cpu")
    fail(2, "unknown preset", "run", graph, "--run", tmp_path / "r", "--preset", "beast", "--device", "cpu")
    fail(2, "there is no device 'cuda:77', only cpu", "run", graph, "--run", tmp_path / "r", "--devices", "cpu,cuda:77")
    assert not (tmp_path / "r").exists()


def test_the_plan_and_the_stages_are_shown(graph, finished):
    path, outcome = finished
    lines = [line.removeprefix("relens: ") for line in outcome.err.splitlines()]
    assert lines[:4] == [
        f"loading {graph}",
        "data set ring: 16 entities, 2 relations, 22 train, 5 valid, 5 test triples",
        f"run {path}: transe, complex, conve; preset demo, seed 0, on cpu",
        "training 3 models",
    ]
    stages = ["training 3 models", "ranking the validation and test queries", "searching weights by"]
    places = [next(i for i, line in enumerate(lines) if line.startswith(stage)) for stage in stages]
    assert places == sorted(places)


def test_a_complete_run_says_so(graph, finished):
    err = succeed("run", graph, "--run", finished[0], *OPTIONS).err
    assert "relens: transe: complete\nrelens: complex: complete\nrelens: conve: complete\n" in err
    assert "training" not in err
    assert "ranking" not in err


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (
            "valid",
            "'ring' has no validation triples, which select the best parameters: move some triples from train to valid",
        ),
        (
            "test",
            "'ring' has no test triples, for the evaluation: move some triples from train to test",
        ),
    ],
)
def test_an_empty_split_is_refused_before_anything_is_written(tmp_path, monkeypatch, split, message):
    monkeypatch.chdir(tmp_path)
    graph = write_ring(tmp_path / "ring")
    (graph / f"{split}.txt").write_text("")
    fail(2, message, "run", graph, *OPTIONS)
    assert not (tmp_path / "runs").exists()


def test_training_alone_needs_no_test_split(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph = write_ring(tmp_path / "ring")
    (graph / "test.txt").write_text("")
    small = ("--set", "steps=2", "--set", "validate_every=2", "--set", "dim=4", "--device", "cpu")
    succeed("train", graph, "--model", "transe", "--preset", "demo", *small)
    (graph / "valid.txt").write_text("")
    fail(2, "has no validation triples", "train", graph, "--model", "transe", "--run", "other", "--device", "cpu")
    assert not (tmp_path / "other").exists()


def test_suspicious_data_is_noted(tmp_path):
    graph = write_ring(tmp_path / "ring")
    added = {
        "train": "e0\tplus_1\te1\n",
        "valid": "e0\tplus_1\te1\ne1\tminus\te2\n",
        "test": "e0\tplus_1\te1\nnew\tplus_1\te2\ne1\tminus\te2\ne1\tminus\te2\n",
    }
    for split, lines in added.items():
        file = graph / f"{split}.txt"
        file.write_text(lines + file.read_text())
    small = ("--models", "transe", "--set", "steps=2", "--set", "validate_every=2", "--set", "dim=4", "--no-report")
    err = succeed("run", graph, "--run", tmp_path / "run", "--device", "cpu", *small).err
    noted = [line.removeprefix("relens: warning: ") for line in err.splitlines() if "warning: " in line]
    assert noted[:8] == [
        "train, valid and test begin with the same line, 'e0 plus_1 e1', which is read as a triple. "
        f"If it is a heading, remove it, or let `relens data prepare {graph} NEW_FOLDER --header` do so",
        "train has 1 of the 7 valid triples, too: a model that memorises train will look good on valid",
        "train has 1 of the 9 test triples, too: a model that memorises train will look good on test",
        "valid has 3 of the 9 test triples, too: weights that are fitted on validation will look good on test",
        "2 triples repeat another triple of the same split",
        "train lacks 1 relation of valid: 'minus'",
        "train lacks an entity of 1 of the 9 test triples: models learn nothing about it",
        "train lacks 1 relation of test: 'minus'",
    ]


LONG = ("--models", "transe,complex", "--device", "cpu", "--no-report")
LONG += tuple(
    part
    for change in ("steps=1500", "validate_every=250", "batch=64", "dim=16", "transe.negatives=8")
    for part in ("--set", change)
)


@pytest.fixture(scope="module")
def uninterrupted(graph, tmp_path_factory):
    return succeed("run", graph, *LONG, "--jobs", 1, "--run", tmp_path_factory.mktemp("runs") / "whole").out


def until(read: Callable[[], str], text: str) -> str:
    """Read lines up to one with a text, and return that."""
    while text not in (line := read()):
        assert line
    return line


@pytest.mark.parametrize(
    ("workers", "to_all", "sent"),
    [
        (["--jobs", "1"], True, signal.SIGTERM),
        (["--jobs", "2"], True, signal.SIGINT),
        (["--jobs", "2"], True, signal.SIGHUP),
        (["--devices", "cpu,cpu"], False, signal.SIGINT),
    ],
    ids=["one", "group", "hangup", "parent"],
)
def test_an_interrupted_run_keeps_its_models_and_resumes(graph, uninterrupted, tmp_path, workers, to_all, sent):
    """Ctrl-C in a terminal reaches parent and workers, ``kill -INT`` the parent alone; the end is the same."""
    command = ["run", str(graph), *LONG, "--run", str(tmp_path / "run")]
    process = subprocess.Popen(
        [sys.executable, "-m", "relens", *command, *workers],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    with process:
        assert process.stderr is not None
        line = until(process.stderr.readline, "step 250 of 1,500,")
        (os.killpg if to_all else os.kill)(process.pid, sent)
        out, err = process.communicate(timeout=HANG)
    assert (process.returncode, out) == (130, ""), err
    if (to_all, sent) != (True, signal.SIGHUP):  # joblib's own process, which tidies up, does not hear of it in time
        assert "Traceback" not in err
    kept = re.search(r"interrupted; \S+ keeps (.*)\. Nothing half-written was left behind", err)
    assert kept, err
    states = dict(re.findall(r"(\w+) \((complete|step [\d,]+ of 1,500)\)", kept[1]))
    assert states.keys() >= {line.split()[1].rstrip(":")}
    assert_resumes(command, states, uninterrupted)


def assert_resumes(command: list[str], states: dict[str, str], uninterrupted: str) -> None:
    """Run an interrupted command to its end: its models resume from their states, and the result is the same."""
    again = succeed(*command, "--jobs", 1)
    for name in ("transe", "complex"):
        state = states.get(name, "begins")
        expected = f"resumes at {state}" if state.startswith("step") else state
        assert f"relens: {name}: {expected}\n" in again.err
    assert again.out == uninterrupted


def test_a_run_whose_terminal_is_closed_keeps_its_models_and_resumes(graph, uninterrupted, tmp_path):
    """Nothing can be written to a terminal that is closed; the system tells its first process alone."""
    command = ["run", str(graph), *LONG, "--run", str(tmp_path / "run")]
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-m", "relens", *command, "--jobs", "2"])
    with open(terminal) as shown:
        until(shown.readline, "step 250 of 1,500,")
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    steps = {name: newest_step(tmp_path / "run" / "models" / name) for name in ("transe", "complex")}
    assert any(steps.values())
    states = {name: f"step {step:,} of 1,500" for name, step in steps.items() if step}
    assert_resumes(command, states, uninterrupted)


def test_a_run_that_is_killed_takes_its_workers_along_and_leaves_its_place_free(graph, tmp_path):
    path = tmp_path / "run"
    endless = [*LONG, "--set", "steps=1000000", "--jobs", "2", "--run", path]
    with subprocess.Popen(
        [sys.executable, "-m", "relens", "run", graph, *endless], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            for model in ("transe", "complex"):
                until(process.stderr.readline, f"{model} (model ")
            with pytest.raises(InputError, match="in use by another relens"), locked(path / "models" / "transe"):
                pass
        finally:
            process.kill()
        process.communicate(timeout=HANG)  # stderr ends with the last process that holds it
    for folder in (path, *(path / "models").iterdir()):
        with locked(folder):
            pass
