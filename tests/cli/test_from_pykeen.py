"""``relens ranks from-pykeen``: folders in, a run out, and no pickle unasked."""

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
pytest.importorskip("pykeen", reason="needs PyKEEN: pip install 'relens[pykeen]'")

from relens.ensemble.weights import EnsembleWeights
from relens.runs import Run
from tests.cli.commands import fail, succeed
from tests.pykeen_folders import DATASET, save, train, write_graph


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pykeen")
    write_graph(folder / "small")
    return save(folder, transe=train("TransE"), inverse=train("DistMult", inverse=True))


def arguments(folders, run, *more):
    models = folders / "transe", folders / "inverse"
    return "ranks", "from-pykeen", *models, "--dataset", folders / "small", "--run", run, "--device", "cpu", *more


def test_models_become_a_run_that_can_be_searched(folders, tmp_path):
    packed = succeed(*arguments(folders, tmp_path / "run", "--trust", "--json")).json
    assert packed["dataset"] == "small"
    assert set(packed["splits"]["test"]["mrr"]) == {"transe", "inverse"}
    assert packed["splits"]["valid"]["provenance"]["fingerprint"] == DATASET.fingerprint
    assert packed["splits"]["valid"]["gaps"]
    succeed("search", tmp_path / "run", "--method", "simple")
    assert EnsembleWeights.load(tmp_path / "run" / "weights" / "simple.json").models == ("transe", "inverse")


def test_names_and_force(folders, tmp_path):
    run = tmp_path / "run"
    succeed(*arguments(folders, run, "--trust", "--names", "a, b", "--no-gaps"))
    assert Run.open(run).ranks("test").models == ("a", "b")
    fail(2, "already has ranks of valid and test: pass --force", *arguments(folders, run, "--trust"))
    succeed(*arguments(folders, run, "--trust", "--force"))
    assert Run.open(run).ranks("test").models == ("transe", "inverse")


def test_nothing_is_loaded_without_trust(folders, tmp_path):
    message = "trained_model.pkl: loading a pickle runs whatever code its maker put into it. If you"
    fail(2, message, *arguments(folders, tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_wrong_requests_are_explained(folders, tmp_path):
    run = tmp_path / "run"
    fail(2, "--names has 1 of 2 names", *arguments(folders, run, "--trust", "--names", "a"))
    fail(2, "two models are called 'a' and 'A'", *arguments(folders, run, "--trust", "--names", "a,A"))
    fail(2, "the model has 14 entities that patterns lacks", "ranks", "from-pykeen", folders / "transe",
         "--dataset", "patterns", "--run", run, "--trust")  # fmt: skip
    assert not run.exists()
