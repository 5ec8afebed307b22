"""Connections: refuse those beyond the limit, and close those that send no request or read no answer."""

import asyncio
from typing import Any

from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from relens.serve.guard import HEADERS
from relens.serve.refusals import RefusedError

ROUNDS_UNREAD = 4
"""Time for a slow reader, in multiples of the time for a silent client: systems accept answers in large parts."""


class ImpatientProtocol(H11Protocol):
    """HTTP that closes a connection if the client is silent for ``timeout_keep_alive`` seconds.

    uvicorn starts that timer only after the first answer, and stops it at the first byte of the next request.
    Connections with no request, or half of one, would stay forever and count against ``limit_concurrency``. Here, all
    headers of every request must arrive in time, and answers must be read, if slowly. The guard limits bodies.

    A request on a connection beyond the limit is refused with the usual JSON object. uvicorn would send plain text, and
    would refuse the requests of all connections while there is one too many.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limit, self.limit_concurrency = self.limit_concurrency, None
        self._service = self.app
        self._surplus = False  # whether it was beyond the limit when it was made
        self._patience: asyncio.TimerHandle | None = None
        self._unread = 0  # bytes of answers that the system had not accepted at the last check
        self._rounds = 0  # checks since it last accepted some

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for the first request."""
        super().connection_made(transport)
        self._surplus = self._crowded
        self._wait()

    def handle_events(self) -> None:
        """Stop the timer once a request is complete, and let the service answer it if the limit allows."""
        self._surplus = self._surplus and self._crowded
        self.app = _refusal(len(self.connections) - 1) if self._surplus else self._service
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Start the timer for the next request, which may be there already."""
        self._wait()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Start the timer for the client to read its answer."""
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        """Continue to send, and stop the timer."""
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
        """Close the connection, unless a slow reader still reads an answer."""
        unread = self.transport.get_write_buffer_size()
        self._rounds = 1 if unread < self._unread else self._rounds + 1
        self._unread = unread
        if unread and self._rounds < ROUNDS_UNREAD:
            self._arm()
        else:
            self.transport.abort()  # close() would wait until everything is read


def _refusal(others: int) -> Response:
    """Return the response to a request on a connection beyond the limit, which is closed afterwards."""
    response = RefusedError(503, f"{others} connections are open already: try again in a moment").response()
    response.headers.update({**HEADERS, "Connection": "close"})
    return response
