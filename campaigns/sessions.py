"""The processes of a session, and the time that they may take. Linux only."""

import time
from contextlib import suppress
from pathlib import Path


class Patience:
    """A limit of a wait for a session, beyond the time that its processes had to wait for a core."""

    def __init__(self, session: int, seconds: float) -> None:
        """Begin to wait."""
        self._session, self._seconds, self._begin = session, seconds, time.monotonic()
        self._before = {process: seconds_ready(process) for process in members(session)}
        self._delay = 0.0

    def is_over(self) -> bool:
        """Say whether the processes had their time."""
        waited = (seconds_ready(process) - self._before.get(process, 0.0) for process in members(self._session))
        self._delay = max(self._delay, *waited, 0.0)
        return time.monotonic() - self._begin > self._seconds + self._delay


def members(session: int) -> list[int]:
    """Return the living processes of a session."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                state, *rest = (folder / "stat").read_text().rpartition(")")[2].split()
                if state not in "ZX" and int(rest[2]) == session:
                    found.append(int(folder.name))
    return found


def seconds_ready(process: int) -> float:
    """Return how long the threads of a process were ready to run and had no core."""
    waited = 0.0
    with suppress(OSError):
        for thread in (Path("/proc") / str(process) / "task").iterdir():
            with suppress(OSError):
                waited += int((thread / "schedstat").read_text().split()[1]) / 1e9
    return waited
