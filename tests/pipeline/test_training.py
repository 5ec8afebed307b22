"""Models that train side by side: who trains what, what comes out, and what is left where one of them fails."""

import errno
import os
import signal
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

import torch

from relens.data.catalog import load_dataset
from relens.errors import RelensError
from relens.pipeline.plan import Plan
from relens.pipeline.resolving import settings_of
from relens.pipeline.training import train_side_by_side
from relens.runs import Run
from relens.training.trained import TrainedModel
from tests.patience import HANG
from tests.pipeline.graph import CHANGES, MODELS, write_ring

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return str(write_ring(tmp_path_factory.mktemp("graphs") / "ring"))


def train(graph: str, path: Path, places, listener=lambda name, device, record: None):
    """Train what a run, which is made if need be, has not complete."""
    run = Run.open(path) if path.exists() else Run.create(path, "ring")
    settings = settings_of(Plan(graph, MODELS).with_changes(CHANGES), "ring", on_cpu=True)
    wanted = {name: settings[name] for name in MODELS if name not in parameters(path)}
    train_side_by_side(run, load_dataset(graph), wanted, places=places, listener=listener)


def parameters(path: Path) -> dict[str, bytes]:
    """Return the file of parameters of each complete model."""
    return {file.parts[-3]: file.read_bytes() for file in path.glob("models/*/trained/model.safetensors")}


@pytest.fixture(scope="module")
def alone(graph, tmp_path_factory):
    """The parameters of models that were trained one after the other."""
    path = tmp_path_factory.mktemp("runs") / "alone"
    train(graph, path, [CPU])
    return parameters(path)


def test_the_next_model_begins_where_a_place_is_free(graph, alone, tmp_path):
    """The first model waits for the last to begin: somebody else must train all the others meanwhile."""
    seen = tmp_path / "seen"
    seen.mkdir()

    def listen(name, device, record):
        (seen / f"{name}.{os.getpid()}").touch()
        deadline = time.monotonic() + HANG
        while name == MODELS[0] and not list(seen.glob(f"{MODELS[-1]}.*")):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    train(graph, tmp_path / "run", [CPU, CPU], listener=listen)
    workers = dict(file.name.split(".") for file in seen.iterdir())
    first, *others = (workers[name] for name in MODELS)
    assert len(set(others)) == 1
    assert first not in others
    assert parameters(tmp_path / "run") == alone


@pytest.mark.parametrize("places", [[CPU], [CPU, CPU]], ids=["one", "two"])
def test_a_model_that_fails_is_named_and_the_others_are_completed(graph, alone, tmp_path, places):
    def listen(name, device, record):
        if name == "complex":
            raise RuntimeError("out of luck")

    path = tmp_path / "run"
    with pytest.raises(RelensError, match=r"^complex failed on cpu: RuntimeError: out of luck \(the other models are"):
        train(graph, path, places, listener=listen)
    assert parameters(path) == {name: alone[name] for name in ("transe", "conve")}
    train(graph, path, places)
    assert parameters(path) == alone


def test_a_full_disk_fails_a_model_with_a_remedy_and_no_traceback(graph, tmp_path, caplog):
    def listen(name, device, record):
        raise OSError(errno.ENOSPC, "No space left on device", "/x/torchinductor")

    with pytest.raises(
        RelensError, match=r"^transe failed on cpu: .*'/x/torchinductor': free some space there, or set"
    ):
        train(graph, tmp_path / "run", [CPU], listener=listen)
    assert len(caplog.records) == len(MODELS)
    assert not any(record.exc_info for record in caplog.records)


def test_a_dead_worker_raises_an_error_that_names_its_models(graph, tmp_path):
    def listen(name, device, record):
        if name == "complex":
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(RelensError, match=r"a process .* died, .*: .*complex on cpu.*Run the same command again"):
        train(graph, tmp_path / "run", [CPU, CPU], listener=listen)
    assert "complex" not in parameters(tmp_path / "run")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_models_train_on_the_gpus_named(graph, tmp_path):
    """On one GPU two at a time."""
    places = [torch.device("cuda", number % torch.cuda.device_count()) for number in range(2)]

    def listen(name, device, record):
        (tmp_path / f"{name} on {device}").touch()

    train(graph, tmp_path / "run", places, listener=listen)
    for name in MODELS:
        assert TrainedModel.open(tmp_path / "run" / "models" / name / "trained").result["step"] == 30
    used = {file.name.split()[-1] for file in tmp_path.glob("* on *")}
    assert used <= set(map(str, places))
