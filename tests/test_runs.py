"""Runs: directories that appear whole and say what they are."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

import relens
from relens.data.candidates import Candidates
from relens.data.patterns import patterns
from relens.errors import DatasetError, InputError, RanksError, WeightsError
from relens.files import read_json, write_json
from relens.packs.store import save_pack
from relens.records import RANKED_BY
from relens.runs import Run
from tests.random_packs import assert_same, scored


def test_a_created_run_is_opened_again(tmp_path):
    Run.create(tmp_path / "r", "toy")
    run = Run.open(tmp_path / "r")
    assert (run.name, run.dataset, run.path) == ("r", "toy", tmp_path / "r")
    assert read_json(tmp_path / "r" / "run.json", "run") == {
        "format": 3, "kind": "relens run", "relens": relens.__version__, "name": "r", "dataset": "toy",
    }  # fmt: skip


def test_ranks_weights_and_evaluations_have_their_places(tmp_path):
    run = Run.create(tmp_path, "toy", name="first")
    assert not run.has_ranks("valid")
    save_pack(scored(), run.ranks_path("valid"))
    assert run.has_ranks("valid")
    assert_same(run.ranks("valid"), scored())
    assert run.weights_names == []
    for name in ("dsc", "Mean+2"):
        run.weights_path(name).parent.mkdir(exist_ok=True)
        run.weights_path(name).write_text("{}")
    (tmp_path / "weights" / ".hidden.json").write_text("{}")
    assert run.weights_names == ["Mean+2", "dsc"]
    assert run.evaluation_path("dsc", "test") == tmp_path / "evaluations" / "dsc-test.json"


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".x", "-x", "ä", "x" * 101, "a b"])
def test_unsafe_names_are_refused(tmp_path, name):
    run = Run.create(tmp_path, "toy")
    with pytest.raises(WeightsError, match="cannot name weights or an evaluation: expected 1 to 100 letters"):
        run.weights_path(name)
    with pytest.raises(WeightsError, match="cannot name weights"):
        run.evaluation_path(name, "test")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is not a run: it has no run.json. Make one with `relens run DATASET`, .* `relens ranks import"),
        ("{", "is not readable JSON"),
        ('{"kind": "relens packed ranks"}', "is not a 'relens run' record"),
        (
            '{"kind": "relens run", "format": 7, "name": "r", "dataset": "d"}',
            "has format 7, this relens",
        ),
        (
            '{"kind": "relens run", "format": 1, "name": "r", "dataset": "d"}',
            "is a run of format 1, this relens reads format 3: convert it with `relens upgrade ",
        ),
    ],
)
def test_other_directories_are_not_runs(tmp_path, content, message):
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(InputError, match=message):
        Run.open(tmp_path)


def test_a_record_about_ranks_that_is_damaged_is_named(tmp_path):
    run = Run.create(tmp_path, "toy")
    RANKED_BY.write(tmp_path / "ranks" / "made_by.json", {"device": "cpu", "models": 0})
    with pytest.raises(RanksError, match=r"made_by\.json is damaged .*found 0, expected an object"):
        run.made_by()


def test_errors_name_what_is_missing(tmp_path):
    with pytest.raises(InputError, match="nowhere is not a run: it does not exist"):
        Run.open(tmp_path / "nowhere")
    with pytest.raises(
        InputError, match=r"nowhere is not a run: it does not exist\. Make one with `relens run DATASET`"
    ):
        Run.open(tmp_path / "no" / "nowhere")
    Run.create(tmp_path / "patterns", "toy")
    (tmp_path / "patternz").mkdir()
    with pytest.raises(InputError, match=rf"pattern is not .* exist\. Did you mean {tmp_path}/patterns\? Make one"):
        Run.open(tmp_path / "pattern")
    run = Run.create(tmp_path / "r", "toy")
    with pytest.raises(RanksError, match=r"has no ranks of test \(present: none\)"):
        run.ranks("test")
    with pytest.raises(InputError, match=r"unknown split 'tset'; did you mean 'test'\?"):
        run.ranks("tset")
    with pytest.raises(InputError, match="r is a run already"):
        Run.create(tmp_path / "r", "toy")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(InputError, match="full exists and is not a run: choose another directory"):
        Run.create(tmp_path / "full", "toy")


def receive_then_fail(path, failure, split=None) -> None:
    with Run.receive_ranks(path, "toy", split, force=True) as stores:
        save_pack(scored(1), stores / "valid")
        raise failure


def test_received_ranks_appear_with_their_run(tmp_path):
    with Run.receive_ranks(tmp_path / "r", "toy") as stores:
        save_pack(scored(0), stores / "valid")
        save_pack(scored(1), stores / "test")
        assert not (tmp_path / "r").exists()
    run = Run.open(tmp_path / "r")
    assert run.dataset == "toy"
    assert_same(run.ranks("test"), scored(1))
    with (
        pytest.raises(RanksError, match="r already has ranks of valid and test: pass `force=True`"),
        Run.receive_ranks(run.path, "x"),
    ):
        pass
    with Run.receive_ranks(run.path, "other", force=True) as stores:
        save_pack(scored(2), stores / "valid")
    assert Run.open(run.path).dataset == "other"
    assert not run.has_ranks("test")


def test_one_split_is_received_beside_the_other(tmp_path):
    for seed, split in enumerate(("valid", "test")):
        with Run.receive_ranks(tmp_path / "r", "toy", split) as stores:
            save_pack(scored(seed), stores / split)
    run = Run.open(tmp_path / "r")
    assert_same(run.ranks("valid"), scored(0))
    assert_same(run.ranks("test"), scored(1))


def test_an_interrupted_import_leaves_no_run_and_no_other_ranks(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        receive_then_fail(tmp_path / "r", KeyboardInterrupt())
    assert not list(tmp_path.iterdir())
    run = Run.create(tmp_path / "r", "toy")
    save_pack(scored(0), run.ranks_path("valid"))
    with pytest.raises(KeyboardInterrupt):
        receive_then_fail(tmp_path / "r", KeyboardInterrupt())
    assert_same(run.ranks("valid"), scored(0))
    assert sorted(path.name for path in run.path.iterdir()) == [".lock", "ranks", "run.json"]


def test_leftovers_of_a_killed_process_do_not_prevent_a_new_run(tmp_path):
    """The tests of the pipeline kill one for real."""
    for path in (tmp_path / "made", tmp_path / "received"):
        path.mkdir()
        (path / ".run.json.ab12cd34.part").write_text("{")
        (path / ".lock").write_text("4711")
    with Run.create(tmp_path / "made", "toy").held():
        assert sorted(path.name for path in (tmp_path / "made").iterdir()) == [".lock", "run.json"]
    with Run.receive_ranks(tmp_path / "received", "toy") as stores:
        save_pack(scored(), stores / "valid")
    assert_same(Run.open(tmp_path / "received").ranks("valid"), scored())
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".bashrc").touch()
    with pytest.raises(InputError, match="other exists and is not a run"):
        Run.create(tmp_path / "other", "toy")


def receive_beside(path, another) -> None:
    with Run.receive_ranks(path, "toy") as stores:
        save_pack(scored(), stores / "valid")
        another()


def test_received_ranks_replace_no_run_that_was_made_in_the_meantime(tmp_path):
    with pytest.raises(InputError, match="r is a run already"):
        receive_beside(tmp_path / "r", lambda: Run.create(tmp_path / "r", "other"))
    assert Run.open(tmp_path / "r").dataset == "other"
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_models_are_those_that_can_be_asked_for_by_name(tmp_path):
    """A folder that once stepped aside for another is none."""
    run = Run.create(tmp_path / "r", "toy")
    for name in ("rotate", "conve", ".conve.old", "half"):
        (run.path / "models" / name).mkdir(parents=True)
        if name != "half":
            (run.path / "models" / name / "trained").mkdir()
    assert run.model_names == ["conve", "rotate"]


def test_a_run_that_is_held_receives_no_ranks_and_loses_only_left_overs(tmp_path):
    pytest.importorskip("fcntl", reason="this system has no such locks")
    run = Run.create(tmp_path / "r", "toy")
    save_pack(scored(), run.ranks_path("valid"))
    folders = ("models", "ranks", "weights", "evaluations", "stages")
    for folder in folders:
        (run.path / folder).mkdir(exist_ok=True)
        (run.path / folder / ".x.json.ab12cd34.part").touch()
    with run.held() as held:
        assert held == run
        assert not list(run.path.rglob("*.part"))
        with (
            pytest.raises(InputError, match="r is in use by another relens"),
            Run.receive_ranks(run.path, "toy", force=True),
        ):
            pass
        with run.replace_ranks("other", force=True) as stores:
            save_pack(scored(1), stores / "test")
    assert Run.open(run.path).dataset == "other"
    assert not run.has_ranks("valid")
    with pytest.raises(RanksError, match="already has ranks of test"), Run.receive_ranks(run.path, "toy"):
        pass


def test_weights_in_the_place_of_others_are_refused(tmp_path):
    run, fitted = Run.create(tmp_path / "run", "toy"), relens.search(scored(), method="mean")
    fitted.save(run.weights_path("one"))
    shutil.copy(run.weights_path("one"), run.weights_path("two"))
    assert run.weights("one").models == fitted.models
    with pytest.raises(WeightsError, match=r"two.json holds the weights 'one', which were put .* `relens weights imp"):
        run.weights("two")
    # Those of an older relens do not say their name.
    old = read_json(run.weights_path("two"), "weights")
    write_json(run.weights_path("two"), {key: value for key, value in old.items() if key != "name"})
    assert run.weights("two").models == fitted.models


@pytest.mark.parametrize("content", [None, b"", b'{"kind": "relens run", "checksum": "0"}'])
def test_the_record_of_a_run_is_written_again(tmp_path, content):
    run = Run.create(tmp_path / "run", "toy")
    (run.model_path("a") / "trained").mkdir(parents=True)
    before = (run.path / "run.json").read_bytes()
    (run.path / "run.json").unlink()
    if content is not None:
        (run.path / "run.json").write_bytes(content)
    assert Run.open_or_create(run.path, "toy") == run
    assert (run.path / "run.json").read_bytes() == before


def test_a_run_keeps_its_graph(tmp_path):
    run = Run.create(tmp_path / "r", "patterns")
    with pytest.raises(DatasetError, match=r"r has no graph: .* `relens upgrade .*r --data DATASET`"):
        run.graph()
    run.keep_graph(patterns())
    (tmp_path / "r").rename(tmp_path / "moved")
    found = Run.open(tmp_path / "moved").graph()
    assert (found.fingerprint, found.name, found.counts) == (patterns().fingerprint, "patterns", patterns().counts)
    written = run_files(tmp_path / "moved")
    Run.open(tmp_path / "moved").keep_graph(patterns())
    assert run_files(tmp_path / "moved") == written, "the graph is there already"
    (tmp_path / "moved/graph/train.bin.gz").unlink()
    Run.open(tmp_path / "moved").keep_graph(patterns())
    assert (tmp_path / "moved/graph/train.bin.gz").is_file(), "a damaged graph is written again"


def test_a_run_receives_the_graph_with_the_ranks(tmp_path):
    first = patterns()
    with Run.receive_ranks(tmp_path / "r", first) as stores:
        save_pack(scored(), stores / "valid")
    assert Run.open(tmp_path / "r").dataset == "patterns"
    assert Run.open(tmp_path / "r").graph().fingerprint == first.fingerprint
    second = replace(first, train=first.train[1:])
    with pytest.raises(KeyboardInterrupt), Run.receive_ranks(tmp_path / "r", second, force=True):
        raise KeyboardInterrupt
    assert Run.open(tmp_path / "r").graph().fingerprint == first.fingerprint
    with Run.receive_ranks(tmp_path / "r", second, force=True) as stores:
        save_pack(scored(), stores / "test")
    assert Run.open(tmp_path / "r").graph().fingerprint == second.fingerprint


def test_the_graph_of_another_run_is_copied(tmp_path):
    one, other = Run.create(tmp_path / "one", "patterns"), Run.create(tmp_path / "other", "patterns")
    one.keep_graph(patterns())
    other.copy_graph(one)
    other.copy_graph(one)
    assert other.graph().fingerprint == patterns().fingerprint
    files = [sorted((path.name, path.read_bytes()) for path in run.graph_path.iterdir()) for run in (one, other)]
    assert files[0] == files[1]
    (one.graph_path / "train.bin.gz").unlink()
    with pytest.raises(DatasetError, match=r"train\.bin\.gz cannot be read"):
        Run.create(tmp_path / "third", "patterns").copy_graph(one)
    assert not (tmp_path / "third" / "graph").exists()


def test_candidates_too_large_for_a_copy_come_from_the_data_set_of_that_name(tmp_path, monkeypatch):
    dataset = patterns()
    rows = {split: np.zeros((2 * len(dataset.splits[split]), 1), dtype=np.int32) for split in ("valid", "test")}
    dataset = replace(dataset, candidates={split: Candidates(ids, "zeros") for split, ids in rows.items()})
    monkeypatch.setattr("relens.data.stored.MOST_CANDIDATES", 100)
    run = Run.create(tmp_path, "patterns")
    run.keep_graph(dataset)
    assert run.graph(candidates=False).candidates == {}
    with pytest.raises(DatasetError, match="no copy of the candidates of patterns"):
        run.graph()  # the data set of that name has none
    monkeypatch.setattr("relens.runs.load_dataset", lambda name, offline: dataset)
    assert run.graph() is dataset


def run_files(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
