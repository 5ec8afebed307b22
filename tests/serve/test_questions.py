"""Requests about relations, given triples and new facts: what they answer, refuse, and how they take turns."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import httpx
import pytest

from relens.errors import InputError
from relens.prediction import Ensemble
from relens.serve.guard import Limits
from relens.serve.questions import FACTS_LIMIT, LEAST_DEPTH, QUERIES_LIMIT
from tests.patience import HANG
from tests.serve.answers import SCRIPT, Alphabetical
from tests.serve.serving import serving
from tests.serve.test_api import get, until

PAIR = {"head": "ada", "tail": "Bob"}
TRIPLE = {"head": "ada", "relation": "likes", "tail": "Bob"}


def post(client: httpx.Client, path: str, body: Any, status: int = 200) -> Any:
    response = client.post(path, json=body)
    assert response.status_code == status, response.text
    return response.json()


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Ensemble:
    """An ensemble of trained models."""
    pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
    from tests.prediction.trained import make_run

    run = make_run(tmp_path_factory.mktemp("runs") / "patterns")
    return Ensemble.open(run, "dsc-rank", "cpu")


@pytest.fixture(scope="module")
def trained(ensemble: Ensemble) -> Iterator[httpx.Client]:
    """A client of a service of that ensemble."""
    limits = Limits(seconds=2 * HANG)  # the first ranks may have to be compiled
    with serving(ensemble, limits) as address, httpx.Client(base_url=address, timeout=2 * HANG) as client:  # type: ignore[arg-type]
        yield client


def labels(ensemble: Ensemble, split: str, n: int) -> list[tuple[str, str, str]]:
    """Return the first triples of a split by label."""
    entities, relations = ensemble.dataset.entities.labels, ensemble.dataset.relations.labels
    rows = ensemble.dataset.splits[split][:n].tolist()
    return [(entities[head], relations[relation], entities[tail]) for head, relation, tail in rows]


# ---- what they answer ----------------------------------------------------------------------------------------------


def test_relations_are_those_of_the_ensemble(trained, ensemble):
    (head, relation, tail), (other, _, third) = labels(ensemble, "test", 2)
    expected = [one.to_json() for one in ensemble.predict_relations_many([(head, tail), (other, third)], top=3)]
    found = get(trained, "/api/predict/relations", head=head, tail=tail, top=3)
    assert {key: found[key] for key in ("head", "tail", "candidates", "scale")} == {
        key: expected[0][key] for key in ("head", "tail", "candidates", "scale")
    }
    assert found["answers"] == expected[0]["answers"]
    assert [one["known"] for one in found["answers"] if one["relation"] == relation] == ["test"]
    assert (found["head_name"], found["answers"][0]["name"]) == (None, None)
    both = post(
        trained,
        "/api/predict/relations",
        {"pairs": [{"head": head, "tail": tail}, {"head": other, "tail": third}], "top": 3},
    )
    assert both["predictions"][0] == found
    assert [one["head"] for one in both["predictions"]] == [head, other]
    dropped = get(trained, "/api/predict/relations", head=head, tail=tail, top=2, known="drop")
    assert [one["known"] for one in dropped["answers"]] == [None, None]


def test_triples_are_scored_as_by_the_ensemble(trained, ensemble):
    rows = [*labels(ensemble, "test", 3), *labels(ensemble, "train", 1)]
    rows.append((rows[0][2], rows[1][1], rows[2][0]))
    asked = {"triples": [dict(zip(("head", "relation", "tail"), row, strict=True)) for row in rows]}
    found = post(trained, "/api/score", asked)["triples"]
    expected = [one.to_json() for one in ensemble.score(rows)]
    assert [{key: row[key] for key in expected[0]} for row in found] == expected
    assert [row["known"] for row in found[:4]] == ["test", "test", "test", "train"]
    assert found[0].keys() - expected[0].keys() == {"head_name", "relation_name", "tail_name"}


def test_verdicts_are_those_of_the_ensemble(trained, ensemble):
    rows = [*labels(ensemble, "test", 4), *labels(ensemble, "train", 1)]
    asked = {"triples": [dict(zip(("head", "relation", "tail"), row, strict=True)) for row in rows]}
    found = post(trained, "/api/classify", asked)["triples"]
    expected = [one.to_json() for one in ensemble.classify(rows)]
    assert [{key: row[key] for key in expected[0]} for row in found] == expected


def test_new_facts_are_those_of_the_ensemble(trained, ensemble):
    relation, entity = ensemble.dataset.relations.labels[2], ensemble.dataset.entities.labels[5]
    found = get(trained, "/api/discover", relation=relation, top=7)["facts"]
    assert found == [fact.to_json() for fact in ensemble.discover(relations=[relation], top=7, depth=LEAST_DEPTH)]
    assert {fact["relation"] for fact in found} == {relation}
    found = get(trained, "/api/discover", entity=entity, top=12)["facts"]
    assert found == [fact.to_json() for fact in ensemble.discover(entities=[entity], top=12, depth=12)]
    assert all(entity in (fact["head"], fact["tail"]) for fact in found)
    both = get(trained, "/api/discover", relation=relation, entity=entity, candidates="all", top=3)["facts"]
    assert both == [
        fact.to_json()
        for fact in ensemble.discover(
            relations=[relation], entities=[entity], top=3, depth=LEAST_DEPTH, candidates="all"
        )
    ]
    assert len(both) == 3


def test_answers_have_the_form_that_is_described(client):
    schemas = get(client, "/openapi.json")["components"]["schemas"]

    def form(value: Any, name: str) -> None:
        properties = schemas[name]["properties"]
        assert value.keys() == properties.keys(), name
        for key, inner in value.items():
            of = properties[key].get("items", {}).get("$ref", "").split("/")[-1]
            if of:
                assert inner, f"{name}.{key} has something to compare"
                form(inner[0], of)

    form(get(client, "/api/predict/relations", **PAIR), "Relations")
    form(post(client, "/api/predict/relations", {"pairs": [PAIR]}), "RelationsOfPairs")
    form(post(client, "/api/score", {"triples": [TRIPLE]}), "Scores")
    form(post(client, "/api/classify", {"triples": [TRIPLE]}), "Verdicts")
    form(get(client, "/api/discover", relation="likes"), "Discovered")
    form(get(client, "/api/predict", head="ada", relation="likes", explain="true"), "Prediction")


def test_names_are_looked_up_regardless_of_case(client):
    found = get(client, "/api/predict/relations", head="ADA", tail="bob", known="drop")
    assert (found["head"], found["tail"], found["candidates"]) == ("ada", "Bob", 2)
    assert [answer["relation"] for answer in found["answers"]] == sorted([SCRIPT, "lives in"])
    (row,) = post(client, "/api/score", {"triples": [{"head": "EVE", "relation": "LIKES", "tail": "oslo"}]})["triples"]
    assert (row["head"], row["relation"], row["tail"], row["known"]) == ("Eve", "likes", "Oslo", None)


def test_new_facts_can_have_a_least_confidence(client):
    assert [fact["confidence"] for fact in get(client, "/api/discover", entity="ada", top=3)["facts"]] == [
        0.5, 0.25, pytest.approx(1 / 6),
    ]  # fmt: skip
    assert len(get(client, "/api/discover", entity="ada", top=3, confidence=0.25)["facts"]) == 2


# ---- what they refuse ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("predict/relations?head=ada", 422, "tail: it is missing"),
        ("predict/relations?head=ada&tail=Bob&top=0", 422, "top: Input should be greater than or equal to 1"),
        ("predict/relations?head=ada&tail=Bob&relation=likes", 422, "relation: there is no such parameter"),
        ("predict/relations?head=adda&tail=Bob", 404, "unknown entity 'adda'; did you mean 'ada'?"),
        ("discover", 422, "expected a relation, an entity or both, found neither"),
        (f"discover?entity=ada&top={FACTS_LIMIT + 1}", 422, "top: Input should be less than or equal to 100"),
        ("discover?entity=ada&confidence=0", 422, "confidence: Input should be greater than 0"),
        (
            "discover?entity=ada&candidates=/etc/passwd",
            422,
            "candidates: Input should be 'likely', 'obs",
        ),
        ("discover?entity=adda", 404, "unknown entity 'adda'; did you mean 'ada'?"),
        ("discover?relation=liks", 404, "unknown relation 'liks'; did you mean 'likes'?"),
    ],
)
def test_what_makes_no_sense_is_refused(client, path, status, message):
    response = client.get(f"/api/{path}")
    assert response.status_code == status
    assert response.json()["error"].startswith(message)


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("predict/relations", {"pairs": []}, 422, "pairs: List should have at least 1 item"),
        ("predict/relations", {"pairs": [PAIR] * 101}, 422, "pairs: List should have at most 100 items"),
        ("predict/relations", {"pairs": [PAIR] * 11, "top": 1000}, 422, "11 queries with 1000 answers each make 11000"),
        ("predict/relations", {"pairs": [PAIR, {**PAIR, "tail": "Bo"}]}, 404, "pairs.1: unknown entity 'Bo'"),
        ("score", {"triples": [TRIPLE] * 101}, 422, "triples: List should have at most 100 items"),
        ("score", {"triples": [["ada", "likes", "Bob"]]}, 422, "triples.0: expected a JSON object"),
        ("score", {"triples": [{"head": "ada", "relation": "likes"}]}, 422, "triples.0.tail: it is missing"),
        ("score", {"triples": [TRIPLE, {**TRIPLE, "relation": "liks"}]}, 404, "triples.1: unknown relation 'liks'"),
        ("classify", {"triples": []}, 422, "triples: List should have at least 1 item"),
        ("classify", {"triples": [{**TRIPLE, "head": "adda"}]}, 404, "triples.0: unknown entity 'adda'; did you mean"),
        ("classify", {"triples": [TRIPLE], "seed": 1}, 422, "seed: there is no such parameter"),
    ],
)
def test_batches_that_make_no_sense_are_refused(client, path, body, status, message):
    assert post(client, f"/api/{path}", body, status)["error"].startswith(message)


def test_a_discovery_with_too_many_queries_is_refused():
    with serving(Alphabetical(queries=QUERIES_LIMIT + 1)) as address, httpx.Client(base_url=address) as client:
        problem = get(client, "/api/discover", 422, relation="likes")
        assert problem["error"] == (
            "this takes 2,001 queries, and a request may take 2,000: ask for an entity with it, or use "
            "`relens discover`"
        )
    with serving(Alphabetical(queries=100)) as address, httpx.Client(base_url=address) as client:
        assert get(client, "/api/discover", relation="likes")["facts"]
        assert get(client, "/api/discover", entity="ada", top=19)["facts"]
        problem = get(client, "/api/discover", 422, entity="ada", top=20)
        assert problem["error"].startswith("this takes 2,100 queries, and a request may take 2,000: ask for a relation")


# ---- how they take turns -------------------------------------------------------------------------------------------

ONE = {"head": "ada", "relation": "likes"}


def test_predictions_are_answered_during_a_discovery():
    ensemble = Alphabetical(searching=Event())
    with (
        serving(ensemble) as address,
        httpx.Client(base_url=address, timeout=HANG) as client,
        ThreadPoolExecutor(1) as other,
    ):
        found = other.submit(get, client, "/api/discover", relation="likes")
        assert ensemble.begun_searching.wait(HANG)
        for _ in range(3):
            assert get(client, "/api/predict", **ONE)["candidates"] == 8
        assert post(client, "/api/predict", {"queries": [ONE]})["predictions"][0]["candidates"] == 8
        assert not found.done()
        ensemble.searching.set()
        assert found.result()["facts"]


def test_a_discovery_that_takes_too_long_ends():
    ensemble = Alphabetical(searching=Event())
    with (
        serving(ensemble, Limits(seconds=0.3, in_line=1)) as address,
        httpx.Client(base_url=address, timeout=HANG) as client,
    ):
        assert "longer than 0.3 s" in get(client, "/api/discover", 504, relation="likes")["error"]
        until(lambda: client.get("/api/predict", params=ONE).status_code, 200)  # its place in line is free again
        assert not ensemble.searching.is_set()


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/api/classify", "the thresholds of verdicts are being fitted on validation"),
        ("/api/predict/relations", "the scale of relations is being chosen on validation"),
    ],
)
def test_what_is_prepared_once_goes_on_without_the_client(path, what):
    def ask(status: int = 200) -> Any:
        body = {"pairs": [PAIR]} if path.endswith("relations") else {"triples": [TRIPLE]}
        return post(client, path, body, status)

    ensemble = Alphabetical(preparing=Event())
    with (
        serving(ensemble, Limits(seconds=0.4)) as address,
        httpx.Client(base_url=address, timeout=HANG) as client,
    ):
        problem = ask(503)
        assert problem["error"] == f"{what}, which is done once: 25% of it so far. Try again in a moment"
        assert get(client, "/api/predict", **ONE)["candidates"] == 8
        assert post(client, "/api/score", {"triples": [TRIPLE]})["triples"][0]["known"] == "train"
        assert ask(503) == problem
        ensemble.preparing.set()
        until(lambda: client.post(path, json={"pairs": [PAIR], "triples": [TRIPLE]}).status_code == 503, False)
        ask()
        ask()
    assert ensemble.prepared == 1


def test_what_could_not_be_prepared_is_tried_again():
    ensemble = Alphabetical(failure=InputError("circle has no validation triples: hold some out"))
    with serving(ensemble) as address, httpx.Client(base_url=address, timeout=HANG) as client:
        for _ in range(2):
            problem = post(client, "/api/classify", {"triples": [TRIPLE]}, 422)
            assert problem["error"] == "circle has no validation triples: hold some out"
        ensemble.failure = None
        assert post(client, "/api/classify", {"triples": [TRIPLE]})["triples"][0]["true"] is True
    assert ensemble.prepared == 3


def test_a_service_stops_while_it_prepares():
    ensemble = Alphabetical(preparing=Event())
    with serving(ensemble, Limits(seconds=0.2)) as address, httpx.Client(base_url=address, timeout=HANG) as client:
        post(client, "/api/classify", {"triples": [TRIPLE]}, 503)
    assert not ensemble.preparing.is_set()  # serving() has waited for the end of the service
