"""Floods: attack ``relens serve`` for a while, and check that it still answers, and that nothing grew or leaked.

``python -m campaigns floods --seed 0`` serves a tiny run and attacks it. Linux only.
"""

import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from campaigns.tally import Tally
from campaigns.tiny import train
from relens.serve.guard import DEFAULT_LIMITS

SECONDS = 120.0
"""Time of all attacks together in the full campaign."""
PATIENCE_S = 120.0
"""Limit of a wait for something that happens at its own pace; only a hang takes this long."""
ANSWER_S = 0.1
"""Time to wait for the answer to something that may deserve none, such as half a request."""
GROWTH_BYTES = 64 * 2**20
POOL_THREADS = 40
"""Threads that the web framework keeps for short requests."""
CROWD = 700
"""More connections than the service accepts, which is twice its limit of 256."""
NOBODY_READS = (ConnectionError, TimeoutError)


@dataclass(frozen=True)
class Service:
    """A running service.

    Attributes:
        process: its process.
        port: where it listens.
        stderr: the file with its messages.
    """

    process: "subprocess.Popen[bytes]"
    port: int
    stderr: Path

    def connect(self, seconds: float = PATIENCE_S) -> socket.socket:
        """Return a connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=seconds)

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Return status and body of the answer to a request on a connection of its own."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def answer(self) -> Any:
        """Return the answer to the valid question; wait while the service is busy."""
        end = time.monotonic() + PATIENCE_S
        while True:
            with suppress(OSError):
                status, body = self.ask("GET", QUESTION)
                if status == 200:
                    return json.loads(body)
                if status != 503:
                    return f"status {status}"
            if self.process.poll() is not None or time.monotonic() > end:
                return "nothing"
            time.sleep(0.05)

    def usage(self) -> "Usage":
        """Return what the process holds."""
        folder = Path("/proc") / str(self.process.pid)
        tasks = list((folder / "task").iterdir())
        children = sum(len((task / "children").read_text().split()) for task in tasks)
        pages = int((folder / "statm").read_text().split()[1])
        descriptors = len(list((folder / "fd").iterdir()))
        return Usage(pages * os.sysconf("SC_PAGE_SIZE"), len(tasks), descriptors, children)


@dataclass(frozen=True)
class Usage:
    """Resources of a process."""

    memory: int
    threads: int
    descriptors: int
    children: int


Attack = Callable[[Service, random.Random, float, Any], Tally]
"""An attack gets the service, a generator, the time to stop at, and the right answer to the valid question."""

QUESTION = "/api/predict?head=e3&relation=next&top=5"
BATCH = json.dumps({"queries": [{"head": "e3", "relation": "next"}] * 20, "top": 10}).encode()
LISTS = {
    "/api/predict": "queries", "/api/predict/relations": "pairs", "/api/score": "triples", "/api/classify": "triples",
}  # fmt: skip
"""What a body asks for, by path."""
PAIR = {"head": "e3", "tail": "e6"}
TRIPLE = {**PAIR, "relation": "next"}
SLOW = (
    ("POST", "/api/predict/relations", json.dumps({"pairs": [PAIR] * 3}).encode()),
    ("POST", "/api/score", json.dumps({"triples": [TRIPLE] * 3}).encode()),
    ("POST", "/api/classify", json.dumps({"triples": [TRIPLE] * 3}).encode()),
    ("GET", "/api/discover?relation=next&top=3&candidates=all", b""),
)
"""Method, path and body of questions that take turns with predictions."""


def request(path: str = QUESTION, *headers: str, method: str = "GET", body: bytes = b"") -> bytes:
    """Return the bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


