"""Progress of long work, reported to the caller without knowledge of terminals."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[float], None]


class Progress(Protocol):
    """A display of tasks and notes. The command line shows bars; the library's default shows nothing."""

    def task(self, description: str, total: float) -> AbstractContextManager[Advance]:
        """Open a task of ``total`` units. The context yields a function that adds finished units."""
        ...

    def note(self, message: str) -> None:
        """Show a remark about the work, between tasks."""
        ...


class Silent:
    """A display that shows nothing."""

    @contextmanager
    def task(self, description: str, total: float) -> Iterator[Advance]:
        """Open a task whose advances are ignored."""
        del description, total
        yield lambda amount: None

    def note(self, message: str) -> None:
        """Ignore the remark."""
        del message


SILENT = Silent()
