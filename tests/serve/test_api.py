"""The JSON interface, asked by a real client."""

import asyncio
import json
import logging
import re
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from threading import Event
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from relens.data.dataset import Dataset
from relens.errors import InputError
from relens.serve.app import create_app
from relens.serve.guard import Limits
from tests.patience import HANG
from tests.serve.answers import HOSTILE, MODELS, PEOPLE, SCRIPT, Alphabetical
from tests.serve.serving import connected, raw, read_all, serving

ALL = sorted([*PEOPLE, "Oslo"])


def get(client: httpx.Client, path: str, status: int = 200, **parameters: Any) -> Any:
    response = client.get(path, params=parameters)
    assert response.status_code == status, response.text
    return response.json()


def post(client: httpx.Client, body: Any, status: int = 200) -> Any:
    response = client.post("/api/predict", json=body)
    assert response.status_code == status, response.text
    return response.json()


# ---- what it says --------------------------------------------------------------------------------------------------


def test_the_run_is_described(client):
    found = get(client, "/api/run")
    assert (found["run"], found["models"]) == ("tiny", list(MODELS))
    assert {key: found["dataset"][key] for key in ("name", "entities", "relations", "train", "valid", "test")} == {
        "name": "circle", "entities": 9, "relations": 3, "train": 14, "valid": 1, "test": 2,
    }  # fmt: skip


def test_relations_come_with_counts_class_and_an_example(client):
    found = {row["label"]: row for row in get(client, "/api/relations")["relations"]}
    assert found["likes"] == {
        "label": "likes", "name": None, "class": "1-1", "train": 6, "valid": 1, "test": 1, "example": "a/../b",
    }  # fmt: skip
    assert (found["lives in"]["class"], found["lives in"]["example"]) == ("N-1", "ada")
    assert (found[SCRIPT]["class"], found[SCRIPT]["test"]) == (None, 1)


def test_entities_are_completed(client):
    def labels(**asked: Any) -> list[str]:
        return [row["label"] for row in get(client, "/api/entities", **asked)["entities"]]

    assert labels(prefix="a") == ["a/../b", "ada", "dan"]
    assert labels(prefix="A", limit=2) == ["a/../b", "ada"]
    assert labels(prefix="zoë") == ["Zoë"]
    assert labels(prefix="nobody") == []
    assert len(labels()) == 9


def test_an_entity_comes_with_its_facts_by_relation(client):
    found = get(client, "/api/entity", label="Oslo")
    assert found["as_head"] == []
    assert found["as_tail"] == [
        {"relation": "lives in", "name": None, "count": 8}, {"relation": SCRIPT, "name": None, "count": 1},
    ]  # fmt: skip
    assert [row["relation"] for row in get(client, "/api/entity", label="ada")["as_head"]] == [
        SCRIPT,
        "likes",
        "lives in",
    ]


def test_weights_of_a_relation_are_shares_by_direction(client):
    tail, head = get(client, "/api/weights", relation="likes")["groups"]
    assert tail["weights"] == {"transe": 0.6, "rotate": 0.3, "complex": 0.1}
    assert (tail["direction"], tail["own"], tail["queries"]) == ("tail", True, 2)
    assert (head["direction"], head["weights"]["transe"]) == ("head", 0)
    assert len(get(client, "/api/weights")["groups"]) == 6
    assert get(client, "/api/weights", relation="lives in")["groups"][0]["own"] is False


def test_a_prediction_has_answers_with_votes(client):
    found = get(client, "/api/predict", head="ada", relation="likes", top=3)
    assert [answer["entity"] for answer in found["answers"]] == ALL[:3]
    assert (found["anchor"], found["name"], found["relation"], found["direction"]) == ("ada", None, "likes", "tail")
    assert found["candidates"] == 8
    assert found["weights"] == {"transe": 0.6, "rotate": 0.3, "complex": 0.1}
    second = found["answers"][1]
    assert second == {
        "entity": "Bob", "name": None, "rank": 2, "place": None, "score": -2, "known": "train", "confidence": None,
        "votes": [
            {"model": "transe", "rank": 2, "weight": 0.6},
            {"model": "rotate", "rank": 3, "weight": 0.3},
            {"model": "complex", "rank": 4, "weight": 0.1},
        ],
        "abstained": [], "paths": None,
    }  # fmt: skip


