"""Thresholds that tell true triples from false ones: one per relation, with the best accuracy on validation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from relens import records
from relens.data.dataset import Dataset
from relens.data.known_answers import KnownAnswers
from relens.data.queries import HEAD, TAIL, Queries
from relens.prediction.answer_ranking import RankedAnswers
from relens.records import mapping, text
from relens.seeding import generator

Floats = npt.NDArray[np.float64]
Triples = npt.NDArray[np.integer[Any]]
"""Triples in ids, (n, 3)."""


def _score(found: RankedAnswers) -> Floats:
    scores: Floats = found.scores.reshape(-1, 2).mean(axis=1)
    return scores


def _log_rank(found: RankedAnswers) -> Floats:
    ranks: Floats = 0.0 - np.log(found.ranks.realistic).reshape(-1, 2).mean(axis=1)  # two first ranks give 0, not -0
    return ranks


STATISTICS: Mapping[str, Callable[[RankedAnswers], Floats]] = {"score": _score, "rank": _log_rank}
"""Values to compare with a threshold, from both queries of n triples: the mean of the scores of tail and head, or
minus the mean logarithm of their ranks; (n,), higher is more likely true."""


@dataclass(frozen=True, eq=False)
class Examples:
    """Triples that are known to be true or false.

    Attributes:
        triples: in ids, (n, 3).
        true: (n,) bool.
        protocol: where the false ones come from.
    """

    triples: Triples
    true: npt.NDArray[np.bool_]
    protocol: str

    @classmethod
    def of_split(cls, dataset: Dataset, split: str, *, filtered: Sequence[str], seed: int) -> "Examples":
        """Take the triples of a split with the given false ones, or with one sampled false triple for each.

        Args:
            dataset: the graph.
            split: the split.
            filtered: splits whose facts are never sampled as false.
            seed: seed of the sample.
        """
        true = dataset.splits[split]
        if split in dataset.negatives:
            false, protocol = dataset.negatives[split], "given negatives"
        else:
            known = KnownAnswers.build(
                [dataset.splits[name] for name in filtered], len(dataset.entities), len(dataset.relations)
            )
            false = hard_negatives(true, dataset.train, known, generator(seed, "hard negatives", split))
            protocol = f"sampled hard negatives, seed {seed}"
        triples = np.concatenate([true, false]).astype(np.int32)
        return cls(triples, np.arange(len(triples)) < len(true), protocol)


def hard_negatives(
    triples: Triples, train: Triples, known: KnownAnswers, rng: np.random.Generator
) -> npt.NDArray[np.int32]:
    """Corrupt the tail or the head of each of n triples; return up to n false ones, (m, 3).

    The new entity is one that train has with the relation on that side, and no known answer. If there is none, the
    other side is corrupted; then any entity is taken. A triple without a false one is left out.
    """
    queries = Queries.from_triples(triples)
    offsets, others = known.other_answers(queries)
    seen = {
        (relation, direction): np.unique(train[train[:, 1] == relation, 2 if direction == TAIL else 0])
        for relation in np.unique(triples[:, 1]).tolist()
        for direction in (TAIL, HEAD)
    }
    every = np.arange(known.n_entities)
    found = []
    for number, row in enumerate(triples.tolist()):
        first = int(rng.integers(2))
        for pool, direction in [(seen, first), (seen, 1 - first), (None, first), (None, 1 - first)]:
            at = 2 * number + direction
            among = every if pool is None else pool[row[1], direction]
            left = np.setdiff1d(among, np.append(others[offsets[at] : offsets[at + 1]], queries.answer[at]))
            if len(left):
                row[2 if direction == TAIL else 0] = int(rng.choice(left))
                found.append(row)
                break
    return np.array(found, dtype=np.int32).reshape(-1, 3)


@dataclass(frozen=True, eq=False)
class Thresholds:
    """The least value of a true triple, by relation.

    Attributes:
        statistic: the value that is compared, one of ``STATISTICS``.
        by_relation: (R,); ``fallback`` for relations without examples.
        own: which relations had examples, (R,) bool.
        fallback: the threshold of all other relations.
        protocol: where the false examples came from.
        tried: accuracy on validation of each statistic, thresholds fitted on the other half.
    """

    statistic: str
    by_relation: Floats
    own: npt.NDArray[np.bool_]
    fallback: float
    protocol: str
    tried: Mapping[str, float]

    @classmethod
    def fit(cls, examples: Examples, found: RankedAnswers, n_relations: int, seed: int) -> "Thresholds":
        """Fit thresholds to examples, ``found`` being the ranked answers to both queries of each.

        The statistic is the one with the best accuracy in two halves of the examples, each judged by thresholds of the
        other; the first one of equals wins.
        """
        relation, true = examples.triples[:, 1], examples.true
        half = generator(seed, "halves of validation").permutation(len(true)) % 2
        tried = {}
        for name, statistic in STATISTICS.items():
            values, right = statistic(found), 0
            for part in (0, 1):
                fitted, judged = half == part, half != part
                if fitted.any():
                    by_relation, _, _ = fit_thresholds(values[fitted], true[fitted], relation[fitted], n_relations)
                    right += int(((values >= by_relation[relation]) == true)[judged].sum())
            tried[name] = right / len(true)
        best = max(tried, key=lambda name: tried[name])
        by_relation, own, fallback = fit_thresholds(STATISTICS[best](found), true, relation, n_relations)
        return cls(best, by_relation, own, fallback, examples.protocol, tried)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "statistic": self.statistic,
            "protocol": self.protocol,
            "tried": dict(self.tried),
            "fallback": self.fallback,
            "by_relation": self.by_relation.tolist(),
            "own": self.own.tolist(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], n_relations: int) -> "Thresholds":
        """Rebuild from the result of ``to_json`` for a graph with R relations."""
        by_relation = np.array([records.number(one) for one in value["by_relation"]], dtype=np.float64)
        own = np.array([{True: True, False: False}[one] for one in value["own"]], dtype=bool)
        if value["statistic"] not in STATISTICS or {len(by_relation), len(own)} != {n_relations}:
            raise ValueError(f"found {value['statistic']!r} of {len(by_relation)} relations, expected {n_relations}")
        tried = {name: float(records.number(accuracy)) for name, accuracy in mapping(value["tried"]).items()}
        protocol, fallback = text(value["protocol"]), float(records.number(value["fallback"]))
        return cls(value["statistic"], by_relation, own, fallback, protocol, tried)


def fit_thresholds(
    values: Floats, true: npt.NDArray[np.bool_], relation: npt.NDArray[np.integer[Any]], n_relations: int
) -> tuple[Floats, npt.NDArray[np.bool_], float]:
    """Return a threshold for each relation, (R,), which of them are its own, (R,), and the one of all examples.

    Args:
        values: the n examples' values.
        true: which of them are true.
        relation: their relations.
        n_relations: R.
    """
    fallback = best_threshold(values, true, float(np.median(values)))
    by_relation, own = np.full(n_relations, fallback), np.zeros(n_relations, dtype=bool)
    for number in np.unique(relation).tolist():
        mine = relation == number
        by_relation[number], own[number] = best_threshold(values[mine], true[mine], fallback), True
    return by_relation, own, fallback


def best_threshold(values: Floats, true: npt.NDArray[np.bool_], near: float) -> float:
    """Return the threshold with the best accuracy: values that reach it count as true.

    Of all such thresholds it is the one closest to ``near``, if that lies between two values, and otherwise the middle
    between two values that are next to each other.
    """
    cuts, place = np.unique(values, return_inverse=True)
    gain = np.bincount(place, weights=np.where(true, 1.0, -1.0), minlength=len(cuts))
    right = np.append(np.cumsum(gain[::-1])[::-1], 0.0)  # true minus false examples from each cut on
    best = np.flatnonzero(right == right.max())
    low, high = np.append(-np.inf, cuts)[best], np.append(cuts, np.inf)[best]
    with np.errstate(invalid="ignore"):
        middle = low + (high - low) / 2
    middle = np.where(np.isneginf(low), high, np.where(np.isposinf(high), np.nextafter(low, np.inf), middle))
    middle = np.where(middle > low, middle, high)
    candidates = np.where((low < near) & (near <= high), near, middle)
    return float(candidates[np.argmin(np.abs(candidates - near))])
