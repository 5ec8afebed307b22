"""The server: an address that is checked before models are loaded, and a quiet shutdown."""

import socket
from contextlib import suppress
from ipaddress import ip_address

import uvicorn
from fastapi import FastAPI

from relens.errors import InputError, RelensError
from relens.serve.connections import ImpatientProtocol
from relens.serve.guard import DEFAULT_LIMITS, Limits

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
