"""Classify triples as true or false, and evaluate that."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from relens.data.queries import SPLITS, Queries
from relens.errors import InputError
from relens.prediction.thresholds import STATISTICS, Examples, Thresholds
from relens.progress import Progress
from relens.records import CLASSIFICATION

if TYPE_CHECKING:
    from relens.prediction.ensemble import Ensemble


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
    """

    head: str
    relation: str
    tail: str
    true: bool
    value: float
    threshold: float
    own: bool
    known: str | None

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


@dataclass(frozen=True)
class ClassificationEvaluation:
    """How well an ensemble tells true triples from false ones.

    Attributes:
        name: the name of the weights.
        dataset: name and fingerprint of the data set.
        split: the split of the examples.
        protocol: where the false examples came from, on validation and on the split.
        statistic: what is compared with the thresholds.
        valid_accuracy: accuracy of each statistic on validation, thresholds fitted on the other half.
        own_thresholds: relations with a threshold of their own.
        overall: all verdicts.
        by_relation: verdicts by relation.
        seed: seed of sampled negatives.
    """

    name: str
    dataset: tuple[str, str]
    split: str
    protocol: Mapping[str, str]
    statistic: str
    valid_accuracy: Mapping[str, float]
    own_thresholds: int
    overall: Verdicts
    by_relation: Mapping[str, Verdicts]
    seed: int

    def to_json(self) -> dict[str, Any]:
        """Return a record of plain JSON values."""
        return CLASSIFICATION.stamp(
            {
                **asdict(self),
                "dataset": {"name": self.dataset[0], "fingerprint": self.dataset[1]},
                "overall": self.overall.to_json(),
                "by_relation": {label: verdicts.to_json() for label, verdicts in self.by_relation.items()},
            }
        )


def fit(ensemble: "Ensemble", seed: int, progress: Progress) -> Thresholds:
    """Fit the thresholds of an ensemble on validation; sampled negatives are no facts of train or valid."""
    dataset = ensemble.dataset
    if not len(dataset.valid):
        raise InputError(f"{dataset.name} has no validation triples, and thresholds are fitted on them: hold some out")
    examples = Examples.of_split(dataset, "valid", filtered=SPLITS[:2], seed=seed)
    found = ensemble.rank_answers(Queries.from_triples(examples.triples), progress=progress)
    return Thresholds.fit(examples, found, len(dataset.relations), seed)


def classify_triples(
    ensemble: "Ensemble", ids: npt.NDArray[np.int32], thresholds: Thresholds, progress: Progress
) -> tuple[ClassifiedTriple, ...]:
    """Return a verdict on each triple in ids, (n, 3), in order."""
    values = STATISTICS[thresholds.statistic](ensemble.rank_answers(Queries.from_triples(ids), progress=progress))
    entities, relations = ensemble.dataset.entities.labels, ensemble.dataset.relations.labels
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
        )
        for (head, relation, tail), value, known in zip(
            ids.tolist(), values.tolist(), ensemble.splits_of(ids), strict=True
        )
    )


def evaluate_classification(
    ensemble: "Ensemble", name: str, split: str, thresholds: Thresholds, *, seed: int, progress: Progress
) -> ClassificationEvaluation:
    """Classify the true and the false triples of a split; sampled negatives are no facts of any split."""
    dataset = ensemble.dataset
    if not len(dataset.splits[split]):
        raise InputError(f"there is nothing to evaluate: {split} of {dataset.name} has no triples")
    examples = Examples.of_split(dataset, split, filtered=SPLITS, seed=seed)
    ranked = ensemble.rank_answers(Queries.from_triples(examples.triples), progress=progress)
    relation = examples.triples[:, 1]
    found = STATISTICS[thresholds.statistic](ranked) >= thresholds.by_relation[relation]
    parts = {label: relation == number for number, label in enumerate(dataset.relations.labels)}
    return ClassificationEvaluation(
        name=name,
        dataset=(dataset.name, dataset.fingerprint),
        split=split,
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
