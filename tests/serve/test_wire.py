"""Requests that two programs could read in two ways, byte by byte: each is refused, and its connection ends."""

import json
import re
import socket
import time
from contextlib import ExitStack, suppress
from threading import Event

import h11
import pytest

from relens.serve.guard import Limits
from relens.serve.wire import HEAD_BYTES, HEADER_LINES, StrictConnection
from tests.patience import HANG
from tests.serve.answers import Alphabetical
from tests.serve.serving import connected, raw, read_all, serving

HOST = b"Host: localhost\r\n"
SMUGGLED = b"GET /api/smuggled HTTP/1.1\r\n" + HOST + b"\r\n"
LINE_END, LENGTHS, FOLDED = "a line ends without CR LF", "several values of Content-Length", "continues on the next"
BESIDE, VERSION, CODING = "Transfer-Encoding stands beside", "HTTP/1.1 and HTTP/1.0 only", "Only Transfer-Encoding"


def get(*headers: bytes, version: bytes = b"1.1") -> bytes:
    lines = (b"GET /api/health HTTP/" + version, b"Host: localhost", *headers, b"", b"")
    return b"\r\n".join(lines)


def post(*headers: bytes, body: bytes = b"", version: bytes = b"1.1") -> bytes:
    return get(*headers, version=version).replace(b"GET", b"POST", 1) + body


def one_answer(connection: socket.socket) -> bytes:
    """Return an answer whose body is a JSON object; it may arrive in parts."""
    answer = b""
    while not answer.endswith(b"}"):
        answer += connection.recv(65536) or pytest.fail("the service hung up")
    return answer


CHUNKED = b"Transfer-Encoding: chunked"


