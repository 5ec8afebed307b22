"""How the library tells a caller that long work advances, without knowing about terminals."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[float], None]


class Progress(Protocol):
    """Anything that can show tasks: the command line shows bars, the library's default shows nothing."""

    def task(self, description: str, total: float) -> AbstractContextManager[Advance]:
        """Open a task of ``total`` units; the context yields a callable that adds finished units."""
        ...

    def note(self, message: str) -> None:
        """Say something about the work, between tasks."""
        ...


class Silent:
    """A progress display that shows nothing."""

    @contextmanager
    def task(self, description: str, total: float) -> Iterator[Advance]:
        """Open a task whose advances are ignored."""
        del description, total
        yield lambda amount: None

    def note(self, message: str) -> None:
        """Say nothing."""
        del message


SILENT = Silent()
