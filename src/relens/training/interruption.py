"""Ctrl-C: long work is told about it and decides itself when it can stop."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """A context that catches signals which would end the process; a second signal ends the work at once.

    Python delivers signals to the main thread alone: in any other thread this context changes nothing. Signals that
    are ignored stay ignored.

    Attributes:
        requested: whether the work should stop.
    """

    def __init__(self, on_signal: Callable[[], object] = lambda: None) -> None:
        """Call ``on_signal`` for each signal."""
        self.requested = False
        self._on_signal, self._immediate = on_signal, False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if current_thread() is main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    @contextmanager
    def immediate(self) -> Iterator[None]:
        """Raise ``KeyboardInterrupt`` for a signal inside: for work that changes nothing and may end anywhere."""
        self._immediate = True
        try:
            yield
        finally:
            self._immediate = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        first, self.requested = not self.requested, True
        self._on_signal()
        if self._immediate or not first:
            raise KeyboardInterrupt
