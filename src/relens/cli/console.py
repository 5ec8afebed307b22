"""Output to the terminal: results on stdout, messages and progress on stderr."""

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from relens.progress import Advance

SHOW_AFTER_S = 0.5


def complain(message: str) -> None:
    """Print an error message on stderr."""
    click.echo(f"relens: error: {message}", err=True)


def note(message: str) -> None:
    """Print a message on stderr."""
    click.echo(f"relens: {message}", err=True)


def emit(text: str) -> None:
    """Print a result on stdout."""
    click.echo(text)


def emit_json(value: Any) -> None:
    """Print a result on stdout as JSON."""
    click.echo(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False))


class TerminalProgress:
    """Progress bars on a terminal; a line every ten seconds if stderr is a file."""

    @contextmanager
    def task(self, description: str, total: float) -> Iterator[Advance]:
        """Show a task after it has run for half a second."""
        console = Console(stderr=True)
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
