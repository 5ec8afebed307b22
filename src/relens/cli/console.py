"""Output to the terminal: results on stdout, messages and progress on stderr."""

import logging
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from relens.progress import Advance
from relens.visible import visible, visible_json, visible_lines

SHOW_AFTER_S = 0.5
SILENCE_S = 10.0
"""The time between two lines of a task, and the longest time in which nothing is shown."""
BEAT_S = 1.0
AT_ONCE_S = 0.1
"""What a task advances by in this time was done before, as in a training that is resumed."""


def complain(message: str) -> None:
    """Print an error message on stderr."""
    emit_error(f"relens: error: {message}")


def note(message: str) -> None:
    """Print a message on stderr."""
    emit_error(f"relens: {message}")


def emit_error(text: str) -> None:
    """Print text on stderr."""
    with _for_anyone_who_looks():
        click.echo(visible_lines(text), err=True)


@contextmanager
def _for_anyone_who_looks() -> Iterator[None]:
    """Let work go on if stderr cannot be written to any more: its terminal was closed, or the disk is full."""
    try:
        yield
    except OSError:
        with suppress(OSError):  # stderr may be no file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def emit(text: str) -> None:
    """Print a result for people on stdout."""
    click.echo(visible_lines(text))


def emit_exactly(text: str) -> None:
    """Print a rendered table, or data for programs, on stdout; click would remove escape sequences from a pipe."""
    click.echo(text, color=True)


def emit_json(value: Any) -> None:
    """Print a result on stdout as JSON."""
    emit_exactly(visible_json(value, indent=1))


class _VisibleFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return visible_lines(super().format(record))


_format_warning = warnings.formatwarning


def _visible_warning(*arguments: Any, **keywords: Any) -> str:
    return visible_lines(_format_warning(*arguments, **keywords))


def make_logs_visible() -> None:
    """Print log lines and warnings like other messages. Python prints them itself: no other handler is installed."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_VisibleFormatter())
    warnings.formatwarning = _visible_warning


class TerminalProgress:
    """Progress bars on a terminal, one for each task; a line every ten seconds if stderr is a file."""

    def __init__(self) -> None:
        self._bars: RichProgress | None = None
        self._timer: threading.Timer | None = None
        self._open: list[_Task] = []
        self._lock = threading.RLock()
        self._noted, self._printed = "", time.monotonic()

    def __reduce__(self) -> tuple[type["TerminalProgress"], tuple[()]]:
        """Give a worker process, which gets it along with its work, a display of its own."""
        return type(self), ()

    @contextmanager
    def beating(self) -> Iterator["TerminalProgress"]:
        """Print what is being done whenever nothing was shown for ``SILENCE_S``, until the context ends."""
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(BEAT_S):
                self.beat()

        thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            thread.join()

    def beat(self) -> None:
        """Print what is being done if nothing was shown for ``SILENCE_S``: no bar, no line of a task, and no note."""
        with self._lock:
            silent = time.monotonic() - self._printed
            if self._bars is None and silent >= SILENCE_S and (self._open or self._noted):
                self._print("; ".join(task.describe() for task in self._open) or f"{self._noted}: at work")

    @contextmanager
    def task(self, description: str, total: float) -> Iterator[Advance]:
        """Show a task after it has run for half a second."""
        console, description = Console(stderr=True), visible(description)
        if sys.stderr.isatty() and console.is_interactive:
            with self._bar(console, description, total) as advance:
                yield advance
        else:
            with self._lines(description, total) as advance:
                yield advance

    def note(self, message: str) -> None:
        """Print a message on stderr, with the options of the command in place of Python arguments."""
        from relens.cli import with_options

        context = click.get_current_context(silent=True)
        text = message if context is None else with_options(message, context.command)
        with self._lock:
            self._noted = text.strip().splitlines()[-1] if text.strip() else self._noted
            self._print(text)

    def _print(self, text: str) -> None:
        self._printed = time.monotonic()
        note(text)

    @contextmanager
    def _bar(self, console: Console, description: str, total: float) -> Iterator[Advance]:
        with self._lock:
            bars = self._bars or self._new_bars(console)
            task = bars.add_task(description, total=total)
        try:
            yield lambda amount: bars.advance(task, amount)
        finally:
            with self._lock:
                bars.remove_task(task)
                if not bars.task_ids:
                    self._end_bars()

    def _new_bars(self, console: Console) -> RichProgress:
        """Return bars that a timer shows, before the first advance, because compiling a kernel may take long."""
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._bars = RichProgress(*columns, console=console, transient=True)
        self._timer = threading.Timer(SHOW_AFTER_S, self._bars.start)
        self._timer.daemon = True
        self._timer.start()
        return self._bars

    def _end_bars(self) -> None:
        assert self._bars is not None
        assert self._timer is not None
        self._timer.cancel()
        self._timer.join()
        with _for_anyone_who_looks():
            self._bars.stop()
        self._bars, self._printed = None, time.monotonic()

    @contextmanager
    def _lines(self, description: str, total: float) -> Iterator[Advance]:
        task = _Task(description, total, time.monotonic())
        with self._lock:
            self._open.append(task)

        def advance(amount: float) -> None:
            now = time.monotonic()
            task.done += amount
            if now - task.begun < AT_ONCE_S:
                task.before = task.done
            if now - task.shown >= SILENCE_S and task.done > 0:
                task.shown = now
                with self._lock:
                    self._print(task.describe())

        try:
            yield advance
        finally:
            with self._lock:
                self._open.remove(task)


class _Task:
    """A task that is shown by lines."""

    def __init__(self, description: str, total: float, begun: float) -> None:
        self.description, self.total, self.begun, self.shown = description, total, begun, begun
        self.done = self.before = 0.0

    def describe(self) -> str:
        """Return how far the task is."""
        text = f"{self.description}: {self.done:,.0f} of {self.total:,.0f}"
        if self.done <= self.before:
            return text
        from relens.training.log import readable_duration

        left = (time.monotonic() - self.begun) * (self.total - self.done) / (self.done - self.before)
        return f"{text}, about {readable_duration(left)} left"
