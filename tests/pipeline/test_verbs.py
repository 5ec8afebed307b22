"""The verbs as Python functions: the same work and the same results as on the command line."""

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'relens[report]'")

import numpy as np

import relens
from relens.errors import InputError
from relens.progress import Silent
from tests.cli.commands import succeed
from tests.pipeline.graph import write_ring

CHANGES = ("steps=20", "validate_every=10", "batch=64", "dim=8")


class Notes(Silent):
    """Progress that keeps what is noted."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, message: str) -> None:
        self.lines.append(message)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return write_ring(tmp_path_factory.mktemp("graphs") / "ring")


@pytest.fixture(scope="module")
def ring(graph, tmp_path_factory):
    """A run that Python made; tests only read it."""
    return relens.run(
        graph, run=tmp_path_factory.mktemp("runs") / "ring", models=["transe", "complex"], changes=CHANGES,
        methods=["mean", "dsc"], device="cpu", jobs=1, report=False,
    )  # fmt: skip


def test_a_run_gives_everything_by_name(ring):
    run = relens.open_run(str(ring.path))
    assert run == ring == relens.open_run(ring)
    assert run.weights_names == ["dsc", "mean"]
    assert run.weights().settings["method"] == "dsc"
    assert run.weights("mean").settings["method"] == "mean"
    assert run.model_names == list(run.models) == ["complex", "transe"]
    assert run.model("transe").settings.model == "transe"
    comparison = run.comparison()
    assert [evaluation.name for evaluation in comparison.evaluations] == ["transe", "complex", "mean", "dsc"]
    assert run.ranks("test").models == ("transe", "complex")
    with pytest.raises(InputError, match=r"has no trained model 'trans'; did you mean 'transe'\?"):
        run.model("trans")
    with pytest.raises(InputError, match="has no evaluation of 'dsc' on valid: make it with `relens evaluate"):
        run.evaluation("dsc", "valid")


def test_search_evaluate_and_compare_take_the_ranks_of_a_run(ring):
    weights = relens.search(ring.ranks("valid"), method="dsc")
    np.testing.assert_array_equal(weights.table, ring.weights("dsc").table)
    found = relens.evaluate(ring.ranks("test"), weights, reference="complex")
    assert found.overall == ring.comparison().evaluations[-1].overall
    succeed("evaluate", ring.path, "--weights", "dsc")
    assert ring.evaluation("dsc").overall == found.overall


def test_the_same_call_again_does_nothing(graph, ring):
    notes = Notes()
    relens.run(
        graph, run=ring, models=["transe", "complex"], changes=CHANGES, methods=["mean", "dsc"], device="cpu", jobs=1,
        report=False, progress=notes,
    )  # fmt: skip
    assert notes.lines[2:] == ["transe: complete", "complex: complete"]


def test_training_and_ranking_one_by_one_give_what_a_run_gives(graph, ring, tmp_path):
    notes = Notes()
    for model in ("transe", "complex"):
        trained = relens.train(
            graph, model=model, preset="demo", changes=CHANGES, run=tmp_path / "r", device="cpu", progress=notes
        )
        assert trained.digest == ring.model(model).digest
    assert "training transe: preset demo, 20 steps on cpu" in notes.lines
    assert any(line.startswith("step 10 of 20, loss ") for line in notes.lines)
    again = relens.train(graph, model="transe", preset="demo", changes=CHANGES, run=tmp_path / "r", device="cpu")
    assert again == relens.open_run(tmp_path / "r").model("transe")
    run = relens.rank(tmp_path / "r", models=["transe", "complex"], device="cpu")
    assert {split: run.ranks(split).digest for split in ("valid", "test")} == {
        split: ring.ranks(split).digest for split in ("valid", "test")
    }
    with pytest.raises(InputError, match="already has ranks of valid and test: pass `force=True` to replace them"):
        relens.rank(run, device="cpu")
    other = relens.rank(run, device="cpu", into=tmp_path / "other", gaps=False)
    assert other.path == tmp_path / "other"
    assert other.ranks("test").models == ("complex", "transe")


def test_predictions_are_those_of_the_ensemble(ring):
    found = relens.predict(ring.path, head="e1", relation="plus_1", top=3, weights="mean", device="cpu")
    assert found == relens.Ensemble.open(ring, "mean").predict(head="e1", relation="plus_1", top=3)


def test_the_hidden_anchor_is_named_with_its_rank(ring):
    """The ring has no fact of an entity with itself: one rank is missing from the list, and a line says whose."""
    ensemble = relens.Ensemble.open(ring, "mean", "cpu")
    for number in range(16):
        found = ensemble.predict(head=f"e{number}", relation="plus_1", top=16, known="drop")
        assert found.anchor_rank == ensemble.rank_of(f"e{number}", head=f"e{number}", relation="plus_1")
        assert f"e{number}" not in [answer.entity for answer in found]
    asked = ("predict", ring.path, "--head", "e1", "--relation", "plus_1", "--weights", "mean", "--known", "drop")
    rank = ensemble.predict(head="e1", relation="plus_1").anchor_rank
    line = f"e1 itself holds rank {rank:g} and is not shown: plus_1 links no entity to itself in the data"
    assert line in " ".join(succeed(*asked, "--top", 16).out.split())
    best = ensemble.predict(head="e1", relation="plus_1", top=1, known="drop")[0].rank
    assert (line in " ".join(succeed(*asked, "--top", 1).out.split())) == (rank <= best)


def test_the_report_is_written_where_it_is_asked_for(ring, tmp_path):
    assert relens.report(ring, output=tmp_path / "page") == tmp_path / "page" / "index.html"
    assert (tmp_path / "page" / "index.html").is_file()
    with pytest.raises(InputError, match="unknown stage 'serach'; did you mean 'search'"):
        relens.run("patterns", force="serach", device="cpu")
