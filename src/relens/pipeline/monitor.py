"""Watching trainings in other processes: workers append lines to files, and one thread shows them as progress."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

from relens.files import json_line
from relens.progress import Advance, Progress
from relens.training.log import LogRecord
from relens.training.loop import Doing

PAUSE_S = 0.5
"""How often workers write, at most, and how often their files are read."""


class Sender:
    """Tells the watching process about the training of one model."""

    def __init__(self, folder: Path, name: str) -> None:
        """Write below a folder that all workers share."""
        self._path, self._sent = folder / f"{name}.doing", -PAUSE_S

    def doing(self, step: int, steps: int, what: Doing) -> None:
        """Say how many steps are taken, of how many, before a step or a validation; frequent steps are dropped."""
        if what == "validation" or time.monotonic() - self._sent >= PAUSE_S:
            self._send({"step": step, "steps": steps})

    def record(self, record: LogRecord) -> None:
        """Pass on a record of the log that has a validation."""
        if record.mrr is not None:
            self._send({"step": record.step, "steps": record.steps, "text": record.describe()})

    def end(self) -> None:
        """Say that the training has ended."""
        self._send({"ended": True})

    def _send(self, line: dict[str, Any]) -> None:
        self._sent = time.monotonic()
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json_line(line))


@contextmanager
def watching(folder: Path, names: Sequence[str], progress: Progress) -> Iterator[None]:
    """Show the trainings that workers report in a folder, until the context ends.

    Args:
        folder: where the workers' ``Sender`` writes.
        names: the models, in their order.
        progress: receives a task for each model in training, and a note for each validation.
    """
    ending, board = Event(), _Board(folder, names, progress)

    def watch() -> None:
        with board:
            while not ending.wait(PAUSE_S):
                board.read()
            board.read()

    thread = Thread(target=watch, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


@dataclass
class _Shown:
    """The task of a model in training: its steps, and how far it is."""

    task: ExitStack
    advance: Advance
    steps: int
    step: int = 0


@dataclass
class _Board:
    """What is shown of each model."""

    folder: Path
    names: Sequence[str]
    progress: Progress
    offsets: dict[str, int] = field(default_factory=dict)
    shown: dict[str, _Shown] = field(default_factory=dict)

    def __enter__(self) -> "_Board":
        return self

    def __exit__(self, *error: object) -> None:
        for name in list(self.shown):
            self._close(name)

    def read(self) -> None:
        """Show what was written since the last call."""
        for number, name in enumerate(self.names, 1):
            path = self.folder / f"{name}.doing"
            if not path.is_file():
                continue
            with path.open("rb") as file:
                file.seek(self.offsets.get(name, 0))
                text = file.read()
            complete = text[: text.rfind(b"\n") + 1]
            self.offsets[name] = self.offsets.get(name, 0) + len(complete)
            title = f"{name} (model {number} of {len(self.names)})"
            for line in complete.splitlines():
                self._show(name, title, json.loads(line))

    def _show(self, name: str, title: str, line: dict[str, Any]) -> None:
        if "ended" in line:
            self._close(name)
            return
        shown = self.shown.get(name)
        if shown is None or shown.steps != line["steps"]:
            if shown is not None:
                self.progress.note(f"{title}: {line['steps']:,} steps instead of {shown.steps:,}, to end in time")
            self._close(name)
            task = ExitStack()
            advance = task.enter_context(self.progress.task(f"{title}, steps", line["steps"]))
            shown = self.shown[name] = _Shown(task, advance, line["steps"])
        shown.advance(line["step"] - shown.step)
        shown.step = line["step"]
        if "text" in line:
            self.progress.note(f"{title}: {line['text']}")

    def _close(self, name: str) -> None:
        shown = self.shown.pop(name, None)
        if shown is not None:
            shown.task.close()
