"""Runs of older formats: converted without training again, also where the conversion was killed on its way."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

import torch

import relens
from relens.errors import InputError
from relens.files import locked, read_json
from relens.pipeline.upgrade import CONVERTERS, PLACES
from relens.runs import Run
from tests.cli.commands import fail, succeed
from tests.patience import HANG

OLD = Path(__file__).parents[1] / "fixtures" / "run-format-1"
PLAN = ("--models", "transe,complex", "--seed", "3", "--device", "cpu", "--jobs", "1")
PLAN += tuple(
    word
    for change in ("steps=30", "validate_every=10", "batch=64", "dim=8", "transe.negatives=8")
    for word in ("--set", change)
)
BEGUN = ("--model", "complex", "--preset", "demo", "--seed", "5", "--device", "cpu")
BEGUN += tuple(word for change in ("steps=30", "validate_every=10", "batch=64", "dim=8") for word in ("--set", change))
GRAPH = "graph: added the graph of graph"
CHANGED = [
    "models/begun/step-000000010/state.json: relens checkpoint, format 2 to 3",
    "models/complex/trained/model.json: relens trained model, format 2 to 4",
    "models/transe/trained/model.json: relens trained model, format 2 to 4",
    "ranks/made_by.json: relens origin of ranks, format 0 to 1",
    "run.json: relens run, format 1 to 3",
    "stages/rank.json: relens stage, format 0 to 1",
    "stages/report.json: relens stage, format 0 to 1",
    "stages/search.json: relens stage, format 0 to 1",
]


@pytest.fixture
def old(tmp_path):
    """A copy of the run of format 1, beside a copy of its graph."""
    graph = shutil.copytree(OLD / "graph", tmp_path / "graph")
    run = shutil.copytree(OLD / "run", tmp_path / "run")
    for file in run.glob("models/*/trained/model.json"):
        file.write_text(json.dumps({**read_json(file, "record"), "source": str(graph)}))
    return run


def contents(path: Path) -> dict[str, bytes]:
    found = (file for file in path.rglob("*") if file.is_file() and file.name != ".lock")
    return {str(file.relative_to(path)): file.read_bytes() for file in found}


def expected(name: str) -> str:
    return (OLD / "expected" / f"{name}.txt").read_text()


def test_every_record_that_an_older_relens_wrote_is_converted_and_nothing_else_changes(old):
    before = contents(old)
    outcome = succeed("upgrade", old)
    assert outcome.out.splitlines()[0] == GRAPH
    assert sorted(outcome.out.splitlines()[1:]) == CHANGED
    assert outcome.err == f"relens: upgraded 9 parts of {old}\n"
    assert Run.open(old).graph().fingerprint == relens.load_dataset(old.parent / "graph").fingerprint
    after = {name: content for name, content in contents(old).items() if not name.startswith("graph/")}
    assert before.keys() == after.keys()
    assert {name for name in before if before[name] != after[name]} == {line.split(": ")[0] for line in CHANGED}
    for line in CHANGED:
        record, converted = (json.loads(found[line.split(": ")[0]]) for found in (before, after))
        record.pop("source", None)
        assert converted | record | {key: converted[key] for key in ("kind", "format", "relens")} == converted


def test_a_converted_run_gives_the_same_results_as_before(old):
    relens.upgrade(old)
    assert succeed("evaluate", old, "--weights", "dsc").out == expected("dsc")
    assert succeed("evaluate", old, "--model", "complex").out == expected("complex")
    assert succeed("weights", "show", old).out == expected("weights")
    searched = succeed("search", old, "--method", "simple", "--input", "rank", "--name", "plain").out
    # The older relens also printed how long the search took.
    assert searched.partition(":")[2].rstrip() == expected("search").partition(":")[2].rpartition(";")[0]
    assert_same_answers(succeed("predict", old, "--head", "e1", "--relation", "plus_1").out)


def assert_same_answers(out):
    """Compare answers with those of the older relens, whose tables had no places and another confidence."""
    rows, kept = (
        [line.split() for line in text.partition("\ndata set:")[0].splitlines() if re.match(r" +\d", line)]
        for text in (out, expected("predict"))
    )
    # rank, place, answer, known, confidence, score, votes; and the same without place
    assert [[row[0], *row[2:4], *row[5:]] for row in rows] == [[*row[:3], *row[4:]] for row in kept]


def test_a_converted_run_is_complete_for_the_plan_that_made_it(old):
    relens.upgrade(old)
    before = contents(old)
    outcome = succeed("run", old.parent / "graph", "--run", old, *PLAN)
    assert "relens: transe: complete\nrelens: complex: complete\n" in outcome.err
    for stage in ("training", "ranking", "searching"):
        assert stage not in outcome.err
    # The older relens had no calibrated confidence, which the report shows.
    added = contents(old)
    again = {name for name in added if added[name] != before.get(name)}
    assert {name.split("/")[0] for name in again} <= {
        "calibrations", "thresholds", "relation_scales", "reliability", "report", "stages",
    }  # fmt: skip


def test_a_training_that_was_interrupted_is_resumed(old, tmp_path):
    relens.upgrade(old)
    graph = old.parent / "graph"
    resumed = succeed("train", graph, "--run", old, "--name", "begun", *BEGUN)
    assert "training begun: preset demo, 30 steps on cpu, resuming at step 10 of 30" in resumed.err
    succeed("train", graph, "--run", tmp_path / "whole", *BEGUN)
    # Another processor took the first ten steps: parameters are close, not equal.
    dataset = relens.load_dataset(graph)
    found = Run.open(old).model("begun").load(dataset).state_dict()
    whole = Run.open(tmp_path / "whole").model("complex").load(dataset).state_dict()
    torch.testing.assert_close(found, whole, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "command",
    [
        "run GRAPH --run RUN", "train GRAPH --model complex --run RUN", "rank RUN", "search RUN", "evaluate RUN",
        "compare RUN", "report RUN", "predict RUN --head e1 --relation plus_1", "serve RUN --port 0",
        "weights show RUN", "ranks show RUN",
    ],
)  # fmt: skip
def test_every_command_says_how_to_convert_an_old_run(old, command):
    words = [{"RUN": str(old), "GRAPH": str(old.parent / "graph")}.get(word, word) for word in command.split()]
    before = contents(old)
    fail(2, f"is a run of format 1, this relens reads format 3: convert it with `relens upgrade {old}`", *words)
    assert contents(old) == before


def test_a_current_run_is_left_alone(old):
    assert len(relens.upgrade(old)) == 9
    before = contents(old)
    assert relens.upgrade(old) == []
    assert relens.upgrade(Run.open(old)) == []
    outcome = succeed("upgrade", old)
    assert (outcome.out, outcome.err) == ("", f"relens: {old} is current already\n")
    assert succeed("upgrade", old, "--json").json == {"run": str(old), "changed": []}
    assert contents(old) == before


@pytest.mark.parametrize(
    "pattern",
    [
        "/run/graph$",
        "/begun/step-000000010/state.json$",
        "/complex/trained/model.json$",
        "/stages/rank.json$",
        "/run.json$",
    ],
)
def test_a_killed_conversion_is_resumed(old, tmp_path, pattern):
    whole = shutil.copytree(old, tmp_path / "whole")
    relens.upgrade(whole)
    command = [sys.executable, str(Path(__file__).with_name("mortal.py")), pattern, "upgrade", str(old)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=False, env=dict(os.environ))
    assert done.returncode == -signal.SIGKILL, done.stderr
    with pytest.raises(InputError, match="is a run of format 1"):
        Run.open(old)
    assert 0 < len(relens.upgrade(old)) <= 9
    assert contents(old) == contents(whole)


def test_nothing_is_converted_while_another_process_is_at_work(old):
    pytest.importorskip("fcntl", reason="this system has no such locks")
    before = contents(old)
    for folder in (old, old / "models" / "begun"):
        with locked(folder), pytest.raises(InputError, match="is in use by another relens"):
            relens.upgrade(old)
    assert contents(old) == before


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("run.json", {"format": 9}, "run.json has format 9, this relens reads format 3. Use the relens that wrote it"),
        ("run.json", {"kind": "relens weights"}, "run.json is not a 'relens run' record"),
        ("models/complex/trained/model.json", {"format": 1}, "format 1, which this relens cannot convert. Train the"),
    ],
)
def test_records_that_cannot_be_converted_raise_an_error(old, file, change, message):
    path = old / file
    path.write_text(json.dumps({**read_json(path, "record"), **change}))
    with pytest.raises(InputError, match=message):
        relens.upgrade(old)


def test_a_folder_without_a_run_raises_an_error(tmp_path):
    fail(2, "is not a run: it has no run.json", "upgrade", tmp_path)


def test_chains_of_converters_have_no_gap():
    for kind, _ in PLACES:
        assert sorted(CONVERTERS[kind.name]) == list(range(min(CONVERTERS[kind.name]), kind.format))


def test_a_graph_that_has_moved_is_named(old):
    moved = (old.parent / "graph").rename(old.parent / "elsewhere")
    outcome = succeed("upgrade", old)
    assert outcome.out
    assert GRAPH not in outcome.out
    assert f"warning: the graph of {old} was not found as {old.parent / 'graph'} or graph" in outcome.err
    question = ("predict", old, "--head", "e1", "--relation", "plus_1")
    fail(2, f"{old} has no graph: an older relens made the run", *question)
    assert succeed("evaluate", old, "--weights", "dsc").out == expected("dsc")
    fail(2, f"{OLD / 'graph/valid.txt'}", "upgrade", old, "--data", OLD / "graph/valid.txt")
    before = contents(old)
    fail(2, f"patterns is not the graph of {old}: its fingerprint is", "upgrade", old, "--data", "patterns")
    assert contents(old) == before
    assert succeed("upgrade", old, "--data", moved).out == GRAPH + "\n"
    assert succeed("upgrade", old, "--data", moved).out == ""
    fail(2, f"patterns is not the graph of {old}: its fingerprint is", "upgrade", old, "--data", "patterns")
    assert_same_answers(succeed(*question).out)
