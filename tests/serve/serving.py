"""Running a service in a thread of the test, and talking to it byte by byte."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from relens.serve import server
from relens.serve.app import create_app
from relens.serve.guard import Limits
from tests.patience import HANG
from tests.serve.answers import Alphabetical


@contextmanager
def serving(ensemble: Alphabetical, limits: Limits | None = None, **options: Any) -> Iterator[str]:
    """Serve at a free port and yield the address, such as ``http://127.0.0.1:41234/``."""
    listener = server.listen("127.0.0.1", 0)
    limits = limits or Limits()
    options = {"hosts": server.hosts_of(listener, "127.0.0.1"), **options}
    app = create_app(ensemble, "tiny", limits=limits, **options)  # type: ignore[arg-type]
    running = server.prepared(app, limits)
    thread = Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield server.address(listener)
    finally:
        running.should_exit = True
        thread.join(HANG)
        assert not thread.is_alive()


def raw(address: str, request: bytes, *, or_nothing: bool = False) -> tuple[int, bytes]:
    """Send bytes, and return the status and everything that comes back; 0 if the service may hang up instead."""
    try:
        with connected(address) as connection:
            connection.sendall(request)
            answer = read_all(connection)
    except ConnectionError:
        answer = b""
    if not answer and or_nothing:
        return 0, b""
    return int(answer.split(b" ", 2)[1]), answer


def connected(address: str) -> socket.socket:
    """Return a connection to a service."""
    where = urlsplit(address)
    return socket.create_connection((where.hostname, where.port), timeout=HANG)


def read_all(connection: socket.socket) -> bytes:
    """Return everything that comes until the service hangs up."""
    answer = b""
    while part := connection.recv(65536):
        answer += part
    return answer
