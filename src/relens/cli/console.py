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
    """Progress bars on a terminal; a line every ten seconds if stderr is a file."""

    @contextmanager
    def task(self, description: str, total: float) -> Iterator[Advance]:
        """Show a task after it has run for half a second."""
        console, description = Console(stderr=True), visible(description)
        if sys.stderr.isatty() and console.is_interactive:
            with self._bar(console, description, total) as advance:
                yield advance
        else:
            yield _plain_lines(description, total)

    def note(self, message: str) -> None:
        """Print a message on stderr, with the options of the command in place of Python arguments."""
        from relens.cli import with_options

        context = click.get_current_context(silent=True)
        note(message if context is None else with_options(message, context.command))

    @contextmanager
    def _bar(self, console: Console, description: str, total: float) -> Iterator[Advance]:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        bars = RichProgress(*columns, console=console, transient=True)
        task = bars.add_task(description, total=total)
        # A timer shows the bar before the first advance, because compiling a kernel may take many seconds.
        timer = threading.Timer(SHOW_AFTER_S, bars.start)
        timer.daemon = True
        timer.start()
        try:
            yield lambda amount: bars.advance(task, amount)
        finally:
            timer.cancel()
            timer.join()
            with _for_anyone_who_looks():
                bars.stop()


def _plain_lines(description: str, total: float, every_s: float = 10.0) -> Advance:
    begun = last = time.monotonic()
    done = 0.0

    def advance(amount: float) -> None:
        nonlocal done, last
        done += amount
        now = time.monotonic()
        if now - last >= every_s and done > 0:
            last = now
            left = (now - begun) * (total - done) / done
            note(f"{description}: {done:,.0f} of {total:,.0f}, about {left:,.0f} s left")

    return advance