@pytest.mark.parametrize(
    ("request_", "status", "reason"),
    [
        # Two lengths of one body.
        (post(b"Content-Length: 4", CHUNKED, body=b"0\r\n\r\n"), 400, BESIDE),
        (post(CHUNKED, b"Content-Length: 5", body=b"0\r\n\r\n"), 400, BESIDE),
        (get(b"transfer-ENCODING: Chunked", b"content-LENGTH: 0"), 400, BESIDE),
        (post(CHUNKED, version=b"1.0", body=b"0\r\n\r\n"), 400, BESIDE),
        (post(b"Content-Length: 2", b"Content-Length: 2", body=b"{}"), 400, LENGTHS),
        (post(b"Content-Length: 2", b"Content-Length: 3", body=b"{}"), 400, LENGTHS),
        (post(b"Content-Length: 2, 2", body=b"{}"), 400, LENGTHS),
        (post(b"Content-Length: 2,3", body=b"{}"), 400, LENGTHS),
        (post(b"Content-Length: +2", body=b"{}"), 400, "bad Content-Length"),
        (post(b"Content-Length: -2", body=b"{}"), 400, "bad Content-Length"),
        (post(b"Content-Length: 0x2", body=b"{}"), 400, "bad Content-Length"),
        (post(b"Content-Length: 2 2", body=b"{}"), 400, "bad Content-Length"),
        (post(b"Content-Length:", body=b"{}"), 400, "bad Content-Length"),
        (post(b"Content-Length: " + b"9" * 30), 400, "bad Content-Length"),
        # Codings.
        (post(b"Transfer-Encoding: chunked, identity", body=b"0\r\n\r\n"), 501, CODING),
        (post(b"Transfer-Encoding: identity", body=b"0\r\n\r\n"), 501, CODING),
        (post(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"), 501, CODING),
        (post(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n"), 501, CODING),
        (post(b'Transfer-Encoding: "chunked"', body=b"0\r\n\r\n"), 501, CODING),
        (post(CHUNKED, b"Transfer-Encoding: identity", body=b"0\r\n\r\n"), 501, "multiple Transfer-Encoding"),
        (post(b"Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n"), 400, "control character"),
        (post(b"Transfer-Encoding : chunked", body=b"0\r\n\r\n"), 400, "illegal header line"),
        (post(b"Content-Length : 2", body=b"{}"), 400, "illegal header line"),
        (post(b"Transfer-Encoding:\r\n chunked", body=b"0\r\n\r\n"), 400, FOLDED),
        # Lines.
        (get(b"A: b\r\n c"), 400, FOLDED),
        (get(b"A: b\r\n\tc"), 400, FOLDED),
        (get().replace(b"\r\nHost", b"\r\n Host"), 400, FOLDED),
        (get().replace(b"\r\n", b"\n"), 400, LINE_END),
        (get(b"A: b\nC: d"), 400, LINE_END),
        (get(b"A: b\rC: d"), 400, LINE_END),
        (get(b"A: b\r\rC: d"), 400, LINE_END),
        (get().replace(b"\r\n\r\n", b"\n\r\n"), 400, LINE_END),
        (get().replace(b"\r\n\r\n", b"\r\n\n"), 400, LINE_END),
        (get(b"A: b\0c"), 400, "control character"),
        (get(b"A: b\x01c"), 400, "control character"),
        (get(b"A: \x7f"), 400, "control character"),
        (get(b"nonsense"), 400, "illegal header line"),
        (get(b": empty"), 400, "illegal header line"),
        (get(b"A\xe9: b"), 400, "illegal header line"),
        (b"\r\n" + get(), 400, "no request line"),
        # Request lines.
        (get(version=b"1.2"), 505, VERSION),
        (get(version=b"2.0"), 505, VERSION),
        (get(version=b"0.9"), 505, VERSION),
        (get(version=b"9.9").replace(b"GET", b"HEAD"), 505, VERSION),
        (get(version=b"11"), 400, "illegal request line"),
        (get(version=b"1.1 "), 400, "illegal request line"),
        (get().replace(b"HTTP", b"http"), 400, "illegal request line"),
        (get().replace(b" HTTP/1.1", b""), 400, "illegal request line"),
        (get().replace(b"GET ", b"GET  "), 400, "illegal request line"),
        (get().replace(b"GET ", b"GET\t"), 400, "illegal request line"),
        (get().replace(b"/api", b"/\xc3\xa9/api"), 400, "illegal request line"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, VERSION),
        # Hosts.
        (get().replace(HOST, b""), 400, "Missing mandatory Host"),
        (get(b"Host: localhost"), 400, "multiple Host"),
        # Amounts.
        (get(b"A: " + b"b" * HEAD_BYTES), 431, "longer than 32,768 bytes"),
        (get(*[b"A: b"] * HEADER_LINES), 431, "more than 100 headers"),
        (get(*[b"A%d: b" % number for number in range(20_000)]), 431, "longer than 32,768 bytes"),
        (b"GET /" + b"a" * 300_000, 431, "longer than 32,768 bytes"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "control character"),
    ],
)  # fmt: skip
def test_an_ambiguous_request_is_refused_and_the_connection_ends(address, request_, status, reason):
    # Whatever follows is not read as a request.
    found, answer = raw(address, request_ + SMUGGLED)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert found == status
    assert reason in json.loads(body)["error"]
    assert json.loads(body)["error"].startswith("this is not HTTP as the service reads it: ")
    assert len(re.findall(rb"HTTP/1\.1 \d", answer)) == 1
    assert b"connection: close" in head.lower()
    assert b"content-security-policy" in head.lower()


def test_plain_requests_are_answered(address):
    for request in (get(), get(b"A: " + b"b" * 30_000), get(*[b"A: b"] * (HEADER_LINES - 2)), get(b"A:\tb c"),
                    get(b"A: \xe9"), get(b"Content-Length: 0"), get(version=b"1.0")):  # fmt: skip
        with connected(address) as connection:
            connection.sendall(request)
            assert connection.recv(12) == b"HTTP/1.1 200"


def test_requests_may_arrive_byte_by_byte_and_several_at_a_time(address):
    with connected(address) as connection:
        for byte in get():
            connection.sendall(bytes([byte]))
        connection.sendall(get() * 3 + get(b"Connection: close"))
        assert read_all(connection).count(b"HTTP/1.1 200") == 5


def test_what_stands_behind_an_answer_is_checked_too(address):
    answers = raw(address, get() + post(b"Content-Length: 4", CHUNKED, body=b"0\r\n\r\n") + SMUGGLED)[1]
    assert re.findall(rb"HTTP/1\.1 (\d+)", answers) == [b"200", b"400"]


@pytest.mark.parametrize(
    "chunks", [b"2\n{}\r\n0\r\n\r\n", b"0x2\r\n{}\r\n0\r\n\r\n", b"-2\r\n{}\r\n0\r\n\r\n", b"2 \n{}", b"\r\n",
               b"2\r\n{}0\r\n\r\n", b"F" * 30 + b"\r\n{}"],
)  # fmt: skip
def test_malformed_chunks_are_refused(address, chunks):
    status, answer = raw(address, post(CHUNKED, body=chunks) + SMUGGLED)
    assert status == 400
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("end", [b"0\r\n\r\n", b"0\r\n\n", b"0\r\nA: b\n\r\n", b'0;a="\r"\r\n\r\n'])
def test_nothing_is_read_behind_a_chunked_body(address, end):
    """h11 forgives line ends without CR at the end of chunks, so that connection is not used again."""
    request = post(CHUNKED, b"Content-Type: application/json", body=b"2\r\n{}\r\n" + end).replace(b"health", b"predict")
    status, answer = raw(address, request + SMUGGLED)
    assert status == 422
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in answer.lower()


def test_nothing_is_read_behind_a_body_that_was_refused_unread(address):
    request = post(b"Origin: null", b"Content-Length: 10") + SMUGGLED
    status, answer = raw(address, request)
    assert status == 403
    assert answer.count(b"HTTP/1.1 ") == 1


def test_an_error_inside_a_body_that_is_answered_already_ends_the_connection(caplog):
    ensemble = Alphabetical(gate=Event())
    with serving(ensemble, Limits(connections=1)) as address, connected(address) as first:
        first.sendall(get(b"Connection: keep-alive"))
        assert one_answer(first).startswith(b"HTTP/1.1 200")
        with connected(address) as second:  # one too many: it is refused before its body arrives
            second.sendall(post(CHUNKED))
            assert second.recv(12) == b"HTTP/1.1 503"
            with suppress(ConnectionError):
                second.sendall(b"nonsense\r\n")
                read_all(second)
        first.sendall(get())
        assert one_answer(first).startswith(b"HTTP/1.1 200")
    assert caplog.text == ""


BOTH = post(b"Content-Length: 5", CHUNKED, body=b"0\r\n\r\n")


def test_a_client_that_stays_after_a_refusal_is_disconnected(caplog):
    with serving(Alphabetical(), Limits(silent_seconds=1)) as address, connected(address) as connection:
        connection.sendall(get() + BOTH)
        assert re.findall(rb"HTTP/1\.1 (\d+)", read_all(connection)) == [b"200", b"400"]
        begun = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() < begun + HANG:
                connection.sendall(b"more")
                time.sleep(0.05)
            pytest.fail("the service did not hang up")
    assert caplog.text == ""


def test_the_service_stops_while_a_refused_client_stays(caplog):
    with ExitStack() as opened, serving(Alphabetical()) as address:
        connection = opened.enter_context(connected(address))
        connection.sendall(BOTH)
        assert read_all(connection).startswith(b"HTTP/1.1 400")
    assert caplog.text == ""


def test_nothing_is_read_after_a_refusal():
    refused: list[tuple[int, str]] = []
    connection = StrictConnection(lambda status, reason: refused.append((status, reason)))
    connection.receive_data(get(version=b"3.0"))
    assert connection.next_event() is h11.NEED_DATA
    connection.receive_data(get())
    assert connection.next_event() is h11.NEED_DATA
    assert refused == [(505, "this service speaks HTTP/1.1 and HTTP/1.0 only")]
