"""Connections: one that sends no request, or takes no answer, does not keep its place."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


class ImpatientProtocol(H11Protocol):
    """HTTP that hangs up where the other side is silent for ``timeout_keep_alive`` seconds.

    uvicorn closes a connection only after its first answer, and waits again with the first byte of the next request:
    connections without a request, or with half of one, would stay for ever, and all of them count against
    ``limit_concurrency``. Here all headers of a request must have arrived in time, be it the first or a later one, and
    an answer must be read. Bodies are the guard's business.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._patience: asyncio.TimerHandle | None = None
        self._unread = 0  # bytes of answers that the other side had not taken when the wait began

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def handle_events(self) -> None:
        """Stop waiting once a request is there."""
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

    def _wait(self) -> None:
        self._stop_waiting()
        self._unread = self.transport.get_write_buffer_size()
        self._patience = self.loop.call_later(self.timeout_keep_alive, self._hang_up)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _hang_up(self) -> None:
        if 0 < self.transport.get_write_buffer_size() < self._unread:
            self._wait()  # it reads, if slowly
        else:
            self.transport.abort()  # a polite end would wait until everything sent is read
