"""The sampled protocol from the command line: draw negatives, rank among them, and every number says so."""

import json
from pathlib import Path

import numpy as np
import pytest

from relens.files import read_json
from relens.runs import Run
from tests.cli.commands import fail, succeed

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from relens.data.catalog import load_dataset
from tests.ogb_files import biokg_splits, write_biokg

SMALL = ("--preset", "demo", "--set", "dim=8", "--set", "steps=20", "--set", "validate_every=10", "--set", "batch=64")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELENS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("RELENS_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs") / "ring"
    folder.mkdir()
    rows = [(f"e{i:02}", "next", f"e{(i + 1) % 12:02}") for i in range(12)] + [
        (f"e{i:02}", "twice", f"e{(2 * i) % 12:02}") for i in range(12)
    ]
    for split, part in (("train", rows[4:]), ("valid", rows[:2]), ("test", rows[2:4])):
        (folder / f"{split}.txt").write_text("".join("\t".join(row) + "\n" for row in part))
    return folder


@pytest.fixture(scope="module")
def trained(ring, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "ring"
    for model in ("transe", "complex"):
        succeed("train", ring, "--model", model, "--run", path, "--device", "cpu", *SMALL)
    succeed("rank", path, "--device", "cpu")
    return path


def test_negatives_are_drawn_into_a_folder(ring):
    done = succeed("data", "sample-negatives", ring, "--per-query", 5, "--seed", 3)
    assert done.out.strip() == "ring-sampled-5"
    assert "relens rank RUN --candidates ring-sampled-5" in done.err
    first = np.array(load_dataset("ring-sampled-5").candidates["test"].negatives)
    assert first.shape == (4, 5)
    report = succeed("data", "sample-negatives", ring, "--per-query", 5, "--seed", 3, "-o", "again", "--json").json
    assert report["candidates"]["test"] == {
        "queries": 4, "per_query": 5, "short_queries": 0, "source": "sampled by relens: 5 per query, seed 3",
    }  # fmt: skip
    assert report["fingerprint"] == load_dataset(ring).fingerprint
    assert np.array_equal(load_dataset("again").candidates["test"].negatives, first)
    for name in ("candidates.json", "test_candidates.npy", "valid_candidates.npy", "train.txt.gz"):
        assert Path("again", name).read_bytes() == Path("ring-sampled-5", name).read_bytes(), name
    fail(2, "again exists already: pass ", "data", "sample-negatives", ring, "-o", "again")
    succeed("data", "sample-negatives", ring, "--per-query", 5, "--seed", 4, "-o", "again", "--force")
    assert not np.array_equal(load_dataset("again").candidates["test"].negatives, first)


def test_too_few_entities_are_mentioned(ring):
    done = succeed("data", "sample-negatives", ring)
    assert "test: 4 of 4 queries got fewer than 500 negatives" in done.err
    shown = succeed("data", "show", done.out.strip()).out
    assert "test: 500 sampled negatives per query, 4 queries with fewer (sampled by relens" in shown
    facts = succeed("data", "show", done.out.strip(), "--json").json
    assert facts["candidates"]["valid"]["short_queries"] == 4


def test_models_are_ranked_among_the_candidates_of_a_folder(ring, trained):
    succeed("data", "sample-negatives", ring, "--per-query", 3, "-o", "few")
    done = succeed("rank", trained, "--candidates", "few", "--into", "runs/few", "--device", "cpu")
    lines = done.out.splitlines()
    assert len(lines) == 2
    assert all(line.endswith("(sampled: among 4 candidates, not all entities)") for line in lines)
    test = Run.open("runs/few").ranks("test")
    assert test.provenance.candidates == "sampled"
    assert test.provenance.filter_splits == ("train", "valid", "test")
    assert test.n_candidates.tolist() == [4] * 4
    assert Run.open(trained).ranks("test").provenance.candidates == "all", "the run itself keeps its ranks"
    fail(2, "already has ranks", "rank", trained, "--candidates", "few", "--into", "runs/few", "--device", "cpu")
    again = succeed(
        "rank", trained, "--candidates", "few", "--into", "runs/few", "--device", "cpu", "--force", "--json"
    ).json
    assert again["candidates"] == "sampled"
    assert succeed("rank", trained, "--device", "cpu", "--force", "--json").json["candidates"] == "all"


def test_every_table_of_such_ranks_says_sampled(ring, trained):
    succeed("data", "sample-negatives", ring, "--per-query", 3, "-o", "few")
    succeed("rank", trained, "--candidates", "few", "--into", "runs/few", "--device", "cpu")
    succeed("search", "runs/few", "--method", "simple", "--input", "rank", "--regularise", "none")
    for verb in (
        ("evaluate", "runs/few", "--weights", "simple"),
        ("evaluate", "runs/few", "--model", "complex"),
        ("compare", "runs/few", "mean", "simple:input=rank"),
    ):
        assert "candidates: sampled" in succeed(*verb).out, verb
    assert "sampled" in succeed("ranks", "show", "runs/few").out
    record = succeed("evaluate", "runs/few", "--weights", "simple", "--json").json
    assert '"candidates": "sampled"' in json.dumps(record)


def test_candidates_of_other_data_are_refused(trained, tmp_path):
    succeed("data", "sample-negatives", "patterns", "--per-query", 3, "-o", "other")
    before = (trained / "ranks" / "test" / "manifest.json").read_bytes()
    message = "other has candidates for 'patterns'"
    fail(2, message, "rank", trained, "--candidates", "other", "--device", "cpu", "--force")
    assert (trained / "ranks" / "test" / "manifest.json").read_bytes() == before


def test_a_run_on_a_folder_with_candidates_uses_them(ring):
    succeed("data", "sample-negatives", ring, "--per-query", 3, "-o", "few")
    trained = succeed("train", "few", "--model", "complex", "--run", "runs/few", "--device", "cpu", "--json", *SMALL)
    assert "validation MRRs are sampled: among 4 candidates per query (sampled by relens: 3" in trained.err
    ranked = succeed("rank", "runs/few", "--device", "cpu")
    assert "(sampled: among 4 candidates" in ranked.out
    best = read_json(Path("runs/few/models/complex/trained/model.json"), "record")["result"]["best_mrr"]
    assert f"{best:.4f}" in ranked.out  # the best parameters, ranked again among the same candidates


def test_ogbs_files_go_from_training_to_an_evaluation(tmp_path):
    folder = write_biokg(tmp_path / "dataset")
    shown = succeed("data", "show", folder).out
    assert shown.startswith("ogbl-biokg, fingerprint")
    assert "test: 4 sampled negatives per query (negatives of ogbl_biokg, as OGB publishes them)" in shown
    for model in ("transe", "complex"):
        succeed("train", folder, "--model", model, "--run", "runs/bio", "--device", "cpu", *SMALL)
    assert "(sampled: among 5 candidates" in succeed("rank", "runs/bio", "--device", "cpu").out
    succeed("search", "runs/bio", "--method", "dsc", "--group", "relation", "--input", "rank", "--regularise", "none")
    out = succeed("evaluate", "runs/bio").out
    assert "candidates: sampled" in out
    assert "filter: as imported" in out


def test_bad_ogb_files_end_with_a_message_and_leave_nothing(tmp_path):
    splits = biokg_splits()
    splits["valid"]["head_neg"][0, 0] = splits["valid"]["head"][0]
    folder = write_biokg(tmp_path / "dataset", splits)
    fail(2, "is among the negatives", "train", folder, "--model", "complex", "--run", "runs/bio", *SMALL)
    assert not Path("runs/bio").exists()
    assert not (folder / "relens").exists()
    fail(2, "ogbl-wikikg2 is not on this machine", "data", "get", "ogbl-wikikg2", "--offline")
    fail(2, " is for ogbl-biokg and ogbl-wikikg2", "data", "get", "patterns", "--keep-repeats")