VALID = (
    request(),
    request("/"),
    request("/api/entities?prefix=e&limit=5"),
    request("/metrics", "Connection: close"),
    request(
        "/api/predict", "Content-Type: application/json", f"Content-Length: {len(BATCH)}", method="POST", body=BATCH
    ),
    request(
        "/api/predict", "Content-Type: application/json", "Transfer-Encoding: chunked", method="POST",
        body=b"%x\r\n%s\r\n0\r\n\r\n" % (len(BATCH), BATCH),
    ),
    *(
        request(path, "Content-Type: application/json", f"Content-Length: {len(body)}", method=method, body=body)
        for method, path, body in SLOW
    ),
)  # fmt: skip
AMBIGUOUS = (
    request("/", "Content-Length: 4", "Transfer-Encoding: chunked", method="POST", body=b"0\r\n\r\n"),
    request("/", "Content-Length: 2", "Content-Length: 3", method="POST", body=b"{}"),
    request("/", "Content-Length: 2, 2", method="POST", body=b"{}"),
    request("/", "Transfer-Encoding: chunked, identity", method="POST", body=b"0\r\n\r\n"),
    request("/", "Transfer-Encoding:\r\n chunked", method="POST", body=b"0\r\n\r\n"),
    request("/", "Content-Length : 2", method="POST", body=b"{}"),
    request("/").replace(b"\r\n", b"\n"),
    request("/").replace(b"1.1", b"1.2"),
    request("/", "Host: elsewhere"),
    request("/", *["A: b"] * 5000),
    request("/", "A: " + "b" * 100_000),
)
PIECES = (
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b":",
    b"\t",
    b"\xff",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 9\r\n",
)


def exchange(service: Service, sent: bytes, seconds: float = ANSWER_S) -> bytes:
    """Send bytes on a connection of their own, and return what comes back within some seconds."""
    with service.connect() as connection:
        received = b""
        with suppress(*NOBODY_READS):
            connection.sendall(sent)
            connection.settimeout(seconds)
            while part := connection.recv(65536):
                received += part
        return received


