"""The monitor: what was asked, how it ended and how long it took, as metrics and as a request log."""

import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TextIO
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relens.serve.metrics import Metrics

SHOWN = 200
"""Characters of a path in the request log."""
_PLAIN = "/:@!$&'()*+,;="


class Monitor:
    """Counts requests, and writes a line about each one if there is a log.

    A line has the time, the client's address, method, path, status and milliseconds. Query strings, headers and bodies
    are left out: they may hold secrets. Method and path are percent-encoded, so that they stay in their place.
    """

    def __init__(self, metrics: Metrics, log: TextIO | None) -> None:
        self.metrics, self._log = metrics, log

    def malformed(self, client: str, status: int) -> None:
        """Record something that could not be read as a request."""
        self._record(client, "-", None, status, 0.0)

    def answered(self, client: str, method: str, path: str, status: int | None, seconds: float) -> None:
        """Record an answer; without status, the client left before it."""
        self._record(client, _encoded(method), path, status, seconds)

    def _record(self, client: str, method: str, path: str | None, status: int | None, seconds: float) -> None:
        self.metrics.count(path, status, seconds)
        if self._log is None:
            return
        shown = "-" if path is None else _encoded(path)
        when = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        # A full disk or a closed terminal must not stop the service.
        with suppress(OSError, ValueError):
            self._log.write(f"{when} {client} {method} {shown} {status or '-'} {1000 * seconds:.1f} ms\n")
            self._log.flush()


def _encoded(text: str) -> str:
    """Return a text in printable ASCII without spaces, shortened."""
    encoded = quote(text, safe=_PLAIN, errors="replace")
    return encoded if len(encoded) <= SHOWN else f"{encoded[:SHOWN]}..."


class Monitored:
    """Middleware that reports every request to a monitor."""

    def __init__(self, app: ASGIApp, monitor: Monitor) -> None:
        self.app, self.monitor = app, monitor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and report it when it ends."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status = time.perf_counter(), None
        metrics = self.monitor.metrics

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        method, path, client = scope["method"], scope["path"], (scope.get("client") or ["-"])[0]
        metrics.in_flight += 1
        try:
            await self.app(scope, receive, watched)
        finally:
            metrics.in_flight -= 1
            self.monitor.answered(client, method, path, status, time.perf_counter() - begun)
