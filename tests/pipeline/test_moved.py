"""A run that was copied to another place, without the folder of its data set, does everything that it did before."""

import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("httpx")

import httpx

import relens
from relens.data.stored import write_graph
from relens.errors import DatasetError, InputError
from relens.runs import Run
from tests.cli.commands import fail, succeed
from tests.patience import HANG
from tests.pipeline.graph import CHANGES, write_ring
from tests.serve.serving import serving

PLAN = {
    "models": ["transe", "complex"],
    "changes": [c for c in CHANGES if "conve" not in c],
    "device": "cpu",
    "jobs": 1,
}
QUESTION = ("--head", "e1", "--relation", "plus_1", "--json")


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Where the run was made, where its data set was, and the copy; data set and original are gone."""
    folder = tmp_path_factory.mktemp("made here")
    graph = write_ring(folder / "ring")
    (graph / "labels.tsv").write_text("".join(f"e{i}\tnamed {i}\n" for i in range(16)))
    run = relens.run(graph, run=folder / "run", methods=["mean", "dsc"], **PLAN)
    answers = succeed("predict", run.path, *QUESTION).out
    copy = shutil.copytree(run.path, tmp_path_factory.mktemp("copied there") / "run")
    shutil.rmtree(folder)
    return folder, copy, answers


def files(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if path.is_file()}


def test_no_file_of_a_run_names_a_place(places):
    folder, copy, _ = places
    for name, content in files(copy).items():
        assert b"made here" not in content, name
        assert str(folder).encode() not in content, name
        assert str(Path.cwd()).encode() not in content, name


def test_a_copy_answers_serves_ranks_searches_and_reports(places, tmp_path):
    _, copy, answers = places
    run = shutil.copytree(copy, tmp_path / "run")
    assert succeed("predict", run, *QUESTION).out == answers
    assert "named" in answers
    before = files(run)
    succeed("rank", run, "--device", "cpu", "--force", "--models", "transe,complex")
    succeed("search", run, "--jobs", "1")
    succeed("report", run)
    changed = {name for name, content in files(run).items() if before.get(name) != content}
    assert not [name for name in changed if not name.endswith((".lock", ".log.jsonl", "log.html"))]
    with serving(relens.Ensemble.open(run)) as address:
        question = {"head": "e1", "relation": "plus_1", "top": 2}
        found = httpx.get(f"{address}api/predict", params=question, timeout=HANG)
    assert found.status_code == 200
    assert "named" in found.text


def test_a_copy_is_complete_and_goes_on_training(places, tmp_path):
    _, copy, _ = places
    run = shutil.copytree(copy, tmp_path / "run")
    before = {name: content for name, content in files(run).items() if not name.endswith(".lock")}
    relens.run(run=run, methods=["mean", "dsc"], **PLAN)
    assert {name: content for name, content in files(run).items() if not name.endswith(".lock")} == before
    settings = [word for change in PLAN["changes"] if "." not in change for word in ("--set", change)]
    succeed("train", "--run", run, "--model", "transe", "--name", "third", "--preset", "demo", *settings)
    assert Run.open(run).model_names == ["complex", "third", "transe"]
    graph = relens.load_dataset(run / "graph")
    assert (graph.name, graph.fingerprint) == ("ring", Run.open(run).graph().fingerprint)
    wider = {**PLAN, "models": ["transe", "complex", "rotate"]}
    found = relens.run(run / "graph", run=run, methods=["mean", "dsc"], **wider)
    assert found.ranks("test").models == ("transe", "complex", "rotate")


def test_the_same_graph_elsewhere_goes_on_with_the_run(places, tmp_path):
    _, copy, _ = places
    run = shutil.copytree(copy, tmp_path / "run")
    write_ring(tmp_path / "ring")
    relens.run(tmp_path / "ring", run=run, methods=["mean", "dsc"], **PLAN)
    assert Run.open(run).graph().names == {}, "the data set of now has no readable names"


def test_a_missing_data_set_points_at_the_graph_of_the_run(places):
    _, copy, _ = places
    with pytest.raises(
        DatasetError, match=f"no data set 'nowhere': .* Or leave the data set out: {copy} holds its graph"
    ):
        relens.run("nowhere", run=copy, **PLAN)


def test_models_of_another_graph_are_named(places, tmp_path):
    _, copy, _ = places
    run = shutil.copytree(copy, tmp_path / "run")
    other = relens.load_dataset("patterns")
    with pytest.raises(InputError, match="complex was trained on another graph"):
        Run.open(run).keep_graph(other)
    shutil.rmtree(run / "models")
    Run.open(run).keep_graph(other)
    assert Run.open(run).graph().fingerprint == other.fingerprint


@pytest.mark.parametrize("missing", ["graph/graph.json", "graph", "graph/train.bin.gz", "graph/entities.txt.gz"])
def test_a_run_that_was_copied_by_half_says_what_is_missing(places, tmp_path, missing):
    _, copy, _ = places
    run = shutil.copytree(copy, tmp_path / "run")
    shutil.rmtree(run / missing) if (run / missing).is_dir() else (run / missing).unlink()
    fail(2, "relens upgrade", "predict", run, *QUESTION)
    fail(2, "relens upgrade", "rank", run, "--device", "cpu", "--force")
    write_graph(relens.load_dataset(copy / "graph"), tmp_path / "again")
    succeed("upgrade", run, "--data", tmp_path / "again")
    succeed("predict", run, *QUESTION)