def test_answers_are_explained_by_paths_if_asked(client):
    path = {
        "model": "transe", "importance": 0.625, "entities": ["ada", HOSTILE, "Bob"], "relations": ["likes", "likes"],
        "inverse": [True, False], "names": [None, None, None], "relation_names": [None, None],
    }  # fmt: skip
    found = get(client, "/api/predict", head="ada", relation="likes", top=3, explain="true")
    assert found["answers"][1]["paths"] == [path]
    assert get(client, "/api/explain", head="ada", relation="likes", answer="bob") == {"paths": [path]}
    assert get(client, "/api/explain", tail="ada", relation="likes", answer="Oslo") == {"paths": []}
    many = post(client, {"queries": [{"head": "ada", "relation": "likes"}], "top": 3, "explain": True})
    assert many["predictions"] == [found]
    assert get(client, "/api/run")["explains"] is True


def test_what_cannot_be_explained_is_refused(client):
    asked = {"head": "ada", "relation": "likes"}
    problem = get(client, "/api/predict", 422, **asked, top=26, explain="true")
    assert "1 queries with 26 answers each make 26, expected at most 25 with explain" in problem["error"]
    problem = get(client, "/api/explain", 404, **asked, answer="adda")
    assert problem["closest"][0] == "ada"
    assert "answer" in get(client, "/api/explain", 422, **asked)["error"]
    with serving(Alphabetical(propagating=())) as address, httpx.Client(base_url=address) as other:
        for path, more in (("/api/predict", {"explain": "true"}), ("/api/explain", {"answer": "Bob"})):
            problem = get(other, path, 422, **asked, **more)
            assert problem["error"].startswith("no model here sends anything along the edges of the graph")
        assert get(other, "/api/run")["explains"] is False


def test_heads_can_be_asked_for_and_known_facts_dropped(client):
    found = get(client, "/api/predict", tail="Bob", relation="likes", known="drop", top=1000)
    assert found["direction"] == "head"
    assert [answer["entity"] for answer in found["answers"]] == [label for label in ALL if label != "ada"]
    assert {answer["confidence"] for answer in found["answers"]} == {None}


def test_case_does_not_matter_where_one_entity_fits(client):
    assert get(client, "/api/predict", head="EVE", relation="likes", top=1)["anchor"] == "Eve"


def test_readable_names_are_shown_found_and_taken(tmp_path):
    rows = [("/m/1", "likes", "/m/2"), ("/m/2", "likes", "/m/3")]
    (tmp_path / "labels.tsv").write_text("/m/1\tAda\n/m/2\tGrace\n/m/3\tgrace\n")
    dataset = replace(Dataset.from_labels("named", train=rows), folder=tmp_path)
    with serving(Alphabetical(dataset)) as address, httpx.Client(base_url=address) as client:
        assert get(client, "/api/entities", prefix="gr")["entities"] == [
            {"label": "/m/2", "name": "Grace"}, {"label": "/m/3", "name": "grace"},
        ]  # fmt: skip
        found = get(client, "/api/predict", head="ada", relation="likes")
        assert (found["anchor"], found["name"], found["answers"][1]["name"]) == ("/m/1", "Ada", "Grace")
        problem = get(client, "/api/predict", 422, head="GRACE", relation="likes")
        assert problem["error"] == "2 entities have this name: give the label of one of them"
        assert problem["closest"] == ["/m/2", "/m/3"]


def test_a_prediction_has_the_shape_of_the_library(client):
    found = get(client, "/api/predict", head="ada", relation="likes", top=3)
    (expected,) = Alphabetical().predict_many([("ada", "likes", "tail")], top=3, known="mark")
    assert expected.to_json().items() <= found.items()
    assert found.keys() - expected.to_json().keys() == {"name", "weights"}


def test_a_batch_is_answered_in_order(client):
    queries = [{"head": "ada", "relation": "likes"}, {"tail": "Oslo", "relation": "lives in"}]
    found = post(client, {"queries": queries, "top": 2})["predictions"]
    assert [(one["anchor"], one["direction"], len(one["answers"])) for one in found] == [
        ("ada", "tail", 2), ("Oslo", "head", 2),
    ]  # fmt: skip
    assert found[0] == get(client, "/api/predict", head="ada", relation="likes", top=2)


