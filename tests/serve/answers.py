"""An ensemble without models: small, quick, and with labels that would like to be markup."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import Event

import numpy as np

from relens.data.dataset import Dataset
from relens.data.grouping import Grouping
from relens.ensemble.weights import EnsembleWeights
from relens.prediction import (
    ClassifiedTriple,
    KnownFacts,
    NewFact,
    Prediction,
    Predictions,
    Question,
    RelationPrediction,
    RelationPredictions,
    ScoredTriple,
    ScorePath,
    Vote,
)
from relens.progress import SILENT, Progress

HOSTILE = "<img src=x onerror=\"document.title='broken in'\">"
SCRIPT = "</script><script>document.title='broken in'</script>"
MODELS = ("transe", "rotate", "complex")
PEOPLE = ("ada", "Bob", "cleo", "dan", "Eve", "Zoë", "a/../b", HOSTILE)


def graph() -> Dataset:
    """People who like each other in a circle, and live somewhere."""
    likes = [(person, "likes", other) for person, other in zip(PEOPLE, PEOPLE[1:] + PEOPLE[:1], strict=True)]
    homes = [(person, "lives in", "Oslo") for person in PEOPLE]
    return Dataset.from_labels(
        "circle", train=likes[:-2] + homes, valid=[likes[-2]], test=[likes[-1], ("ada", SCRIPT, "Oslo")]
    )


def some_weights(dataset: Dataset) -> EnsembleWeights:
    """Weights 6:3:1 for tails and 0:1:1 for heads, whatever the relation; the last relation has none of its own."""
    relations = dataset.relations.labels
    grouping = Grouping.by_relation_and_direction(relations)
    own = np.ones(len(grouping), dtype=bool)
    own[-2:] = False
    table = np.array([[6, 3, 1], [0, 1, 1]] * len(relations), dtype=np.int64)
    table[~own] = 1
    return EnsembleWeights(
        models=MODELS,
        relations=relations,
        grouping=grouping,
        table=table,
        own=own,
        fallback=np.ones(3, dtype=np.int64),
        support=np.arange(len(grouping)),
        settings={"method": "dsc"},
        dataset=(dataset.name, dataset.fingerprint),
    )


@dataclass
class Alphabetical:
    """Puts the candidates in the order of their labels; each model is a little off.

    Attributes:
        dataset: the graph.
        gate: where there is one, a prediction waits for it.
        failure: where there is one, a prediction fails with it.
        begun: set when a prediction begins.
        asked: the questions so far.
        propagating: the models that can explain.
        preparing: where there is one, the work that is done once goes on until it is set.
        begun_preparing: set when that work begins.
        prepared: how often it was begun.
        searching: where there is one, a discovery goes on until it is set.
        begun_searching: set when a discovery begins.
        queries: the queries of a discovery.
        candidates: those that were asked for.
    """

    dataset: Dataset = field(default_factory=graph)
    gate: Event | None = None
    failure: Exception | None = None
    begun: Event = field(default_factory=Event)
    asked: list[Question] = field(default_factory=list)
    propagating: tuple[str, ...] = ("transe",)
    preparing: Event | None = None
    begun_preparing: Event = field(default_factory=Event)
    prepared: int = 0
    searching: Event | None = None
    begun_searching: Event = field(default_factory=Event)
    queries: int = 8
    candidates: list[object] = field(default_factory=list)
    _fitted: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.weights = some_weights(self.dataset)

    def explain(
        self, answer: str, *, relation: str, head: str | None = None, tail: str | None = None
    ) -> tuple[ScorePath, ...]:
        """Return a path against a fact and along the relation of the question, unless the answer is Oslo."""
        names = tuple(self.dataset.names.get(label) for label in (head or tail or "", HOSTILE, answer))
        steps = (head or tail or "", HOSTILE, answer), ("likes", relation), (True, False), names
        return () if answer == "Oslo" else (ScorePath("transe", 0.625, *steps, (None, None)),)

    def predict_many(
        self, queries: Iterable[Question], *, top: int, known: KnownFacts, explain: bool = False
    ) -> Iterator[Predictions]:
        for anchor, relation, direction in queries:
            self.asked.append((anchor, relation, direction))
            self.begun.set()
            if self.gate is not None:
                assert self.gate.wait(20)
            if self.failure is not None:
                raise self.failure
            found = self._predictions(anchor, relation, direction, top, known)
            given = {"head" if direction == "tail" else "tail": anchor}
            answers = tuple(
                replace(answer, paths=self.explain(answer.entity, relation=relation, **given)) for answer in found
            )
            yield replace(found, answers=answers) if explain else found

    def among(self, candidates: object) -> "Alphabetical":
        """Keep in mind which candidates were asked for; answers stay as they are."""
        self.candidates.append(candidates)
        return self

    def thresholds(self, seed: int = 0, progress: Progress = SILENT) -> None:
        """Take time once."""
        self._prepare("thresholds", progress)

    def choose_relation_scale(self, progress: Progress = SILENT) -> None:
        """Take time once."""
        self._prepare("scale", progress)

    def predict_relations_many(
        self, pairs: Sequence[tuple[str, str]], *, top: int, known: KnownFacts, progress: Progress = SILENT
    ) -> Iterator[RelationPredictions]:
        """Put relations in the order of their labels."""
        self.choose_relation_scale(progress)
        for head, tail in pairs:
            splits = {relation: self._split(head, relation, tail) for relation in self.dataset.relations.labels}
            new = [relation for relation in splits if splits[relation] is None]
            answers = [
                RelationPrediction(
                    relation=relation,
                    rank=1 + sum(other < relation for other in new),
                    score=-float(place),
                    known=splits[relation],
                    votes=(Vote("transe", place + 1, 0.75), Vote("complex", 3 - place, 0.25)),
                )
                for place, relation in enumerate(sorted(splits))
                if known == "mark" or splits[relation] is None
            ]
            yield RelationPredictions(head, tail, len(new), "rank, prior 0.1", tuple(answers[:top]))

    def score(self, triples: Sequence[Sequence[str]], *, progress: Progress = SILENT) -> tuple[ScoredTriple, ...]:
        """Rank tails and heads in the order of their labels."""
        found = []
        with progress.task("ranking answers", len(triples)) as advance:
            for head, relation, tail in triples:
                ranks = [1 + sum(other < label for other in self.dataset.entities.labels) for label in (tail, head)]
                split = self._split(head, relation, tail)
                found.append(
                    ScoredTriple(head, relation, tail, -sum(ranks) / 2, *ranks, None if split else 0.25, split)
                )
                advance(1)
        return tuple(found)

    def classify(
        self, triples: Sequence[Sequence[str]], *, progress: Progress = SILENT
    ) -> tuple[ClassifiedTriple, ...]:
        """Call triples true whose tail is among the first four labels."""
        self._prepare("thresholds", progress)
        return tuple(
            ClassifiedTriple(
                one.head, one.relation, one.tail, one.tail_rank <= 4, -one.tail_rank, -4.0, own=True, known=one.known
            )
            for one in self.score(triples)
        )

    def discover(
        self,
        *,
        relations: Sequence[str],
        entities: Sequence[str],
        top: int,
        confidence: float | None,
        candidates: str,
        depth: int,
        progress: Progress,
    ) -> Iterator[NewFact]:
        """Yield new facts in the order of labels."""
        del candidates, depth
        self.begun_searching.set()
        with progress.task("discovering", self.queries) as advance:
            advance(1)
            _until(self.searching, advance)
        labels = self.dataset.entities.labels
        found = (
            (head, relation, tail)
            for relation in relations or sorted(self.dataset.relations.labels)
            for head in sorted(labels)
            for tail in sorted(labels)
            if (not entities or entities[0] in (head, tail)) and self._split(head, relation, tail) is None
        )
        for place, (head, relation, tail) in zip(range(top), found, strict=False):
            if confidence is None or 0.5 / (place + 1) >= confidence:
                yield NewFact(head, relation, tail, None, None, None, 0.5 / (place + 1), place + 1.0, 2.0, 1.5)

    def _prepare(self, what: str, progress: Progress) -> None:
        if what in self._fitted:
            return
        self.prepared += 1
        self.begun_preparing.set()
        if self.failure is not None:
            raise self.failure
        with progress.task(what, 4) as advance:
            advance(1)
            _until(self.preparing, advance)
        self._fitted.add(what)

    def _split(self, head: str, relation: str, tail: str) -> str | None:
        return self._known(head, relation, "tail").get(tail)

    def _predictions(self, anchor: str, relation: str, direction: str, top: int, known: KnownFacts) -> Predictions:
        splits = self._known(anchor, relation, direction)
        candidates = [label for label in self.dataset.entities.labels if label not in splits]
        labels = [label for label in self.dataset.entities.labels if known == "mark" or label not in splits]
        shares = (0.6, 0.3, 0.1) if direction == "tail" else (0.0, 0.5, 0.5)
        # As in an evaluation: a known answer is ranked among the candidates, the other known ones are not there.
        places = {label: 1 + sum(other < label for other in candidates) for label in labels}
        answers = tuple(
            Prediction(
                entity=label,
                name=self.dataset.names.get(label),
                rank=place,
                place=None if label in splits else place,
                score=-float(place),
                known=splits.get(label),
                confidence=0.5 / place if direction == "tail" and label not in splits else None,
                votes=tuple(Vote(model, place + m, shares[m]) for m, model in enumerate(MODELS) if shares[m]),
            )
            for label, place in ((label, places[label]) for label in labels[:top])
        )
        return Predictions(anchor, relation, direction, len(candidates), answers)  # type: ignore[arg-type]

    def _known(self, anchor: str, relation: str, direction: str) -> dict[str, str]:
        """Return which candidates are known, by the split that says so."""
        labels, relations = self.dataset.entities.labels, self.dataset.relations.labels
        given, wanted = (0, 2) if direction == "tail" else (2, 0)
        return {
            labels[triple[wanted]]: split
            for split, triples in self.dataset.splits.items()
            for triple in triples.tolist()
            if (labels[triple[given]], relations[triple[1]]) == (anchor, relation)
        }


def _until(gate: Event | None, advance: Callable[[float], None]) -> None:
    """Take small steps until a gate opens."""
    while gate is not None and not gate.is_set():
        time.sleep(0.01)
        advance(0)
