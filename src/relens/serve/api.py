"""The JSON interface: forms of requests and answers, and the functions behind the paths."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby, takewhile
from threading import Event
from typing import Annotated, Any, Self

from fastapi import APIRouter, Response
from fastapi import Query as InUrl
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from relens import __version__
from relens.data.queries import Direction
from relens.prediction import Ensemble, KnownFacts, Question
from relens.prediction import Predictions as Answers
from relens.serve.candidates import Among, Candidates, Words, WordsOrNames, known_candidates
from relens.serve.lookup import GraphLookup
from relens.serve.refusals import Problem, RefusedError
from relens.serve.worker import Desk, Worker

LABEL_LIMIT = 500
TOP_LIMIT = 1000
BATCH_LIMIT = 100
ANSWERS_LIMIT = 10_000
"""Limit of queries times answers of a batch."""
EXPLAINED_LIMIT = 25
"""The same if answers are explained, which takes a backward pass each."""

Label = Annotated[str, StringConstraints(min_length=1, max_length=LABEL_LIMIT)]
Top = Annotated[int, Field(ge=1, le=TOP_LIMIT, description="How many answers, best first.")]
KnownFactsField = Annotated[
    KnownFacts, Field(description="Leave known facts out, or mark them with the split they are in.")
]
Explain = Annotated[
    bool, Field(description=f"Add the paths that carried each score; for at most {EXPLAINED_LIMIT} answers in all.")
]


def check_amount(n_queries: int, top: int, *, explain: bool) -> None:
    """Raise an error if a request asks for too many answers."""
    limit = EXPLAINED_LIMIT if explain else ANSWERS_LIMIT
    if n_queries * top > limit:
        raise ValueError(
            f"{n_queries} queries with {top} answers each make {n_queries * top}, expected at most {limit}"
            f"{' with explain' if explain else ''}: ask for fewer at a time"
        )


class Query(BaseModel):
    """A relation and one of its two sides."""

    model_config = ConfigDict(extra="forbid")

    head: Label | None = Field(default=None, description="The head, to predict tails.")
    tail: Label | None = Field(default=None, description="The tail, to predict heads.")
    relation: Label

    @model_validator(mode="after")
    def _one_anchor(self) -> Self:
        if (self.head is None) == (self.tail is None):
            found = "neither" if self.head is None else "both"
            raise ValueError(f"expected either head or tail, found {found}")
        return self

    @property
    def anchor(self) -> str:
        """The given entity."""
        return self.head or self.tail or ""

    @property
    def direction(self) -> Direction:
        """The missing side."""
        return "head" if self.head is None else "tail"


class PredictQuery(Query):
    """One query, and options of its answer."""

    top: Top = 10
    known: KnownFactsField = "mark"
    explain: Explain = False
    candidates: Words = None

    @model_validator(mode="after")
    def _not_too_much(self) -> Self:
        check_amount(1, self.top, explain=self.explain)
        return self


class ExplainQuery(Query):
    """One query and one of its answers."""

    answer: Label = Field(description="The answer to explain.")


class Batch(BaseModel):
    """Several queries, answered in order."""

    model_config = ConfigDict(extra="forbid", strict=True)

    queries: list[Query] = Field(min_length=1, max_length=BATCH_LIMIT)
    top: Top = 10
    known: KnownFactsField = "mark"
    explain: Explain = False
    candidates: WordsOrNames = None

    @model_validator(mode="after")
    def _not_too_much(self) -> Self:
        check_amount(len(self.queries), self.top, explain=self.explain)
        return self


class EntityQuery(BaseModel):
    """The beginning of an entity's label or name."""

    model_config = ConfigDict(extra="forbid")

    prefix: Annotated[str, StringConstraints(max_length=LABEL_LIMIT)] = ""
    limit: int = Field(default=12, ge=1, le=100)


class Vote(BaseModel):
    """One model's rank of one answer."""

    model: str
    rank: int | float | None = Field(description="The model's own rank of the answer; 1 is best.")
    weight: int | float = Field(description="The model's share of the weights for this relation and direction.")


