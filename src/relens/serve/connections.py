"""Connections: one too many is told so; one that sends no request, or takes no answer, does not keep its place."""

import asyncio
from typing import Any

from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from relens.serve.guard import HEADERS
from relens.serve.refusals import RefusedError

ROUNDS_UNREAD = 4
"""The patience with a slow reader in times the patience with a silent one: the system takes answers in large parts."""


class ImpatientProtocol(H11Protocol):
    """HTTP that hangs up where the other side is silent for ``timeout_keep_alive`` seconds.

    uvicorn closes a connection only after its first answer, and waits again with the first byte of the next request:
    connections without a request, or with half of one, would stay for ever, and all of them count against
    ``limit_concurrency``. Here all headers of a request must have arrived in time, be it the first or a later one, and
    an answer must be read, if slowly. Bodies are the guard's business.

    A connection beyond the limit gets the JSON object that every refusal is, where uvicorn would send plain text, and
    refuse the requests of all connections for as long as there is one too many.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limit, self.limit_concurrency = self.limit_concurrency, None
        self._service = self.app
        self._surplus = False  # whether there was no room when it was made
        self._patience: asyncio.TimerHandle | None = None
        self._unread = 0  # bytes of answers that the system had not taken when it was last looked at
        self._rounds = 0  # times it was looked at since it last took some

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._surplus = self._crowded
        self._wait()

    def handle_events(self) -> None:
        """Stop waiting once a request is there, and let the service answer it if there is room."""
        self._surplus = self._surplus and self._crowded
        self.app = _refusal(len(self.connections) - 1) if self._surplus else self._service
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Wait for the next request, which may be there already."""
        self._wait()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait until what was sent is read."""
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        """Go on sending."""
        super().resume_writing()
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def _crowded(self) -> bool:
        return self._limit is not None and len(self.connections) > self._limit

    def _wait(self) -> None:
        self._stop_waiting()
        self._unread, self._rounds = self.transport.get_write_buffer_size(), 0
        self._arm()

    def _arm(self) -> None:
        self._patience = self.loop.call_later(self.timeout_keep_alive, self._judge)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _judge(self) -> None:
        """Hang up, unless an answer is still on its way to a slow reader."""
        unread = self.transport.get_write_buffer_size()
        self._rounds = 1 if unread < self._unread else self._rounds + 1
        self._unread = unread
        if unread and self._rounds < ROUNDS_UNREAD:
            self._arm()
        else:
            self.transport.abort()  # a polite end would wait until everything sent is read


def _refusal(others: int) -> Response:
    """Return the answer to a request on a connection for which there is no room; it is closed then."""
    response = RefusedError(503, f"{others} connections are open already: try again in a moment").response()
    response.headers.update({**HEADERS, "Connection": "close"})
    return response
