"""The JSON interface."""

from itertools import takewhile
from threading import Event
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi import Query as InUrl

from relens import __version__
from relens.prediction import Ensemble, Question
from relens.prediction import Predictions as Answers
from relens.serve.lookup import GraphLookup
from relens.serve.questions import LABEL_LIMIT, Batch, EntityQuery, Prediction, Predictions, PredictQuery, Query
from relens.serve.refusals import Problem
from relens.serve.worker import Worker

REFUSED: dict[int | str, dict[str, Any]] = {
    403: {"model": Problem, "description": "A page of another origin asks."},
    404: {"model": Problem, "description": "An unknown name; the closest ones come with it."},
    422: {"model": Problem, "description": "A malformed request."},
    503: {"model": Problem, "description": "Too many connections are open, or too many predictions in line."},
}
SLOW: dict[int | str, dict[str, Any]] = {
    504: {"model": Problem, "description": "The prediction took too long."},
}
SomeLabel = Annotated[str, InUrl(min_length=1, max_length=LABEL_LIMIT)]


def look_ups(graph: GraphLookup, run: str) -> APIRouter:
    """Return the requests that need no model: health, relations, entities, weights."""
    router = APIRouter(prefix="/api", responses=REFUSED)

    @router.get("/health", summary="What is served")
    def health() -> dict[str, Any]:
        weights, dataset = graph.weights, graph.dataset
        return {
            "status": "ok",
            "relens": __version__,
            "run": run,
            "dataset": {"name": dataset.name, "fingerprint": dataset.fingerprint, **dataset.counts},
            "models": weights.models,
            "input": weights.input,
            "grouping": weights.grouping.scheme,
            "method": weights.settings.get("method"),
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
    router = APIRouter(prefix="/api", responses={**REFUSED, **SLOW})

    @router.get("/predict", summary="The best answers to one query", response_model=Prediction)
    async def predict(asked: Annotated[PredictQuery, InUrl()]) -> dict[str, Any]:
        question = _question(graph, asked)
        return (await worker.run(lambda given_up: _answers(ensemble, graph, [question], asked, given_up)))[0]

    @router.post("/predict", summary="The best answers to several queries", response_model=Predictions)
    async def predict_batch(batch: Batch) -> dict[str, Any]:
        questions = [_question(graph, query, f"queries.{place}: ") for place, query in enumerate(batch.queries)]
        found = await worker.run(lambda given_up: _answers(ensemble, graph, questions, batch, given_up))
        return {"predictions": found}

    return router


def _question(graph: GraphLookup, query: Query, where: str = "") -> Question:
    """Return a query with labels of the graph, or refuse it; ``where`` begins the message."""
    relation = graph.known_relation(query.relation, where)
    return graph.known_entity(query.anchor, where), relation, query.direction


def _answers(
    ensemble: Ensemble, graph: GraphLookup, questions: list[Question], asked: PredictQuery | Batch, given_up: Event
) -> list[dict[str, Any]]:
    """Answer questions until the client has given up."""
    found = ensemble.predict_many(questions, top=asked.top, known=asked.known)
    return [_answer(graph, answers) for answers in takewhile(lambda _: not given_up.is_set(), found)]


def _answer(graph: GraphLookup, found: Answers) -> dict[str, Any]:
    return {
        **found.to_json(),
        "name": graph.dataset.names.get(found.anchor),
        "weights": graph.shares(found.relation, found.direction),
    }