class ScorePath(BaseModel):
    """A path through the graph that carried an answer's score."""

    model: str
    importance: float = Field(description="The mean gradient of the model's score by the messages along the path.")
    entities: list[str] = Field(description="From the anchor to the answer.")
    relations: list[str] = Field(description="The relations in between.")
    inverse: list[bool] = Field(description="Whether the path follows each fact from its tail to its head.")
    names: list[str | None] = Field(description="Readable names of the entities.")
    relation_names: list[str | None] = Field(description="Readable names of the relations.")


class Paths(BaseModel):
    """The paths that carried the score of one answer."""

    paths: list[ScorePath]


class Answer(BaseModel):
    """An entity that may complete the triple."""

    entity: str
    name: str | None
    rank: int | float
    place: int | float | None = Field(description="Its place among what is possible; null for a known answer.")
    score: float | None
    known: str | None = Field(description="The split that contains the triple, or facts; null for a new one.")
    confidence: float | None = Field(
        description="The probability that it is a fact, if as many are missing as validation has; else null."
    )
    votes: list[Vote]
    abstained: list[str] = Field(description="Models that do not vote: the anchor or the answer is new to them.")
    paths: list[ScorePath] | None = Field(description="The paths that carried the score; null without explain.")


class Prediction(BaseModel):
    """The best answers to one query: the output of ``relens predict --json``, plus ``name`` and ``weights``."""

    anchor: str = Field(description="The label of the given entity.")
    name: str | None = Field(description="Its readable name, if the data set has one.")
    relation: str
    relation_name: str | None = Field(description="Its readable name, if the data set has one.")
    direction: Direction = Field(description="The missing side.")
    candidates: int = Field(description="How many entities compete, without known answers.")
    restriction: str | None = Field(description="What the candidates are restricted to; null if all entities compete.")
    weights: dict[str, float] = Field(description="The share of each model; shares sum to 1.")
    answers: list[Answer]
    notes: list[str] = Field(description="Remarks, for instance which models abstain.")


class Predictions(BaseModel):
    """The answers to a batch, in its order."""

    predictions: list[Prediction]


REFUSED: dict[int | str, dict[str, Any]] = {
    401: {"model": Problem, "description": "The token is missing or wrong, if the service has one."},
    403: {"model": Problem, "description": "A page of another origin asks."},
    404: {"model": Problem, "description": "An unknown name; the closest ones come with it."},
    422: {"model": Problem, "description": "A malformed request."},
    503: {"model": Problem, "description": "Too many connections are open, or too many predictions in line."},
}
SLOW: dict[int | str, dict[str, Any]] = {
    504: {"model": Problem, "description": "The prediction took too long."},
}
Single = tuple[Question, int, KnownFacts, Candidates]
"""A question that comes alone: how many answers, whether known facts are marked or dropped, and who competes."""
SomeLabel = Annotated[str, InUrl(min_length=1, max_length=LABEL_LIMIT)]


def status(worker: Worker) -> APIRouter:
    """Return the request for the state of the service. It needs no token, so it says nothing about the run."""
    router = APIRouter(prefix="/api", responses=REFUSED)

    @router.get("/health", summary="Whether the service is ready, or has as many predictions in line as it takes")
    async def health() -> dict[str, Any]:
        return {"status": "busy" if worker.full else "ready", "relens": __version__}

    return router


def look_ups(graph: GraphLookup, run: str, *, explains: bool) -> APIRouter:
    """Return the requests that need no model: the run, relations, entities, weights."""
    router = APIRouter(prefix="/api", responses=REFUSED)

    @router.get("/run", summary="What is served")
    def describe() -> dict[str, Any]:
        weights, dataset = graph.weights, graph.dataset
        return {
            "run": run,
            "dataset": {"name": dataset.name, "fingerprint": dataset.fingerprint, **dataset.counts},
            "models": weights.models,
            "input": weights.input,
            "grouping": weights.grouping.scheme,
            "method": weights.settings.get("method"),
            "explains": explains,
        }

    @router.get("/relations", summary="All relations: triples by split and cardinality class")
    def relations() -> dict[str, Any]:
        return {"relations": graph.relations}

    @router.get("/entities", summary="Entities whose label or name begins with, or contains, the typed text")
    def entities(typed: Annotated[EntityQuery, InUrl()]) -> dict[str, Any]:
        labels = graph.dataset.entities.labels
        found = graph.entity_names.matches(typed.prefix, typed.limit)
        return {"entities": [graph.entity(labels[number]) for number in found]}

    @router.get("/entity", summary="One entity: its triples counted by relation, as head and as tail")
    def entity(label: SomeLabel) -> dict[str, Any]:
        return graph.facts(graph.known_entity(label))

    @router.get("/weights", summary="The weight of each model, by relation and direction")
    def weights(relation: SomeLabel | None = None) -> dict[str, Any]:
        wanted = None if relation is None else graph.known_relation(relation)
        return {"models": graph.weights.models, "groups": graph.groups(wanted)}

    return router


