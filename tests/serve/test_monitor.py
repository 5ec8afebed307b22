"""The request log: a line for each request, without secrets, and one line only."""

import io
import re

import httpx
import pytest

from relens.serve.guard import Limits
from relens.serve.metrics import Metrics
from relens.serve.monitor import Monitor
from tests.patience import HANG
from tests.serve.answers import Alphabetical
from tests.serve.serving import connected, raw, read_all, serving

TOKEN = "a-secret-token-of-41-characters"
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ 127\.0\.0\.1 (\S+) (\S+) (\d{3}|-) \d+\.\d ms")


def logged(log: io.StringIO) -> list[str]:
    """Return method, path and status of each line."""
    matches = [LINE.fullmatch(line) for line in log.getvalue().splitlines()]
    return [" ".join(match.groups()) for match in matches if match or pytest.fail(log.getvalue())]


def test_requests_are_logged_without_query_body_and_token():
    log = io.StringIO()
    with serving(Alphabetical(), token=TOKEN, log=log) as address, httpx.Client(base_url=address) as client:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        client.get("/api/predict?head=my-secret&relation=likes", headers=headers)
        client.post("/api/predict", json={"queries": [{"head": "my-secret", "relation": "likes"}]}, headers=headers)
        client.get(f"/?token={TOKEN}")
        client.head("/docs")
        client.get("/api/run", headers={"Authorization": f"Bearer {TOKEN}x"})
        raw(address, f"GET /{TOKEN}\nHost: x\r\n\r\n".encode())
    assert logged(log) == [
        "GET /api/predict 404", "POST /api/predict 404", "GET / 200", "HEAD /docs 200", "GET /api/run 401", "- - 400",
    ]  # fmt: skip
    assert "secret" not in log.getvalue()


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/a%0d%0aforged", "/a%0D%0Aforged"),
        ("/%1b[31mred", "/%1B%5B31mred"),
        ("/a%20200%20b", "/a%20200%20b"),
        ("/%c3%a9%e2%80%ae", "/%C3%A9%E2%80%AE"),
        ("/%ff%00", "/%EF%BF%BD%00"),
        ("/%25", "/%25"),
        ("/\"'<>\\", "/%22'%3C%3E%5C"),
        ("/" + "x" * 1000, "/" + "x" * 199 + "..."),
    ],
)
def test_a_path_stays_in_its_place(path, shown):
    log = io.StringIO()
    with serving(Alphabetical(), log=log) as address:
        raw(address, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert logged(log) == [f"GET {shown} 404"]


def test_a_strange_method_is_shortened():
    log = io.StringIO()
    with serving(Alphabetical(), log=log) as address:
        raw(address, b"A" * 1000 + b"|^ / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert logged(log) == ["A" * 200 + "... / 405"]


def test_a_client_that_leaves_has_no_status_and_refused_connections_have_one():
    log = io.StringIO()
    with serving(Alphabetical(), Limits(connections=1), log=log) as address, connected(address) as connection:
        connection.sendall(b"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        with connected(address) as other:
            other.sendall(b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert read_all(other).startswith(b"HTTP/1.1 503")
    assert logged(log) == ["GET /api/health 503", "POST /api/predict -"]


def test_a_log_that_cannot_be_written_does_not_stop_the_service():
    log = io.StringIO()
    with serving(Alphabetical(), log=log) as address:
        log.close()
        assert httpx.get(f"{address}api/health", timeout=HANG).status_code == 200


def test_without_a_log_requests_are_counted_only():
    monitor = Monitor(Metrics(["/"]), None)
    monitor.answered("client", "GET", "/", 200, 0.1)
    monitor.malformed("client", 400)
    assert 'relens_requests_total{route="/",status="200"} 1' in monitor.metrics.text(0)
