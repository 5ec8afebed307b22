"""Ctrl-C and other requests to end: long work is told about them and decides itself when it can stop."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, Self

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Ctrl-C, a request to terminate, and, where there are terminals, the end of the terminal."""
Handler = Callable[[int, FrameType | None], object]


def handle_signals(handler: Handler) -> dict[signal.Signals, Any]:
    """Handle ``SIGNALS`` from now on, but those that are ignored; return the earlier handlers."""
    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in heard}


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
            self._before = handle_signals(self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    @contextmanager
    def immediate(self) -> Iterator[None]:
        """Raise ``KeyboardInterrupt`` for a signal inside: for work that changes nothing and may end anywhere.

        Code in C, and compilers, may turn the interrupt into an error of their own; it becomes the interrupt again.
        """
        self._immediate = True
        try:
            yield
        except Exception as error:
            if not self.requested or isinstance(error.__cause__, KeyboardInterrupt):
                raise
            raise KeyboardInterrupt from None
        finally:
            self._immediate = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        if number not in (signal.SIGINT, signal.SIGTERM):  # a terminal that is closed says so more than once
            signal.signal(number, signal.SIG_IGN)
            self._before[signal.Signals(number)] = signal.SIG_IGN
        first, self.requested = not self.requested, True
        self._on_signal()
        if self._immediate or not first:
            raise KeyboardInterrupt