# ---- what it refuses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message", "closest"),
    [
        ({"head": "adda", "relation": "likes"}, "unknown entity 'adda'; did you mean 'ada'?", ["ada"]),
        ({"head": "ada", "relation": "liks"}, "unknown relation 'liks'; did you mean 'likes'?", ["likes"]),
        ({"head": "q" * 500, "relation": "likes"}, "unknown entity 'qq", []),
        ({"head": "../../etc/passwd", "relation": "likes"}, "unknown entity '../../etc/passwd'", []),
        ({"head": "a\0b", "relation": "likes"}, "unknown entity 'a\\x00b'", []),
        ({"head": "<script>alert(1)</script>", "relation": "likes"}, "unknown entity '<script>", []),
    ],
)
def test_unknown_names_get_the_closest_ones(client, parameters, message, closest):
    problem = get(client, "/api/predict", 404, **parameters)
    assert problem["error"].startswith(message)
    assert problem["closest"] == closest
    assert len(problem["error"]) < 300


def test_other_requests_refuse_unknown_names_too(client):
    assert get(client, "/api/entity", 404, label="Olso")["closest"] == ["Oslo"]
    assert get(client, "/api/weights", 404, relation="lives inn")["closest"] == ["lives in"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("predict?relation=likes", "expected either head or tail, found neither"),
        ("predict?relation=likes&head=ada&tail=Bob", "expected either head or tail, found both"),
        ("predict?head=ada", "relation: it is missing"),
        ("predict?head=&relation=likes", "head: String should have at least 1 character"),
        ("predict?head=ada&relation=likes&top=0", "top: Input should be greater than or equal to 1"),
        ("predict?head=ada&relation=likes&top=1001", "top: Input should be less than or equal to 1000"),
        ("predict?head=ada&relation=likes&top=ten", "top: Input should be a valid integer"),
        ("predict?head=ada&relation=likes&top=1e99", "top: Input should be a valid integer"),
        ("predict?head=ada&relation=likes&known=hide", "known: Input should be 'drop' or 'mark'"),
        ("predict?head=ada&relation=likes&model=../x", "model: there is no such parameter"),
        (f"predict?head={'x' * 501}&relation=likes", "head: String should have at most 500 characters"),
        ("entities?limit=-1", "limit: Input should be greater than or equal to 1"),
        ("entities?limit=101", "limit: Input should be less than or equal to 100"),
        (f"entities?prefix={'x' * 501}", "prefix: String should have at most 500 characters"),
        ("entity", "label: it is missing"),
        ("weights?relation=", "relation: String should have at least 1 character"),
    ],
)
def test_malformed_requests_get_an_explanation(client, path, message):
    response = client.get(f"/api/{path}")
    assert response.status_code == 422
    assert response.json()["error"].startswith(message)


ONE = {"head": "ada", "relation": "likes"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "queries: it is missing"),
        ({"queries": []}, "queries: List should have at least 1 item"),
        ({"queries": [ONE] * 101}, "queries: List should have at most 100 items"),
        ({"queries": [ONE] * 11, "top": 1000}, "11 queries with 1000 answers each make 11000, expected at most 10000"),
        ({"queries": "all"}, "queries: Input should be a valid list"),
        ({"queries": [ONE, 7]}, "queries.1: expected a JSON object"),
        ({"queries": [{**ONE, "head": ["ada"]}]}, "queries.0.head: Input should be a valid string"),
        ({"queries": [{**ONE, "tail": "Bob"}]}, "queries.0: expected either head or tail, found both"),
        ({"queries": [ONE], "top": "5"}, "top: Input should be a valid integer"),
        ({"queries": [ONE], "top": True}, "top: Input should be a valid integer"),
        ({"queries": [ONE], "path": "/etc"}, "path: there is no such parameter"),
        ([ONE], "expected a JSON object"),
        (None, "expected a JSON object"),
        ("x", "expected a JSON object"),
        ({"queries": [{}, {}, {}, {}, {}]}, "queries.0.relation: it is missing; queries.1.relation: it is missing;"),
    ],
)
def test_malformed_batches_get_an_explanation(client, body, message):
    assert post(client, body, 422)["error"].startswith(message)


