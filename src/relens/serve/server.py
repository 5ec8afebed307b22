"""The server: an address that is checked before models are loaded, limits of connections, and a quiet shutdown."""

import asyncio
import socket
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from relens.errors import InputError, RelensError
from relens.serve.guard import DEFAULT_LIMITS, HEADERS, Limits, RefusedError

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


LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; port 0 picks a free port."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise InputError(f"cannot listen at {host!r}: no such host. Use an address of this machine.") from error
    listener = socket.socket(family, kind, protocol)
    try:
        # Reuse the address of a service that has just stopped, but not one that is still in use.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise RelensError(
            f"cannot listen at {host} port {port}: {error.strerror or error}. "
            f"Choose another port with `port=N`, or let `port=0` pick a free one."
        ) from error
    return listener


def address(listener: socket.socket) -> str:
    """Return the address to type into a browser."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def is_loopback(listener: socket.socket) -> bool:
    """Say whether only programs on this machine can connect."""
    return ip_address(listener.getsockname()[0]).is_loopback


def hosts_of(listener: socket.socket, host: str) -> frozenset[str] | None:
    """Return the host names that clients may use; None for any."""
    if not is_loopback(listener):
        return None
    return frozenset({*LOOPBACK_NAMES, host.lower(), listener.getsockname()[0]})


def prepared(app: FastAPI, limits: Limits = DEFAULT_LIMITS) -> uvicorn.Server:
    """Return a server that writes no access log, hides its name, and finishes running requests when it stops."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=ImpatientProtocol,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            limit_concurrency=limits.connections,
            timeout_keep_alive=limits.silent_seconds,
            timeout_graceful_shutdown=5,
        )
    )


def serve(app: FastAPI, listener: socket.socket) -> None:
    """Answer requests until interrupted."""
    with suppress(KeyboardInterrupt):  # uvicorn stops first, then raises the signal again
        prepared(app).run(sockets=[listener])
