"""The server: an address that is checked before models are loaded, limits of connections, and a quiet shutdown."""

import asyncio
import socket
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from relens.errors import InputError, RelensError
from relens.serve.access import TOKEN
from relens.serve.guard import DEFAULT_LIMITS, HEADERS, REFUSAL, Limits
from relens.serve.monitor import Monitor
from relens.serve.refusals import RefusedError
from relens.serve.wire import StrictConnection
from relens.training.interruption import Interruption

ROUNDS_UNREAD = 4
"""Time for a slow reader, in multiples of the time for a silent client: systems accept answers in large parts."""
BACKLOG = 128
"""Connections that the system accepts ahead, and that the service takes over at a time."""


class ImpatientProtocol(H11Protocol):
    """HTTP that closes a connection if the client is silent for ``timeout_keep_alive`` seconds.

    uvicorn starts that timer only after the first answer, and stops it at the first byte of the next request.
    Connections with no request, or half of one, would stay forever and count against ``limit_concurrency``. Here, all
    headers of every request must arrive in time, and answers must be read, if slowly. The guard limits bodies.

    A request on a connection beyond the limit is refused with the usual JSON object. uvicorn would send plain text, and
    would refuse the requests of all connections while there is one too many. Connections beyond twice the limit are
    closed at once: each one takes a file descriptor.

    Requests are read by ``StrictConnection``. uvicorn's other parser, httptools, accepts requests without a host name
    and limits no heads.
    """

    def __init__(self, monitor: Monitor, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = StrictConnection(self._refuse)
        self._monitor = monitor
        self._limit, self.limit_concurrency = self.limit_concurrency, None
        self._state = self.app_state
        self._surplus = False  # whether it was beyond the limit when it was made
        self._ended = False  # whether what still arrives is thrown away
        self._patience: asyncio.TimerHandle | None = None
        self._unread = 0  # bytes of answers that the system had not accepted at the last check
        self._rounds = 0  # checks since it last accepted some

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for the first request."""
        super().connection_made(transport)
        if self._limit is not None and len(self.connections) > 2 * self._limit:
            transport.abort()
            return
        self._surplus = self._crowded
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Read what a client sends, unless the connection has ended."""
        if not self._ended:
            super().data_received(data)

    def handle_events(self) -> None:
        """Stop the timer once a request is complete, and let the service answer it if the limit allows."""
        self._surplus = self._surplus and self._crowded
        self.app_state = {**self._state, REFUSAL: self._too_many()} if self._surplus else self._state
        before = self.cycle
        super().handle_events()
        if self.cycle is not before and not self._ended:
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

    def shutdown(self) -> None:
        """End the connection when the service stops; one that was refused has nothing more to say."""
        if self._ended:
            self.transport.abort()
        else:
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def _crowded(self) -> bool:
        return self._limit is not None and len(self.connections) > self._limit

    def _too_many(self) -> RefusedError:
        return RefusedError(503, f"{len(self.connections) - 1} connections are open already: try again in a moment")

    def _refuse(self, status: int, reason: str) -> None:
        """Answer a malformed request, and end the connection: where the next request begins is unknown."""
        self._ended = True
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()  # an answer has begun already
            return
        if self.cycle is not None:  # the service waits for a body that cannot be read
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        response = RefusedError(status, f"this is not HTTP as the service reads it: {reason}").response()
        response.headers.update({**HEADERS, "Connection": "close"})
        head = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *map(": ".join, response.headers.items()), "\r\n"]
        self.transport.write("\r\n".join(head).encode("latin-1") + bytes(response.body))
        self._monitor.malformed(self.client[0] if self.client else "-", status)
        self._unset_keepalive_if_required()
        # A close now would take the answer away from a client that still sends.
        self.transport.write_eof()
        self._wait()

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
        listener.listen(BACKLOG)
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


def check_reach(listener: socket.socket, host: str, token: str | None, *, no_token: bool) -> None:
    """Raise an error if anyone on the network could use the service, unless that is wanted."""
    if no_token and token is not None:
        raise InputError(f"`no_token=True` contradicts the token that was given: drop it, or unset {TOKEN}")
    if token is None and not no_token and not is_loopback(listener):
        raise InputError(
            f"{host} can be reached from other machines, and there is no token: anyone there could use the service. "
            f"Write a token into a file and pass `token_file=FILE`, or set {TOKEN}. `no_token=True` serves everyone, "
            f"for instance behind a proxy that asks for passwords."
        )


def hosts_of(listener: socket.socket, host: str) -> frozenset[str] | None:
    """Return the host names that clients may use; None for any."""
    if not is_loopback(listener):
        return None
    return frozenset({*LOOPBACK_NAMES, host.lower(), listener.getsockname()[0]})


def prepared(app: FastAPI, limits: Limits = DEFAULT_LIMITS) -> uvicorn.Server:
    """Return a server that hides its name, and finishes running requests when it stops."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=partial(ImpatientProtocol, app.state.monitor),  # type: ignore[arg-type]
            log_config=None,
            log_level="error",  # its warnings are about malformed requests, and clients could fill a disk with them
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            backlog=BACKLOG,
            limit_concurrency=limits.connections,
            timeout_keep_alive=limits.silent_seconds,
            timeout_graceful_shutdown=5,
        )
    )


def serve(app: FastAPI, listener: socket.socket) -> None:
    """Answer requests until interrupted."""
    server = prepared(app)
    # uvicorn does not know of closed terminals. It stops at other signals, then raises them again.
    with suppress(KeyboardInterrupt), Interruption(partial(setattr, server, "should_exit", True)):
        server.run(sockets=[listener])
