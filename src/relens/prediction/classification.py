"""Classify triples as true or false, and evaluate that."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from relens.data.queries import SPLITS, Queries
from relens.errors import InputError
from relens.evaluation import Measured
from relens.prediction.thresholds import STATISTICS, Examples, Thresholds
from relens.prediction.voting import Voting
from relens.progress import Progress
from relens.records import CLASSIFICATION, Provenance


@dataclass(frozen=True)
class ClassifiedTriple:
    """A triple with a verdict.

    Attributes:
        head, relation, tail: labels.
        true: the verdict: whether the value reaches the threshold.
        value: what is compared with the threshold, see ``Thresholds.statistic``; higher is more likely true.
        threshold: the threshold of the relation, with the best accuracy on validation.
        own: whether the threshold was fitted on examples of this relation.
        known: the first split that contains the triple, ``facts`` if it was given; None for a new one.
        restriction: the name of the restriction of the candidates that ranks are among; None for all entities.
    """

    head: str
    relation: str
    tail: str
    true: bool
    value: float
    threshold: float
    own: bool
    known: str | None
    restriction: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Verdicts:
    """How many of some examples were classified right.

    Attributes:
        true_positives, false_positives, true_negatives, false_negatives: numbers of examples.
    """

    true_positives: int
    false_positives: int
    true_negatives: int
    false_negatives: int

    @classmethod
    def count(cls, found: npt.NDArray[np.bool_], true: npt.NDArray[np.bool_]) -> Self:
        """Count the verdicts ``found`` (n,) on examples that are ``true`` (n,)."""
        counts = (found & true, found & ~true, ~found & ~true, ~found & true)
        return cls(*(int(part.sum()) for part in counts))

    @property
    def examples(self) -> int:
        """The number of examples."""
        return self.true_positives + self.false_positives + self.true_negatives + self.false_negatives

    @property
    def accuracy(self) -> float:
        """The share of right verdicts."""
        return (self.true_positives + self.true_negatives) / self.examples

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 if nothing is true."""
        positives = 2 * self.true_positives + self.false_positives + self.false_negatives
        return 2 * self.true_positives / positives if positives else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the numbers, accuracy and F1 as plain JSON values."""
        return {**asdict(self), "accuracy": self.accuracy, "f1": self.f1}


@dataclass(frozen=True, kw_only=True)
class ClassificationEvaluation(Measured[Verdicts]):
    """How well an ensemble tells true triples from false ones.

    Attributes:
        protocol: where the false examples came from, on validation and on the split.
        statistic: what is compared with the thresholds.
        valid_accuracy: accuracy of each statistic on validation, thresholds fitted on the other half.
        own_thresholds: relations with a threshold of their own.
    """

    protocol: Mapping[str, str]
    statistic: str
    valid_accuracy: Mapping[str, float]
    own_thresholds: int

    def to_json(self) -> dict[str, Any]:
        """Return a record of plain JSON values."""
        return CLASSIFICATION.stamp(
            {
                "name": self.name,
                "provenance": self.provenance.to_json(),
                "protocol": dict(self.protocol),
                "statistic": self.statistic,
                "valid_accuracy": dict(self.valid_accuracy),
                "own_thresholds": self.own_thresholds,
                "overall": self.overall.to_json(),
                "by_relation": {label: verdicts.to_json() for label, verdicts in self.by_relation.items()},
                "seed": self.seed,
            }
        )


def fit(voting: Voting, seed: int, progress: Progress) -> Thresholds:
    """Fit the thresholds of an ensemble on validation; sampled negatives are no facts of train or valid."""
    dataset = voting.dataset
    if not len(dataset.valid):
        raise InputError(f"{dataset.name} has no validation triples, and thresholds are fitted on them: hold some out")
    examples = Examples.of_split(dataset, "valid", filtered=SPLITS[:2], seed=seed)
    found = voting.rank_answers(Queries.from_triples(examples.triples), progress)
    return Thresholds.fit(examples, found, len(dataset.relations), seed)


def classify_triples(
    voting: Voting, ids: npt.NDArray[np.int32], thresholds: Thresholds, progress: Progress
) -> tuple[ClassifiedTriple, ...]:
    """Return a verdict on each triple in ids, (n, 3), in order."""
    values = STATISTICS[thresholds.statistic](voting.rank_answers(Queries.from_triples(ids), progress))
    entities, relations = voting.dataset.entities.labels, voting.dataset.relations.labels
    return tuple(
        ClassifiedTriple(
            head=entities[head],
            relation=relations[relation],
            tail=entities[tail],
            true=value >= thresholds.by_relation[relation].item(),
            value=value,
            threshold=thresholds.by_relation[relation].item(),
            own=bool(thresholds.own[relation]),
            known=known,
            restriction=None if voting.restriction is None else voting.restriction.name,
        )
        for (head, relation, tail), value, known in zip(
            ids.tolist(), values.tolist(), voting.splits_of(ids), strict=True
        )
    )


def evaluate_classification(
    voting: Voting, name: str, split: str, thresholds: Thresholds, *, seed: int, progress: Progress
) -> ClassificationEvaluation:
    """Classify the true and the false triples of a split; sampled negatives are no facts of any split."""
    dataset = voting.dataset
    if not len(dataset.splits[split]):
        raise InputError(f"there is nothing to evaluate: {split} of {dataset.name} has no triples")
    examples = Examples.of_split(dataset, split, filtered=SPLITS, seed=seed)
    queries, restriction = Queries.from_triples(examples.triples), voting.restriction
    ranked = voting.rank_answers(queries, progress)
    relation = examples.triples[:, 1]
    found = STATISTICS[thresholds.statistic](ranked) >= thresholds.by_relation[relation]
    parts = {label: relation == number for number, label in enumerate(dataset.relations.labels)}
    return ClassificationEvaluation(
        name=name,
        provenance=Provenance(
            dataset.name,
            dataset.fingerprint,
            split,
            SPLITS,
            "all" if restriction is None else restriction.name,
            None if restriction is None else int(restriction.outside(queries).sum()),
        ),
        protocol={"valid": thresholds.protocol, split: examples.protocol},
        statistic=thresholds.statistic,
        valid_accuracy=dict(thresholds.tried),
        own_thresholds=int(thresholds.own.sum()),
        overall=Verdicts.count(found, examples.true),
        by_relation={
            label: Verdicts.count(found[mine], examples.true[mine]) for label, mine in parts.items() if mine.any()
        },
        seed=seed,
    )