def test_an_unknown_name_in_a_batch_is_placed(client):
    problem = post(client, {"queries": [ONE, {"head": "ad", "relation": "likes"}]}, 404)
    assert problem["error"] == "queries.1: unknown entity 'ad'; did you mean 'ada'?"


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (b"{", "application/json", "the body cannot be read as JSON"),
        (b"", "application/json", "expected a JSON object, sent with"),
        (b"\xff\xfe", "application/json", "the body cannot be read as JSON"),
        (b"[" * 100_000, "application/json", "the body cannot be read as JSON"),
        (
            b'{"queries": [{"head": "\\ud800", "relation": "likes"}]}',
            "application/json",
            "queries.0.head: Input should be",
        ),
        (b'{"queries": NaN, "top": Infinity}', "application/json", "queries: Input should be a valid list; top: "),
        (json.dumps({"queries": [ONE]}).encode(), "text/plain", "expected a JSON object, sent with"),
        (b"queries=1", "application/x-www-form-urlencoded", "expected a JSON object, sent with"),
        (b"<x/>", "multipart/form-data; boundary=x", "expected a JSON object, sent with"),
    ],
)
def test_bodies_that_are_no_json_are_refused(client, content, kind, message):
    response = client.post("/api/predict", content=content, headers={"Content-Type": kind})
    assert response.status_code == 422, response.text
    assert response.json()["error"].startswith(message)


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static/", "/static", "/etc/passwd",
     "//etc/passwd", "/api/health/", "/api", "/redoc", "/index.html", "/static/page.js%00"],
)  # fmt: skip
def test_no_path_leads_anywhere_else(address, path):
    status, body = raw(address, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert status == 404
    assert b"there is nothing here" in body


def test_other_methods_are_refused(client):
    assert client.post("/").status_code == 405
    assert client.delete("/api/predict").status_code == 405
    assert client.options("/api/predict").json() == {"error": "method not allowed", "closest": []}


# ---- what it costs -------------------------------------------------------------------------------------------------


def until(found: Callable[[], Any], expected: Any) -> None:
    """Wait until something is as expected."""
    for _ in range(1200):  # rather than hang
        if found() == expected:
            return
        time.sleep(0.05)
    pytest.fail(f"found {found()!r}, expected {expected!r}")


HEALTH = b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEALTH_AND_CLOSE = HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


def crowd() -> Alphabetical:
    """An ensemble with a thousand entities whose labels are long."""
    return Alphabetical(Dataset.from_labels("crowd", train=[("ada", "likes", "x" * 600 + str(i)) for i in range(1000)]))


def many_answers() -> bytes:
    """Return a request whose answer is longer than what a system keeps for a socket."""
    body = json.dumps({"queries": [ONE] * 10, "top": 1000}).encode()
    begin = "POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
    return f"{begin}{len(body)}\r\n\r\n".encode() + body


def test_a_huge_body_is_refused_before_it_is_sent(address):
    begin = b"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    status, body = raw(address, begin + b"Content-Length: 99999999\r\n\r\n{")
    assert status == 413
    assert b"the body is longer than 262,144 bytes" in body


def test_a_huge_body_of_unknown_length_is_refused_while_it_arrives(client):
    sent = []

    def endless():
        while len(sent) < 10_000:
            sent.append(1)
            yield b" " * 65536

    with suppress(httpx.WriteError, httpx.ReadError):  # the service may hang up before its answer is read
        assert client.post("/api/predict", content=endless()).status_code == 413
    assert len(sent) < 1000
    assert get(client, "/api/health")["status"] == "ready"


def test_a_body_that_does_not_arrive_times_out():
    with serving(Alphabetical(), Limits(body_seconds=0.1)) as address:
        begin = b"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 50\r\n\r\n{"
        status, body = raw(address, begin)
    assert status == 408
    assert b"did not arrive within 0.1 s" in body


@pytest.mark.parametrize("sent", [(), (b"GET /api/health HTTP/1.1\r\nHost: loc",), (HEALTH,), (HEALTH, b"GET /")])
def test_silent_connections_are_closed(sent):
    with serving(Alphabetical(), Limits(connections=2, silent_seconds=1)) as address, ExitStack() as opened:
        silent = [opened.enter_context(connected(address)) for _ in range(2)]
        for connection in silent:
            for part in sent:
                connection.sendall(part)
                if part == HEALTH:
                    assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        until(lambda: raw(address, HEALTH_AND_CLOSE)[0], 503)
        for connection in silent:
            read_all(connection)
        until(lambda: raw(address, HEALTH_AND_CLOSE)[0], 200)


def test_connections_beyond_the_limit_get_a_json_refusal():
    with (
        serving(Alphabetical(), Limits(connections=3)) as address,
        httpx.Client(base_url=address, timeout=HANG) as client,
        ExitStack() as others,
    ):
        assert get(client, "/api/health")["status"] == "ready"  # the first of three
        silent = [others.enter_context(connected(address)) for _ in range(4)]
        refused = [
            httpx.get(f"{address}api/health", timeout=HANG),
            httpx.post(f"{address}api/predict", json={"queries": [ONE]}, timeout=HANG),
        ]
        for response in refused:
            assert (response.status_code, response.headers["content-type"]) == (503, "application/json")
            assert response.json()["closest"] == []
            assert re.fullmatch(r"\d connections are open already: try again in a moment", response.json()["error"])
            assert (response.headers["retry-after"], response.headers["connection"]) == ("1", "close")
            assert response.headers["content-security-policy"].startswith("default-src 'self';")
        # Those that were there before go on, and one that waited finds room once others have left.
        assert get(client, "/api/health")["status"] == "ready"
        for connection in silent[:2]:
            connection.close()
        until(lambda: httpx.get(f"{address}api/health", timeout=HANG).json()["error"][:13], "3 connections")
        silent[3].sendall(HEALTH)
        assert silent[3].recv(12) == b"HTTP/1.1 200"
        others.close()
        until(lambda: httpx.get(f"{address}api/health", timeout=HANG).status_code, 200)


def test_connections_beyond_twice_the_limit_are_closed_at_once():
    with serving(Alphabetical(), Limits(connections=2, silent_seconds=HANG)) as address, ExitStack() as others:
        silent = [others.enter_context(connected(address)) for _ in range(4)]
        assert raw(address, HEALTH_AND_CLOSE, or_nothing=True) == (0, b"")
        silent[0].close()
        until(lambda: raw(address, HEALTH_AND_CLOSE, or_nothing=True)[0], 503)


def test_headers_that_arrive_too_slowly_end_the_connection():
    with serving(Alphabetical(), Limits(silent_seconds=1)) as address, connected(address) as connection:
        connection.sendall(b"GET /api/health HTTP/1.1\r\n")
        with suppress(ConnectionError):
            for _ in range(1200):
                connection.sendall(b"a: b\r\n")
                time.sleep(0.05)
            pytest.fail("the service did not hang up")


def test_a_connection_whose_answer_is_not_read_is_closed():
    with serving(crowd(), Limits(connections=1, silent_seconds=1)) as address, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        connection.connect((urlsplit(address).hostname, urlsplit(address).port))
        connection.sendall(many_answers())
        assert connection.recv(12) == b"HTTP/1.1 200"
        assert raw(address, HEALTH_AND_CLOSE)[0] == 503
        until(lambda: raw(address, HEALTH_AND_CLOSE)[0], 200)


def test_a_slow_reader_gets_its_whole_answer():
    with serving(crowd(), Limits(silent_seconds=1)) as address, connected(address) as connection:
        connection.sendall(many_answers())
        answer = connection.recv(65536)
        time.sleep(2.5)
        answer += read_all(connection)
    assert len(json.loads(answer.partition(b"\r\n\r\n")[2])["predictions"]) == 10


def test_a_prediction_may_take_longer_than_a_connection_may_be_silent():
    ensemble = Alphabetical(gate=Event())
    with (
        serving(ensemble, Limits(silent_seconds=1)) as address,
        httpx.Client(base_url=address, timeout=HANG) as client,
        ThreadPoolExecutor(1) as other,
    ):
        found = other.submit(get, client, "/api/predict", **ONE)
        time.sleep(1.5)
        ensemble.gate.set()
        assert found.result()["candidates"] == 8


def test_requests_that_are_not_http_are_refused(address):
    assert raw(address, b"\x16\x03\x01 hello\r\n\r\n")[0] == 400
    assert raw(address, b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\n\r\n")[0] == 431


def test_a_slow_prediction_ends_in_504_and_later_ones_succeed():
    ensemble = Alphabetical(gate=Event())
    with (
        serving(ensemble, Limits(seconds=0.3)) as address,
        httpx.Client(base_url=address, timeout=HANG) as client,
    ):
        assert "longer than 0.3 s" in post(client, {"queries": [ONE] * 5}, 504)["error"]
        assert get(client, "/api/health")["status"] == "ready"
        assert "other requests took" in get(client, "/api/predict", 503, **ONE)["error"]
        ensemble.gate.set()
        assert get(client, "/api/predict", **ONE)["candidates"] == 8
    # The batch nobody waited for was given up after the query that was under way; the one in line never began.
    assert len(ensemble.asked) == 2


def test_a_full_queue_refuses_predictions():
    ensemble = Alphabetical(gate=Event())
    with (
        serving(ensemble, Limits(in_line=1)) as address,
        httpx.Client(base_url=address, timeout=HANG) as client,
        ThreadPoolExecutor(1) as other,
    ):
        first = other.submit(get, client, "/api/predict", **ONE)
        assert ensemble.begun.wait(10)
        response = client.get("/api/predict", params=ONE)
        assert (response.status_code, response.headers["retry-after"]) == (503, "1")
        ensemble.gate.set()
        assert first.result()["candidates"] == 8


def test_a_failure_inside_is_logged_and_not_shown(caplog):
    ensemble = Alphabetical(failure=RuntimeError("secret at /home/someone/model.bin"))
    with serving(ensemble) as address, httpx.Client(base_url=address) as client, caplog.at_level(logging.ERROR):
        response = client.get("/api/predict", params=ONE)
        assert response.status_code == 500
        assert "secret" not in response.text
        assert "finds the reason in its log" in response.json()["error"]
        assert response.headers["x-content-type-options"] == "nosniff"
        ensemble.failure = InputError("top is odd: choose an even one")
        assert get(client, "/api/predict", 422, **ONE)["error"] == "top is odd: choose an even one"
    assert "secret at /home/someone" in caplog.text


# ---- the headers, and the pages -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/", "/docs", "/openapi.json", "/static/page.js", "/api/health", "/nowhere", "/api/predict"]
)
def test_every_answer_has_the_security_headers(client, path):
    headers = client.get(path).headers
    assert headers["content-security-policy"].startswith("default-src 'self';")
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


def test_pages_load_nothing_from_elsewhere_and_hold_no_inline_script(client):
    for path in (
        "/",
        "/docs",
        "/static/page.js",
        "/static/combobox.js",
        "/static/docs.js",
        "/static/requests.js",
        "/static/style.css",
    ):
        response = client.get(path)
        assert response.status_code == 200
        assert "://" not in response.text
        assert "innerHTML" not in response.text
    for path in ("/", "/docs"):
        page = client.get(path).text
        assert page.count("<script") == page.count('<script type="module" src="/static/') == 1
        assert "style=" not in page


@pytest.mark.parametrize(
    "path", ["/", "/docs", "/static/page.js", "/openapi.json", "/api/health", "/api/predict?head=ada&relation=likes",
             "/api/predict", "/nowhere"],
)  # fmt: skip
def test_head_answers_like_get_without_a_body(client, address, path):
    found, head = client.get(path), client.head(path)
    assert (head.status_code, head.headers["content-type"]) == (found.status_code, found.headers["content-type"])
    assert head.headers["content-length"] == found.headers["content-length"]
    request = f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert raw(address, request.encode())[1].endswith(b"\r\n\r\n")


def test_head_has_no_body_under_any_server():
    app = create_app(Alphabetical(), "tiny")  # type: ignore[arg-type]
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "HEAD", "path": "/", "query_string": b"", "headers": [(b"host", b"my.lab")]}
    asyncio.run(app(scope, receive, send))
    assert [message["status"] for message in sent if message["type"] == "http.response.start"] == [200]
    assert b"".join(message.get("body", b"") for message in sent) == b""


def test_the_description_lists_every_request(client):
    paths = get(client, "/openapi.json")["paths"]
    assert sorted(paths) == [
        f"/api/{name}"
        for name in (
            "classify",
            "discover",
            "entities",
            "entity",
            "explain",
            "health",
            "predict",
            "predict/relations",
            "relations",
            "run",
            "score",
            "weights",
        )
    ]
    assert set(paths["/api/predict"]) == {"get", "post"}
    assert {"404", "422", "503", "504"} <= paths["/api/predict"]["get"]["responses"].keys()
