"""An ensemble without models: small, quick, and with labels that would like to be markup."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from threading import Event

import numpy as np

from relens.data.dataset import Dataset
from relens.data.grouping import Grouping
from relens.ensemble.weights import EnsembleWeights
from relens.prediction import KnownFacts, Prediction, Predictions, Question, ScorePath, Vote

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
    """

    dataset: Dataset = field(default_factory=graph)
    gate: Event | None = None
    failure: Exception | None = None
    begun: Event = field(default_factory=Event)
    asked: list[Question] = field(default_factory=list)
    propagating: tuple[str, ...] = ("transe",)

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
