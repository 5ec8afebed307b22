"""Candidates of a request: words and names, who answers among them, and what is refused."""

import httpx
import pytest

from relens.serve.candidates import Among
from tests.serve.answers import Alphabetical
from tests.serve.serving import serving
from tests.serve.test_api import get
from tests.serve.test_questions import PAIR, TRIPLE, ensemble, labels, post, trained  # noqa: F401

ONE = {"head": "ada", "relation": "likes"}


def test_answers_are_those_of_an_ensemble_among_the_candidates(trained, ensemble):  # noqa: F811
    rows = labels(ensemble, "test", 3)
    (head, relation, _), observed = rows[0], ensemble.among("observed")
    asked = {"head": head, "relation": relation}
    plain = get(trained, "/api/predict", **asked, top=20)
    found = get(trained, "/api/predict", **asked, top=20, candidates="observed")
    expected = observed.predict(**asked, top=20)
    assert (found["restriction"], plain["restriction"]) == ("observed", None)
    assert found["candidates"] == expected.candidates < plain["candidates"]
    assert [(one["entity"], one["rank"]) for one in found["answers"]] == [(one.entity, one.rank) for one in expected]
    assert get(trained, "/api/predict", **asked, top=20, candidates="all") == plain
    few = [one["entity"] for one in plain["answers"] if one["known"] is None][:3]
    (listed,) = post(trained, "/api/predict", {"queries": [asked], "candidates": [few[0].upper(), *few]})["predictions"]
    assert {one["entity"] for one in listed["answers"] if one["known"] is None} == set(few)
    assert [one["rank"] for one in listed["answers"] if one["known"] is None] == [1, 2, 3]
    triples = [dict(zip(("head", "relation", "tail"), row, strict=True)) for row in rows]
    for path, verb in (("/api/score", observed.score), ("/api/classify", observed.classify)):
        answered = post(trained, path, {"triples": triples, "candidates": "observed"})["triples"]
        records = [one.to_json() for one in verb(rows)]
        assert [{key: row[key] for key in records[0]} for row in answered] == records
    among = post(trained, "/api/score", {"triples": triples, "candidates": few})["triples"]
    assert among[0]["restriction"].startswith("list of 3 entities ")
    pair = {"head": rows[0][0], "tail": rows[0][2]}
    relations = get(trained, "/api/predict/relations", **pair, candidates="observed")
    assert relations["restriction"] == "observed"
    assert relations["candidates"] == observed.predict_relations(**pair).candidates


def test_types_that_the_data_set_does_not_have_are_a_refusal(trained):  # noqa: F811
    relation = get(trained, "/api/relations")["relations"][0]
    asked = {"head": relation["example"], "relation": relation["label"]}
    assert "restricted to types, but patterns has none" in get(
        trained, "/api/predict", 422, **asked, candidates="types"
    )["error"]  # fmt: skip
    assert get(trained, "/api/predict", **asked)["restriction"] is None


def test_an_ensemble_of_a_word_is_made_once_and_one_of_names_each_time():
    stub = Alphabetical()
    among = Among(stub)  # type: ignore[arg-type]
    for candidates in (None, "observed", "observed", "all", "all", ("ada",), ("ada",)):
        among(candidates)
    assert stub.candidates == ["observed", None, ["ada"], ["ada"]]


def test_words_and_names_reach_the_ensemble():
    stub = Alphabetical()
    with serving(stub) as address, httpx.Client(base_url=address) as client:
        get(client, "/api/predict", **ONE, candidates="types")
        post(client, "/api/predict", {"queries": [ONE], "candidates": ["ADA", "bob"]})
        post(client, "/api/score", {"triples": [TRIPLE], "candidates": ["eve"]})
        get(client, "/api/predict", **ONE, explain="true", top=1, candidates="types")
    assert stub.candidates == ["types", ["ada", "Bob"], ["Eve"]]


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("predict", {"queries": [ONE], "candidates": ["ada", "Bo"]}, 404, "candidates.1: unknown entity 'Bo'"),
        ("predict", {"queries": [ONE], "candidates": []}, 422, "candidates"),
        ("predict", {"queries": [ONE], "candidates": ["ada"] * 1001}, 422, "candidates"),
        ("predict", {"queries": [ONE], "candidates": "/etc/passwd"}, 422, "candidates"),
        ("score", {"triples": [TRIPLE], "candidates": [1]}, 422, "candidates"),
        (
            "classify",
            {"triples": [TRIPLE], "candidates": ["ada"]},
            422,
            "candidates: Input should be 'all', 'obs",
        ),
        ("predict/relations", {"pairs": [PAIR], "candidates": ["ada"]}, 422, "candidates: Input should be 'all', 'obs"),
    ],
)
def test_other_candidates_are_refused(client, path, body, status, message):
    assert post(client, f"/api/{path}", body, status)["error"].startswith(message)


def test_a_word_of_one_question_is_checked(client):
    assert client.get("/api/predict", params={**ONE, "candidates": "few.txt"}).status_code == 422
