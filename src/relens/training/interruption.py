"""Ctrl-C: work that should end in good order hears of it, and says itself when it can stop."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Hears, while it is open, what would otherwise end the process; a second signal ends the work at once.

    Python hands signals to the main thread alone: in any other, nothing is heard and nothing changes. A signal that is
    ignored stays ignored.

    Attributes:
        asked: whether somebody wants the work to stop.
    """

    def __init__(self, heard: Callable[[], object] = lambda: None) -> None:
        """``heard`` is called for each signal."""
        self.asked = False
        self._heard, self._at_once = heard, False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if current_thread() is main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Inside, work changes nothing, and may be left anywhere: a signal raises ``KeyboardInterrupt`` there."""
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    def _hear(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        first, self.asked = not self.asked, True
        self._heard()
        if self._at_once or not first:
            raise KeyboardInterrupt