def complaint(received: bytes) -> str | None:
    """Return what is wrong with the answer to an attack; None if nothing. No answer at all is right, too."""
    if received and not received.startswith(b"HTTP/1.1 "):
        return f"no HTTP: {received[:40]!r}"
    return f"failed inside: {received[:60]!r}" if received.startswith(b"HTTP/1.1 500") else None


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Return bytes with up to four changes."""
    changed = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(changed))
        match draw.randrange(4):
            case 0:
                changed[place] = draw.randrange(256)
            case 1:
                changed[place:place] = draw.choice(PIECES)
            case 2:
                del changed[place : place + draw.randint(1, 20)]
            case _:
                changed[place:place] = changed[: draw.randint(1, 40)]
        changed = changed or bytearray(b"\0")
    return bytes(changed)


def malformed(service: Service, draw: random.Random, end: float, expected: Any) -> Tally:
    """Send valid requests with random changes, several at a time."""
    del expected
    return side_by_side(end, draw, lambda own: complaint(exchange(service, mutated(own.choice(VALID), own))))


def ambiguous(service: Service, draw: random.Random, end: float, expected: Any) -> Tally:
    """Send requests with two readings, each followed by a smuggled one that must not be answered."""
    del expected

    def one(own: random.Random) -> str | None:
        received = exchange(service, own.choice(AMBIGUOUS) + request("/api/health"), PATIENCE_S)
        refused = received.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5"))
        single = len(re.findall(rb"HTTP/1\.1 \d", received)) == 1
        return complaint(received) if refused and single else f"expected one refusal, found {received[:60]!r}"

    return side_by_side(end, draw, one)


def random_bytes(service: Service, draw: random.Random, end: float, expected: Any) -> Tally:
    """Send bytes without any meaning."""
    del expected
    return side_by_side(end, draw, lambda own: complaint(exchange(service, own.randbytes(own.randint(1, 5000)))))


def strange_questions(service: Service, draw: random.Random, end: float, expected: Any) -> Tally:
    """Send well-formed requests with strange content."""
    del expected
    strange: tuple[Any, ...] = (
        "",
        "e3",
        "next",
        "\0",
        "💥",
        "../../etc/passwd",
        "x" * 500,
        None,
        True,
        -1,
        1e308,
        [],
        {},
        [[]] * 100,
    )

    def one(own: random.Random) -> str | None:
        path, listed = own.choice([*LISTS.items()])
        query = {own.choice(("head", "tail", "relation", "top", "more")): own.choice(strange) for _ in range(3)}
        content = own.choice((query, {listed: [query]}, {listed: [query] * 200}, [query], own.choice(strange)))
        body = json.dumps(content).encode()
        status, _ = service.ask("POST", path, body)
        too_long = status == 413 and len(body) > DEFAULT_LIMITS.body_bytes
        return None if too_long or status in (200, 404, 422, 503) else f"status {status} for {body[:80]!r}"

    return side_by_side(end, draw, one)


def side_by_side(end: float, draw: random.Random, one: Callable[[random.Random], str | None], width: int = 8) -> Tally:
    """Repeat one try in several threads until a time; it returns its defect, if there is one."""
    tally = Tally()

    def repeat(seed: int) -> list[str | None]:
        own = random.Random(seed)
        found: list[str | None] = []
        while not found or time.monotonic() < end:
            try:
                found.append(one(own))
            except NOBODY_READS as error:  # the service refused the connection or hung up: it may
                found.append(None if isinstance(error, ConnectionError) else f"no answer in {PATIENCE_S:g} s")
        return found

    with ThreadPoolExecutor(width) as pool:
        for found in pool.map(repeat, [draw.randrange(2**32) for _ in range(width)]):
            for defect in found:
                tally.note(defect)
    return tally


def crowd(service: Service, draw: random.Random, end: float, expected: Any) -> Tally:
    """Open more connections than the service accepts, and ask on some of them."""
    del expected
    tally = Tally()
    while not tally.tried or time.monotonic() < end:
        with ExitStack() as opened:
            for _ in range(CROWD):
                tally.tried += 1
                with suppress(*NOBODY_READS):  # beyond its limits, the service hangs up
                    connection = opened.enter_context(service.connect(ANSWER_S))
                    if draw.random() < 0.1:
                        connection.sendall(draw.choice(VALID))
                tally.survived += 1
    return tally


def slow_loris(service: Service, draw: random.Random, end: float, expected: Any) -> Tally:
    """Send heads and bodies byte by byte on many connections; others must be answered meanwhile."""
    tally = Tally()
    with ExitStack() as opened:
        sent = request(method="POST", body=b"{").replace(b"\r\n\r\n", b"\r\nContent-Length: 99\r\n\r\n")
        slow = [(opened.enter_context(service.connect()), iter(sent * 100)) for _ in range(100)]
        while not tally.tried or time.monotonic() < end:
            for connection, rest in draw.sample(slow, 20):
                with suppress(OSError):  # the service has lost its patience with this one
                    connection.sendall(bytes([next(rest)]))
            found = service.answer()
            tally.note(None if found == expected else f"beside slow clients, found {str(found)[:80]}")
    return tally


def huge_bodies(service: Service, draw: random.Random, end: float, expected: Any) -> Tally:
    """Announce, or just send, more than a body may have."""
    del expected
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    announced = request("/api/predict", "Content-Length: 99999999999", method="POST", body=b"{")
    endless = request("/api/predict", "Transfer-Encoding: chunked", method="POST")

    def one(own: random.Random) -> str | None:
        if own.random() < 0.5:
            received = exchange(service, announced, PATIENCE_S)
            return None if received.startswith((b"HTTP/1.1 413", b"HTTP/1.1 503")) else f"found {received[:60]!r}"
        with service.connect() as connection, suppress(*NOBODY_READS):
            connection.sendall(endless)
            for _ in range(1000):
                connection.sendall(chunk)
            return "the service read 62 MiB of a body"
        return None

    return side_by_side(end, draw, one, width=4)


def disconnects(service: Service, draw: random.Random, end: float, expected: Any) -> Tally:
    """Leave in the middle of a request or before its answer, by a reset."""
    del expected
    reset = struct.pack("ii", 1, 0)

    def one(own: random.Random) -> None:
        content = own.choice(VALID)
        with service.connect() as connection:
            connection.sendall(content[: own.randint(1, len(content))])
            if own.random() < 0.2:
                connection.settimeout(ANSWER_S)
                connection.recv(1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)

    return side_by_side(end, draw, lambda own: suppress_timeout(one, own))


def suppress_timeout(one: Callable[[random.Random], None], own: random.Random) -> None:
    """Make one try; half a request gets no answer, and that is right."""
    with suppress(TimeoutError):
        one(own)


def valid_questions(service: Service, draw: random.Random, end: float, expected: Any) -> Tally:
    """Ask the valid question in many threads: the answer is right, or the service says that it is busy."""

    def one(own: random.Random) -> str | None:
        del own
        status, body = service.ask("GET", QUESTION)
        return None if status == 503 or (status == 200 and json.loads(body) == expected) else f"found {body[:80]!r}"

    return side_by_side(end, draw, one, width=32)


ATTACKS: tuple[Attack, ...] = (
    valid_questions, malformed, ambiguous, random_bytes, strange_questions, crowd, slow_loris, huge_bodies, disconnects,
)  # fmt: skip


@contextmanager
def serving(run: Path, folder: Path) -> Iterator[Service]:
    """Serve a run in a process of its own."""
    stderr = folder / "stderr"
    command = [sys.executable, "-m", "relens", "serve", str(run), "--port", "0", "--weights", "mean"]
    with stderr.open("wb") as file:
        process = subprocess.Popen([*command, "--access-log", str(folder / "requests")], stdout=file, stderr=file)
    try:
        yield Service(process, _port(process, stderr), stderr)
    finally:
        process.kill()
        process.wait()


def _port(process: "subprocess.Popen[bytes]", stderr: Path) -> int:
    """Wait until a service is ready, and return its port."""
    begin = "relens: serving at http://127.0.0.1:"
    while True:
        for line in stderr.read_text().splitlines():
            if line.startswith(begin):
                return int(line.removeprefix(begin).partition("/")[0])
        if process.poll() is not None:
            raise SystemExit(f"the service did not start:\n{stderr.read_text()}")
        time.sleep(0.05)


def is_idle(service: Service) -> bool:
    """Say whether the service counts only the request for its metrics."""
    lines = service.ask("GET", "/metrics")[1].decode().splitlines()
    return {"relens_answers_in_flight 1", "relens_predictions_in_line 0"} <= set(lines)


def aftermath(service: Service, before: Usage, expected: Any) -> Tally:
    """Check that the service answers, has written no traceback, and holds no more than before."""
    tally = Tally()
    found = service.answer()
    tally.note(None if found == expected else f"the last answer is wrong: {str(found)[:80]}")
    end = time.monotonic() + PATIENCE_S
    # Connections that the attacks left are closed in their time, and work that nobody waits for ends.
    while (after := service.usage()).descriptors > before.descriptors and time.monotonic() < end:
        time.sleep(0.2)
    grown = after.memory - before.memory
    tally.note(None if grown <= GROWTH_BYTES else f"memory has grown by {grown / 2**20:.0f} MiB")
    threads = after.threads - before.threads
    tally.note(None if threads <= POOL_THREADS else f"there are {threads} more threads")
    more = after.descriptors - before.descriptors
    tally.note(None if more <= 0 else f"{more} more file descriptors are open")
    children = after.children - before.children
    tally.note(None if children <= 0 else f"there are {children} more processes")
    while not (idle := is_idle(service)) and time.monotonic() < end:
        time.sleep(0.2)
    tally.note(None if idle else "the metrics count requests that nobody waits for")
    with service.connect() as stays:  # a client that was refused, and does not leave
        stays.sendall(AMBIGUOUS[0])
        stays.recv(1)
        service.process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            service.process.wait(PATIENCE_S)
    code = service.process.returncode
    tally.note(None if code == 0 else f"the service ended with {code}")
    said = service.stderr.read_text(errors="replace")
    tally.note(None if "Traceback" not in said and "rror" not in said else f"stderr: {said[-2000:]}")
    return tally


def campaign(amount: float, seed: int, folder: Path) -> dict[str, Tally]:
    """Attack a service, and return the tally of each attack by name.

    Args:
        amount: the share of the full campaign, which takes ``SECONDS``.
        seed: of what is sent.
        folder: an empty folder for the run and its logs.
    """
    draw = random.Random(seed)
    found: dict[str, Tally] = {}
    with serving(train(folder), folder) as service:
        expected = service.answer()
        valid_questions(service, draw, 0.0, expected)  # what the first requests take is no leak
        for method, path, body in SLOW:
            status, text = service.ask(method, path, body)
            if status != 200:
                raise SystemExit(f"{path} fails by itself: {text!r}")
        before = service.usage()
        for attack in ATTACKS:
            tally = attack(service, draw, time.monotonic() + amount * SECONDS / len(ATTACKS), expected)
            answered = service.answer()
            if answered != expected:
                tally.defects.append(f"afterwards, the service answers {str(answered)[:80]}")
            found[attack.__name__] = tally
        found["aftermath"] = aftermath(service, before, expected)
    return found
