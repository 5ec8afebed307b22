"""What workers write about their trainings is shown in order: a task for each model, and a note for each validation."""

import time
from contextlib import contextmanager

from relens.pipeline import monitor
from relens.pipeline.monitor import Sender, _Board, watching
from relens.training.log import LogRecord
from tests.patience import HANG


class Shown:
    """A display that remembers."""

    def __init__(self) -> None:
        self.said: list = []

    @contextmanager
    def task(self, description, total):
        self.said.append((description, total))
        yield lambda amount: self.said.append((description, f"+{amount}"))
        self.said.append((description, "done"))

    def note(self, message):
        self.said.append(message)


def record(step, mrr=None, steps=100):
    return LogRecord(step, 0.5, mrr, 0.1, 1000.0, 7.0, steps, 3.0)


def test_models_are_shown_with_their_places(tmp_path):
    shown = Shown()
    board = _Board(tmp_path, ["a", "b"], shown)
    sender = Sender(tmp_path, "b")
    sender.doing(0, 100, "step")
    board.read()
    sender.doing(20, 100, "validation")
    sender.record(record(20))
    sender.record(record(20, 0.25))
    board.read()
    board.read()
    sender.end()
    board.read()
    title = "b (model 2 of 2), steps"
    assert shown.said == [
        (title, 100),
        (title, "+0"),
        (title, "+20"),
        (title, "+0"),
        "b (model 2 of 2): step 20 of 100, loss 0.5000, validation MRR 0.2500, 1,000 examples/s, lr 0.1, 7 s, about "
        "3 s left",
        (title, "done"),
    ]


def test_another_number_of_steps_is_said(tmp_path):
    shown = Shown()
    board, sender = _Board(tmp_path, ["a"], shown), Sender(tmp_path, "a")
    sender.doing(50, 100, "validation")
    sender.doing(60, 80, "validation")
    board.read()
    title = "a (model 1 of 1), steps"
    assert shown.said == [
        (title, 100),
        (title, "+50"),
        "a (model 1 of 1): 80 steps instead of 100, to end in time",
        (title, "done"),
        (title, 80),
        (title, "+60"),
    ]


def test_a_line_that_is_not_complete_waits(tmp_path):
    shown = Shown()
    board = _Board(tmp_path, ["a"], shown)
    (tmp_path / "a.doing").write_text('{"step": 1, "steps": 2}\n{"step": 2, ')
    board.read()
    assert shown.said[-1] == ("a (model 1 of 1), steps", "+1")
    with (tmp_path / "a.doing").open("a") as file:
        file.write('"steps": 2}\n')
    board.read()
    assert shown.said[-1] == ("a (model 1 of 1), steps", "+1")
    assert len(shown.said) == 3


def test_frequent_steps_are_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(monitor, "PAUSE_S", HANG)
    sender = Sender(tmp_path, "a")
    for step in range(5):
        sender.doing(step, 100, "step")
    assert (tmp_path / "a.doing").read_text().count("\n") == 1


def test_watching_shows_everything_at_the_latest_when_it_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(monitor, "PAUSE_S", 0.01)
    shown = Shown()
    with watching(tmp_path, ["a"], shown):
        Sender(tmp_path, "a").doing(1, 2, "validation")
        deadline = time.monotonic() + HANG
        while not shown.said and time.monotonic() < deadline:
            time.sleep(0.01)
        Sender(tmp_path, "a").doing(2, 2, "validation")
    assert shown.said[1:] == [("a (model 1 of 1), steps", "+1")] * 2 + [("a (model 1 of 1), steps", "done")]
