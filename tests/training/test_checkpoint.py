import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from relens.errors import InputError
from relens.files import read_json, write_json
from relens.models import MODELS
from relens.training.checkpoint import TENSORS, Checkpoint, newest_checkpoint, remove_checkpoints, save_checkpoint
from relens.training.log import LOG, LogRecord, read_log
from relens.training.loop import TrainingObserver, TrainingResult, new_model, optimise
from tests.patience import HANG
from tests.training.graphs import N_ENTITIES, N_RELATIONS, TrainMRR, random_triples, small_settings

CPU = torch.device("cpu")
TRIPLES = random_triples()
CHANGES = ("steps=60", "validate_every=15", "log_every=5", "dropout=0.1", "schedule=plateau", "patience=0")


class StopHereError(Exception):
    pass


def train(model: str, folder: Path | None, *changes: str, until: int | None = None):
    """Train a tiny model with a checkpoint at every validation; stop by an exception at step ``until``."""

    def listen(record: LogRecord) -> None:
        if record.step == until:
            raise StopHereError

    settings = small_settings(model, *CHANGES, *changes)
    trained = new_model(settings, TRIPLES, N_ENTITIES, N_RELATIONS)
    result = optimise(
        trained,
        TRIPLES,
        settings,
        validate=TrainMRR(TRIPLES),
        observer=TrainingObserver(record=listen),
        folder=folder,
        checkpoint_seconds=0,
    )
    return trained.state_dict(), result


def same(first: TrainingResult, second: TrainingResult) -> bool:
    return (first.step, first.best_step, first.best_mrr, first.ending) == (
        second.step,
        second.best_step,
        second.best_mrr,
        second.ending,
    )


@pytest.mark.parametrize("model", MODELS)
def test_an_interrupted_run_ends_like_an_uninterrupted_one(model, tmp_path) -> None:
    expected, result = train(model, None)
    for until in (10, 20, 25, 45, 60):
        with pytest.raises(StopHereError):
            train(model, tmp_path, until=until)
    found, again = train(model, tmp_path)
    assert same(again, result)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert [line["step"] for line in read_log(tmp_path / LOG)] == list(range(5, 65, 5))


@pytest.mark.parametrize(
    "changes",
    [
        ("optimiser=adagrad",),
        ("schedule=steps", "milestones=[20, 40]"),
        ("batch=7",),
        ("averaging=0.9", "clip=0.5", "optimiser=adam", "weight_decay=0.01", "warm_up=30", "schedule=cosine"),
    ],
)
def test_optimisers_schedules_and_batches_are_resumed(changes, tmp_path) -> None:
    expected, result = train("complex", None, *changes)
    with pytest.raises(StopHereError):
        train("complex", tmp_path, *changes, until=50)
    found, again = train("complex", tmp_path, *changes)
    assert same(again, result)
    assert torch.equal(found["entity"], expected["entity"])


def test_a_finished_run_is_not_trained_again(tmp_path) -> None:
    expected, result = train("complex", tmp_path)
    found, again = train("complex", tmp_path, until=5)
    assert same(again, result)
    assert torch.equal(found["entity"], expected["entity"])


def test_checkpoints_wait_for_their_time(tmp_path) -> None:
    settings = small_settings("complex", *CHANGES)
    trained = new_model(settings, TRIPLES, N_ENTITIES, N_RELATIONS)
    optimise(trained, TRIPLES, settings, validate=TrainMRR(TRIPLES), folder=tmp_path, checkpoint_seconds=1e6)
    assert [path.name for path in tmp_path.iterdir()] == [LOG]