def predictions(ensemble: Ensemble, graph: GraphLookup, worker: Worker) -> APIRouter:
    """Return the requests that run models."""
    router, among = APIRouter(prefix="/api", responses={**REFUSED, **SLOW}), Among(ensemble)

    def together(asked: Sequence[Single], nobody_waits: Callable[[], bool]) -> Iterator[bytes]:
        for (top, known, candidates), group in groupby(asked, key=lambda single: single[1:]):
            if nobody_waits():
                return
            found = among(candidates).predict_many([question for question, *_ in group], top=top, known=known)
            yield from (as_json(_answer(graph, answers)) for answers in takewhile(lambda _: not nobody_waits(), found))

    singles = Desk(together)

    @router.get("/predict", summary="The best answers to one query", response_model=Prediction)
    async def predict(asked: Annotated[PredictQuery, InUrl()]) -> Response:
        question = _question(graph, asked)
        _check_explains(ensemble, explain=asked.explain)
        if not asked.explain:
            return sent(await worker.ask(singles, (question, asked.top, asked.known, asked.candidates)))
        found = await worker.run(lambda given_up: _answers(among(asked.candidates), graph, [question], asked, given_up))
        return sent(as_json(found[0]))

    @router.post("/predict", summary="The best answers to several queries", response_model=Predictions)
    async def predict_batch(batch: Batch) -> Response:
        questions = [_question(graph, query, f"queries.{place}: ") for place, query in enumerate(batch.queries)]
        candidates = known_candidates(graph, batch.candidates)
        _check_explains(ensemble, explain=batch.explain)
        found = await worker.run(lambda given_up: _answers(among(candidates), graph, questions, batch, given_up))
        return sent(as_json({"predictions": found}))

    @router.get("/explain", summary="The paths that carried the score of one answer", response_model=Paths)
    async def explain(asked: Annotated[ExplainQuery, InUrl()]) -> dict[str, Any]:
        anchor, relation, direction = _question(graph, asked)
        answer = graph.known_entity(asked.answer)
        _check_explains(ensemble, explain=True)
        given = {"head" if direction == "tail" else "tail": anchor}
        found = await worker.run(lambda _: ensemble.explain(answer, relation=relation, **given))
        return {"paths": [asdict(path) for path in found]}

    return router


def _check_explains(ensemble: Ensemble, *, explain: bool) -> None:
    """Refuse to explain if no model can."""
    if explain and not ensemble.propagating:
        raise RefusedError(
            422,
            "no model here sends anything along the edges of the graph, so there are no paths: serve a run with one",
        )


def _question(graph: GraphLookup, query: Query, where: str = "") -> Question:
    """Return a query with labels of the graph, or refuse it; ``where`` begins the message."""
    relation = graph.known_relation(query.relation, where)
    return graph.known_entity(query.anchor, where), relation, query.direction


def _answers(
    ensemble: Ensemble, graph: GraphLookup, questions: list[Question], asked: PredictQuery | Batch, given_up: Event
) -> list[dict[str, Any]]:
    """Answer questions until the client has given up."""
    found = ensemble.predict_many(questions, top=asked.top, known=asked.known, explain=asked.explain)
    return [_answer(graph, answers) for answers in takewhile(lambda _: not given_up.is_set(), found)]


def _answer(graph: GraphLookup, found: Answers) -> dict[str, Any]:
    return {
        **found.to_json(),
        "name": graph.dataset.names.get(found.anchor),
        "weights": graph.shares(found.relation, found.direction),
    }


def as_json(value: Any) -> bytes:
    """Return plain values as JSON; a number that is not finite becomes null."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return as_json(_finite(value))
    return text.encode()


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def sent(body: bytes) -> Response:
    """Return JSON as a response; forms of answers serve as its description, and are not checked again."""
    return Response(body, media_type="application/json")
