"""The JSON interface of the other questions: relations between two entities, given triples, and new facts."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self, get_args

from fastapi import APIRouter, Response
from fastapi import Query as InUrl
from pydantic import BaseModel, ConfigDict, Field, model_validator

from relens.prediction import Ensemble, RelationPredictions
from relens.progress import Progress
from relens.serve.api import (
    BATCH_LIMIT,
    REFUSED,
    SLOW,
    KnownFactsField,
    Label,
    Top,
    Vote,
    as_json,
    check_amount,
    sent,
)
from relens.serve.candidates import Among, Candidates, Word, Words, WordsOrNames, known_candidates
from relens.serve.lookup import GraphLookup
from relens.serve.refusals import RefusedError
from relens.serve.worker import Once, Worker

FACTS_LIMIT = 100
"""New facts of a request."""
QUERIES_LIMIT = 2000
"""Queries of a discovery whose best answers are considered; the check in the other direction may take as many."""
LEAST_DEPTH = 10
"""Answers of a query that a discovery considers at least."""

Name = Annotated[str | None, Field(description="Its readable name, if the data set has one.")]
Restriction = Annotated[
    str | None, Field(description="What the candidates are restricted to; null if all entities compete.")
]
KnownSplit = Annotated[
    str | None, Field(description="The split that contains the triple, or facts; null for a new one.")
]


class Pair(BaseModel):
    """Two entities."""

    model_config = ConfigDict(extra="forbid")

    head: Label
    tail: Label


class PairQuery(Pair):
    """Two entities, and options of the answer."""

    top: Top = 10
    known: KnownFactsField = "mark"
    candidates: Words = None


class PairBatch(BaseModel):
    """Several pairs, answered in order."""

    model_config = ConfigDict(extra="forbid", strict=True)

    pairs: list[Pair] = Field(min_length=1, max_length=BATCH_LIMIT)
    top: Top = 10
    known: KnownFactsField = "mark"
    candidates: Words = None

    @model_validator(mode="after")
    def _not_too_much(self) -> Self:
        check_amount(len(self.pairs), self.top, explain=False)
        return self


class Triple(Pair):
    """A triple by name."""

    relation: Label


class Triples(BaseModel):
    """Several triples, answered in order."""

    model_config = ConfigDict(extra="forbid", strict=True)

    triples: list[Triple] = Field(min_length=1, max_length=BATCH_LIMIT)


class ToScore(Triples):
    """Triples to score, and who competes with their heads and tails."""

    candidates: WordsOrNames = None


class ToClassify(Triples):
    """Triples to classify, and who competes with their heads and tails."""

    candidates: Words = None  # each has thresholds of its own, so no lists


class DiscoverQuery(BaseModel):
    """A relation, an entity, or both: what the new facts are about."""

    model_config = ConfigDict(extra="forbid")

    relation: Label | None = None
    entity: Label | None = Field(default=None, description="The head or the tail of every fact.")
    top: int = Field(default=10, ge=1, le=FACTS_LIMIT, description="How many facts, best first.")
    confidence: float | None = Field(default=None, gt=0, le=1, description="Leave out facts with less, or with none.")
    candidates: Literal["likely", "observed", "types", "all"] = Field(
        default="likely", description="The entities that may be in a fact."
    )

    @model_validator(mode="after")
    def _something_named(self) -> Self:
        if self.relation is None and self.entity is None:
            raise ValueError("expected a relation, an entity or both, found neither: the whole graph takes too long")
        return self


class RelationAnswer(BaseModel):
    """A relation that may hold between two entities."""

    relation: str
    name: Name
    rank: int | float
    score: float | None
    known: KnownSplit
    votes: list[Vote]


class Relations(BaseModel):
    """The best relations between two entities: the output of ``relens predict --json``, plus readable names."""

    head: str
    head_name: Name
    tail: str
    tail_name: Name
    candidates: int = Field(description="How many relations compete, without known ones.")
    scale: str = Field(description="How the scores of different relations were made comparable.")
    restriction: Restriction
    answers: list[RelationAnswer]
    notes: list[str] = Field(description="Remarks, for instance that the candidates leave no relation.")


class RelationsOfPairs(BaseModel):
    """The relations of several pairs, in their order."""

    predictions: list[Relations]


class NamedTriple(BaseModel):
    """A triple with readable names."""

    head: str
    head_name: Name
    relation: str
    relation_name: Name
    tail: str
    tail_name: Name


class Score(NamedTriple):
    """A triple with its score and ranks."""

    score: float | None = Field(description="The mean of the scores of tail and head; comparable within one relation.")
    tail_rank: int | float = Field(description="The rank of the tail among all tails.")
    head_rank: int | float = Field(description="The rank of the head among all heads.")
    probability: float | None = Field(description="How likely it is true; null for a known one, and without evidence.")
    known: KnownSplit
    restriction: Restriction


class Scores(BaseModel):
    """The scores of several triples, in their order."""

    triples: list[Score]


class Verdict(NamedTriple):
    """A triple with a verdict."""

    true: bool = Field(description="The verdict: whether the value reaches the threshold.")
    value: float | None = Field(description="What is compared with the threshold.")
    threshold: float | None = Field(description="The threshold of the relation, fitted on validation.")
    own: bool = Field(description="Whether the threshold was fitted on examples of this relation.")
    known: KnownSplit
    restriction: Restriction


class Verdicts(BaseModel):
    """Verdicts on several triples, in their order."""

    triples: list[Verdict]


class Fact(NamedTriple):
    """A fact that is not in the data set."""

    confidence: float | None = Field(description="The geometric mean of the confidences in both directions.")
    tail_rank: int | float = Field(description="The rank of the tail in the query for tails.")
    head_rank: int | float = Field(description="The rank of the head in the query for heads.")
    margin: float | None = Field(description="How far its scores are above those of other candidates.")


class Discovered(BaseModel):
    """New facts, best first."""

    facts: list[Fact]


def other_questions(ensemble: Ensemble, graph: GraphLookup, worker: Worker) -> APIRouter:
    """Return the requests about relations, given triples and new facts."""
    router, among = APIRouter(prefix="/api", responses={**REFUSED, **SLOW}), Among(ensemble)
    _add_relations(router, among, graph, worker)
    _add_triples(router, among, graph, worker)
    _add_discovery(router, ensemble, graph, worker)
    return router


def _add_relations(router: APIRouter, among: Among, graph: GraphLookup, worker: Worker) -> None:
    scale = Once(worker, among(None).choose_relation_scale, "the scale of relations is being chosen on validation")

    async def relations(pairs: list[tuple[str, str]], asked: PairQuery | PairBatch) -> list[dict[str, Any]]:
        seconds = await scale.done()

        def answers(progress: Progress) -> list[RelationPredictions]:
            chosen = among(asked.candidates)
            return list(chosen.predict_relations_many(pairs, top=asked.top, known=asked.known, progress=progress))

        found = await worker.run_long(answers, seconds=seconds)
        return [_relations(graph, one) for one in found]

    @router.get("/predict/relations", summary="The best relations between two entities", response_model=Relations)
    async def of_pair(asked: Annotated[PairQuery, InUrl()]) -> Response:
        (found,) = await relations([_pair(graph, asked)], asked)
        return sent(as_json(found))

    @router.post("/predict/relations", summary="The best relations of several pairs", response_model=RelationsOfPairs)
    async def of_pairs(batch: PairBatch) -> Response:
        pairs = [_pair(graph, pair, f"pairs.{place}: ") for place, pair in enumerate(batch.pairs)]
        return sent(as_json({"predictions": await relations(pairs, batch)}))


def _thresholds(candidates: Candidates, among: Among, worker: Worker) -> Once:
    """Return the fit of the thresholds among some candidates, which begins with the first request for it."""

    def fit(progress: Progress) -> None:
        among(candidates).thresholds(progress=progress)

    return Once(worker, fit, "the thresholds of verdicts are being fitted on validation")


def _add_triples(router: APIRouter, among: Among, graph: GraphLookup, worker: Worker) -> None:
    fitted = {word: _thresholds(word, among, worker) for word in (None, *get_args(Word))}

    @router.post("/score", summary="Score, ranks and probability of given triples", response_model=Scores)
    async def score(asked: ToScore) -> Response:
        triples, candidates = _triples(graph, asked), known_candidates(graph, asked.candidates)
        found = await worker.run_long(lambda progress: among(candidates).score(triples, progress=progress))
        return sent(as_json({"triples": [_named(graph, one.to_json()) for one in found]}))

    @router.post("/classify", summary="Whether given triples are true", response_model=Verdicts)
    async def classify(asked: ToClassify) -> Response:
        triples = _triples(graph, asked)
        seconds = await fitted[asked.candidates].done()
        found = await worker.run_long(
            lambda progress: among(asked.candidates).classify(triples, progress=progress), seconds=seconds
        )
        return sent(as_json({"triples": [_named(graph, one.to_json()) for one in found]}))


def _add_discovery(router: APIRouter, ensemble: Ensemble, graph: GraphLookup, worker: Worker) -> None:
    @router.get("/discover", summary="The best new facts of a relation or an entity", response_model=Discovered)
    async def discover(asked: Annotated[DiscoverQuery, InUrl()]) -> Response:
        relations = [] if asked.relation is None else [graph.known_relation(asked.relation)]
        entities = [] if asked.entity is None else [graph.known_entity(asked.entity)]
        depth = max(asked.top, LEAST_DEPTH)
        found = await worker.run_long(
            lambda progress: list(
                ensemble.discover(
                    relations=relations,
                    entities=entities,
                    top=asked.top,
                    confidence=asked.confidence,
                    candidates=asked.candidates,
                    depth=depth,
                    progress=progress,
                )
            ),
            limit=_queries_limit(depth if entities else None),
        )
        return sent(as_json({"facts": [fact.to_json() for fact in found]}))


def _queries_limit(checked: int | None) -> Callable[[float], None]:
    """Return a function that refuses a discovery with too many queries.

    Args:
        checked: answers of each query that are queries themselves in the other direction; None if those are among the
            queries already.
    """

    def limit(listed: float) -> None:
        queries = int(listed) * (1 if checked is None else 1 + checked)
        if queries <= QUERIES_LIMIT:
            return
        less = "an entity with it" if checked is None else "a relation with the entity, or fewer facts"
        raise RefusedError(
            422,
            f"this takes {queries:,} queries, and a request may take {QUERIES_LIMIT:,}: ask for {less}, or use "
            f"`relens discover`",
        )

    return limit


def _pair(graph: GraphLookup, pair: Pair, where: str = "") -> tuple[str, str]:
    """Return a pair with labels of the graph, or refuse it; ``where`` begins the message."""
    return graph.known_entity(pair.head, where), graph.known_entity(pair.tail, where)


def _triples(graph: GraphLookup, asked: Triples) -> list[tuple[str, str, str]]:
    """Return triples with labels of the graph, or refuse the first unknown name."""
    found = []
    for place, triple in enumerate(asked.triples):
        where = f"triples.{place}: "
        head, tail = _pair(graph, triple, where)
        found.append((head, graph.known_relation(triple.relation, where), tail))
    return found


def _relations(graph: GraphLookup, found: RelationPredictions) -> dict[str, Any]:
    names, plain = graph.dataset.names, found.to_json()
    return {**plain, "head_name": names.get(found.head), "tail_name": names.get(found.tail)}


def _named(graph: GraphLookup, triple: dict[str, Any]) -> dict[str, Any]:
    names = graph.dataset.names
    return {
        **triple,
        "head_name": names.get(triple["head"]),
        "relation_name": graph.dataset.relation_names.get(triple["relation"]),
        "tail_name": names.get(triple["tail"]),
    }