CHILD = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from safetensors.torch import save_file
from tests.training.test_checkpoint import train
state, result = train("rotate", Path(sys.argv[1]), "steps=400")
save_file(dict(state), sys.argv[2])
"""


def test_a_killed_run_goes_on(tmp_path) -> None:
    expected, _ = train("rotate", None, "steps=400")
    command = [sys.executable, "-c", CHILD, str(tmp_path / "run"), str(tmp_path / "end.safetensors")]
    kills = 0
    while kills < 4 and not (tmp_path / "end.safetensors").exists():
        before = sorted(path.name for path in (tmp_path / "run").glob("step-*"))
        child = subprocess.Popen(command, cwd=Path(__file__).parents[2])
        deadline = time.monotonic() + HANG
        while child.poll() is None and time.monotonic() < deadline:
            if sorted(path.name for path in (tmp_path / "run").glob("step-*")) not in ([], before):
                # Some time into what follows a checkpoint, each time another moment.
                time.sleep(0.013 * kills)
                os.kill(child.pid, signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.002)
        child.wait(timeout=HANG)
    assert kills > 0
    found, result = train("rotate", tmp_path / "run", "steps=400")
    assert result.step == 400
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    steps = [line["step"] for line in read_log(tmp_path / "run" / LOG)]
    assert steps == sorted(set(steps))


def checkpoint(step: int, **identity: object) -> Checkpoint:
    return Checkpoint(step, dict(identity), {"a": 1}, {"x": torch.full((3,), float(step))})


def test_only_the_newest_whole_checkpoint_stays(tmp_path) -> None:
    (tmp_path / ".step-000000003.abc.part").mkdir()
    (tmp_path / "notes").mkdir()
    for step in (5, 10, 10):
        save_checkpoint(tmp_path, checkpoint(step, seed=0))
    assert {path.name for path in tmp_path.iterdir()} == {"step-000000010", "notes"}
    found = newest_checkpoint(tmp_path, {"seed": 0}, CPU)
    assert found is not None
    assert (found.step, found.state, found.tensors["x"].tolist()) == (10, {"a": 1}, [10.0] * 3)
    remove_checkpoints(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_no_checkpoint_is_none(tmp_path) -> None:
    assert newest_checkpoint(tmp_path, {}, CPU) is None
    assert newest_checkpoint(tmp_path / "nowhere", {}, CPU) is None


def test_a_run_of_other_settings_is_refused(tmp_path) -> None:
    save_checkpoint(tmp_path, checkpoint(5, seed=0, lr=0.1))
    with pytest.raises(InputError, match=r"holds a run with lr 0.1 instead of 0.2: remove it to start again"):
        newest_checkpoint(tmp_path, {"seed": 0, "lr": 0.2}, CPU)


def test_damaged_checkpoints_are_refused_by_name(tmp_path) -> None:
    save_checkpoint(tmp_path, checkpoint(5))
    (tmp_path / "step-000000005" / TENSORS).write_bytes(b"\x80\x04pickle")
    with pytest.raises(InputError, match=r"tensors.safetensors is damaged: .* Remove .* to start without it"):
        newest_checkpoint(tmp_path, {}, CPU)
    record = tmp_path / "step-000000005" / "state.json"
    older = {key: value for key, value in read_json(record, "checkpoint").items() if key != "tensors"}
    record.write_text(json.dumps(older))  # that of an older relens
    with pytest.raises(InputError, match=r"tensors.safetensors cannot be read"):
        newest_checkpoint(tmp_path, {}, CPU)
    (tmp_path / "step-000000005" / "state.json").write_text(json.dumps({"kind": "relens checkpoint", "format": 99}))
    with pytest.raises(InputError, match="has format 99, this relens reads format 3"):
        newest_checkpoint(tmp_path, {}, CPU)


def test_a_log_cut_short_is_read_up_to_there(tmp_path) -> None:
    (tmp_path / LOG).write_text('{"step": 5}\n{"step": 1')
    assert read_log(tmp_path / LOG) == [{"step": 5}]


def rewrite(folder: Path, tensors: dict | None = None, **state: object) -> None:
    """Change tensors and numbers of the newest checkpoint, as somebody might who also sets its checksums right."""
    (path,) = folder.glob("step-*")
    record = read_json(path / "state.json", "checkpoint")
    record["state"] |= state
    found = load_file(path / TENSORS)
    found |= tensors or {}
    save_file({name: value for name, value in found.items() if value is not None}, path / TENSORS)
    del record["tensors"]
    write_json(path / "state.json", record)


@pytest.mark.parametrize(
    ("tensors", "state"),
    [
        ({"model.entity": None}, {}),
        ({"model.entity": torch.zeros(2, 2)}, {}),
        ({"best.entity": torch.zeros(2, 2)}, {}),
        ({"total": torch.zeros(3)}, {}),
        ({"random.cpu": torch.zeros(3, dtype=torch.uint8)}, {}),
        ({"pending": torch.tensor([10**6])}, {}),
        ({"pending": torch.tensor([-1])}, {}),
        ({"pending": torch.zeros(10**6, dtype=torch.int64)}, {}),
        ({"optimiser.0.step": torch.zeros(3)}, {}),
        ({"optimiser.0.exp_avg": None}, {}),
        ({"optimiser.99.exp_avg": torch.zeros(3)}, {}),
        ({"optimiser.0.secret": torch.zeros(3)}, {}),
        ({}, {"schedule": {"scale": 1.0}}),
        ({}, {"schedule": {"scale": "1", "best": 0.1, "without_gain": 0}}),
        ({}, {"ending": "tomorrow"}),
        ({}, {"best_mrr": "high"}),
        ({}, {"marked_step": -1}),
        ({}, {"seconds": None}),
    ],
)
def test_checkpoints_that_do_not_fit_the_run_are_refused(tensors, state, tmp_path) -> None:
    with pytest.raises(StopHereError):
        train("transe", tmp_path, until=20)
    rewrite(tmp_path, tensors, **state)
    with pytest.raises(InputError, match=f"the checkpoint of step 15 in {tmp_path} is damaged .*Remove the folder"):
        train("transe", tmp_path)
