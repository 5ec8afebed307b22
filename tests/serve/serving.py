"""Running a service in a thread of the test."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from relens.serve import server
from relens.serve.app import create_app
from relens.serve.guard import Limits
from tests.serve.answers import Alphabetical


@contextmanager
def serving(ensemble: Alphabetical, limits: Limits | None = None) -> Iterator[str]:
    """Serve at a free port and yield the address, such as ``http://127.0.0.1:41234/``."""
    listener = server.listen("127.0.0.1", 0)
    hosts = server.hosts_of(listener, "127.0.0.1")
    limits = limits or Limits()
    app = create_app(ensemble, "tiny", limits=limits, hosts=hosts)  # type: ignore[arg-type]
    running = server.prepared(app, limits)
    thread = Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield server.address(listener)
    finally:
        running.should_exit = True
        thread.join(10)
        assert not thread.is_alive()
