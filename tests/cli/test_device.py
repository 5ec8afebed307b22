"""Devices by name, and that commands compute on the one they were given."""

from threading import local

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

import torch

from relens.devices import pick_devices
from relens.errors import InputError
from relens.models.base import current
from relens.models.transe import TransE
from relens.prediction import Ensemble
from relens.ranking import scoring
from relens.training import loop
from tests.cli.commands import succeed
from tests.patience import HANG
from tests.pipeline.graph import write_ring


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


@pytest.mark.usefixtures("two_gpus")
def test_several_devices_keep_their_order_and_may_be_named_twice():
    assert list(map(str, pick_devices("cuda:1, cuda:0,cuda:1"))) == ["cuda:1", "cuda:0", "cuda:1"]
    assert list(map(str, pick_devices("auto"))) == ["cuda"]


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("cuda:0,cuda:2", "there is no device 'cuda:2', only cpu, cuda:0, cuda:1: name one of these"),
        ("meta", "there is no device 'meta'"),
        ("cuda:0,gpu", "unknown device 'gpu': expected auto, cpu, cuda or cuda:N"),
        ("cuda:0,", "unknown device ''"),
    ],
)
def test_a_device_that_is_not_here_is_refused(names, message):
    with pytest.raises(InputError, match=message):
        pick_devices(names)


class Current:
    """Stands for ``torch.cuda.device`` where there is no GPU: each thread has a current one, the first unless told."""

    _of_thread = local()

    def __init__(self, device):
        self._inside = device

    def __enter__(self):
        self._outside, self._of_thread.device = self.now(), self._inside

    def __exit__(self, *error):
        self._of_thread.device = self._outside

    @classmethod
    def now(cls):
        return getattr(cls._of_thread, "device", torch.device("cuda:0"))


@pytest.fixture
def scored_on(monkeypatch):
    """Take the CPU for the second GPU, and return the devices that were current when TransE scored."""
    seen = set()
    score = TransE.score

    def watched(*arguments):
        seen.add(str(Current.now()))
        return score(*arguments)

    monkeypatch.setattr(torch.cuda, "device", Current)
    monkeypatch.setattr(TransE, "score", watched)
    for module in (loop, scoring):
        monkeypatch.setattr(module, "current", lambda device: current(torch.device("cuda:1")))
    return seen


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """A run of one model on a tiny graph."""
    folder = tmp_path_factory.mktemp("device")
    graph = write_ring(folder / "ring")
    succeed(*train_in(folder / "run", graph))
    succeed("rank", folder / "run", "--device", "cpu")
    succeed("search", folder / "run", "--method", "mean", "--jobs", 1)
    return folder / "run"


def train_in(run, graph):
    small = [word for change in ("dim=8", "steps=4", "validate_every=2", "batch=64") for word in ("--set", change)]
    return "train", graph, "--model", "transe", "--preset", "demo", "--run", run, "--device", "cpu", *small


def test_training_and_ranking_make_their_device_the_current_one(tmp_path, scored_on):
    succeed(*train_in(tmp_path / "run", write_ring(tmp_path / "ring")))
    assert scored_on == {"cuda:1"}
    scored_on.clear()
    succeed("rank", tmp_path / "run", "--device", "cpu")
    assert scored_on == {"cuda:1"}


def test_predicting_makes_its_device_the_current_one(ring, scored_on):
    succeed("predict", ring, "--head", "e1", "--relation", "plus_1", "--device", "cpu")
    assert scored_on == {"cuda:1"}


def test_serving_makes_its_device_the_current_one_in_the_thread_that_predicts(ring, scored_on):
    pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'relens[serve]'")
    httpx = pytest.importorskip("httpx")
    from tests.serve.serving import serving

    with serving(Ensemble.open(ring, device="cpu")) as address:
        asked = {"head": "e1", "relation": "plus_1"}
        assert httpx.get(f"{address}api/predict", params=asked, timeout=HANG).status_code == 200
    assert scored_on == {"cuda:1"}
    assert str(Current.now()) == "cuda:0"


def test_pykeens_models_make_their_device_the_current_one(monkeypatch):
    pytest.importorskip("pykeen", reason="needs PyKEEN: pip install 'relens[pykeen]'")
    from relens.importers.layouts.pykeen import PykeenIds, PykeenScorer
    from tests.pykeen_folders import DATASET, other_ids

    seen = []

    class Model:
        """What the scorer needs of PyKEEN's: it is on the second GPU."""

        num_entities, device = len(DATASET.entities), torch.device("cuda:1")

        def eval(self):
            return self

        def predict_t(self, batch):
            seen.append(Current.now())
            return torch.zeros(len(batch), self.num_entities)

        predict_h = predict_t

    monkeypatch.setattr(torch.cuda, "device", Current)
    ids = PykeenIds.match(DATASET, other_ids(DATASET.entities), other_ids(DATASET.relations), place="here")
    PykeenScorer(Model(), ids).score(DATASET.queries("test"))
    assert set(map(str, seen)) == {"cuda:1"}
