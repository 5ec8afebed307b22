"""Scores of different relations between two entities, made comparable.

The models were trained to compare entities: what one relation scores says little beside the scores of another. A scale
compares the score of (h, r, t) with the scores that r gives to other linked pairs of entities. The scale in ``SCALES``,
with a weight for the frequency of relations, that has the best MRR on validation is used.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from relens import records
from relens.checksums import file_checksum, verify_file
from relens.data.dataset import Dataset
from relens.data.queries import Queries
from relens.ensemble.weights import EnsembleWeights
from relens.files import open_npy
from relens.prediction.members import LoadedModels
from relens.progress import Progress
from relens.ranking.answer_ranks import AnswerRanks
from relens.records import RELATION_SCALE, text, whole
from relens.seeding import generator

PAIRS = 128
"""Linked pairs of train that the scores of a relation are compared with."""
SCORED = 2**17
"""Scores per model that the choice of the scale takes on validation, about."""
LEAST_VALID = 200
"""Validation triples that the scale is chosen on, if there are so many."""
PRIORS = (0.0, 0.1, 0.3, 1.0, 3.0)
"""Weights of the logarithm of a relation's share of train that are tried."""

OTHERS = "others.npy"
"""The file of the scores of other pairs, beside the record of a scale."""

Floats = npt.NDArray[np.float64]
Pairs = npt.NDArray[np.integer[Any]]
"""Heads and tails, (p, 2)."""


def _raw(scores: Floats, others: Floats) -> Floats:
    scaled: Floats = scores / _spread(others.reshape(len(others), -1))[:, None, None, None]
    return scaled


def _standardised(scores: Floats, others: Floats) -> Floats:
    scaled: Floats = (scores - others.mean(axis=1, keepdims=True)) / _spread(np.moveaxis(others, 1, -1))[:, None]
    return scaled


def _ranked(scores: Floats, others: Floats) -> Floats:
    """Return minus the logarithm of the doubled mean rank of each score beside the p scores of other pairs."""
    found = np.empty_like(scores)
    for place in np.ndindex(scores.shape[0], *scores.shape[2:]):
        model, relation, direction = place
        ordered, mine = np.sort(others[model, :, relation, direction]), scores[model, :, relation, direction]
        ahead = len(ordered) - np.searchsorted(ordered, mine, side="right")
        tied = np.searchsorted(ordered, mine, side="right") - np.searchsorted(ordered, mine, side="left")
        found[model, :, relation, direction] = -np.log(2 * ahead + tied + 2)
    return found


def _spread(values: Floats) -> Floats:
    """Return the standard deviation along the last axis; 1 where all values are equal."""
    spread: Floats = values.std(axis=-1)
    return np.where(spread > 0, spread, 1.0)


SCALES: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "raw": _raw,
    "standardised": _standardised,
    "rank": _ranked,
}
"""Functions of the models' scores (N, q, R, 2) and their scores of other pairs (N, p, R, 2): (N, q, R, 2), higher is
better. ``raw`` divides by the spread of each model alone, ``standardised`` takes mean and spread of each relation and
direction, ``rank`` the logarithm of the rank among the other pairs."""


@dataclass(frozen=True, eq=False)
class RelationScale:
    """How scores of relations are made comparable.

    Attributes:
        name: one of ``SCALES``.
        prior: weight of the logarithm of a relation's share of train.
        others: scores of other linked pairs, (N, p, R, 2).
        tried: MRR on validation of everything that was tried, by name and prior.
        triples: validation triples that it was chosen on.
    """

    name: str
    prior: float
    others: Floats
    tried: Mapping[tuple[str, float], float]
    triples: int

    def describe(self) -> str:
        """Return the scale in words."""
        return f"{self.name}, prior {self.prior:g}"

    def write(self, folder: Path) -> dict[str, Any]:
        """Write the scores of other pairs, which models gave in float32, into a folder; return the rest as JSON."""
        np.save(folder / OTHERS, self.others.astype(np.float32), allow_pickle=False)
        return {
            "name": self.name,
            "prior": self.prior,
            "tried": [[name, prior, mrr] for (name, prior), mrr in self.tried.items()],
            "triples": self.triples,
            "others": file_checksum(folder / OTHERS),
        }

    @classmethod
    def read(cls, folder: Path, value: Mapping[str, Any], n_models: int, n_relations: int) -> Self:
        """Rebuild from the result of ``write`` for N models with a weight and R relations."""
        verify_file(folder / OTHERS, text(value["others"]), RELATION_SCALE.remedy)
        others = np.array(open_npy(folder / OTHERS), dtype=np.float64)
        shape = n_models, others.shape[1] if others.ndim > 1 else 0, n_relations, 2
        if value["name"] not in SCALES or others.shape != shape or not np.isfinite(others).all():
            raise ValueError(f"found {value['name']!r} and scores of the shape {others.shape}, expected {shape}")
        tried = {
            (text(name), float(records.number(prior))): float(records.number(mrr))
            for name, prior, mrr in value["tried"]
        }
        return cls(value["name"], float(records.number(value["prior"])), others, tried, whole(value["triples"]))


class RelationRanker:
    """The models and weights of an ensemble, ready to rank the R relations between two entities.

    Args:
        models: the models.
        weights: their weights.
        groups: the group of each relation and direction, (R, 2).
        dataset: the graph; its test split is not read.
    """

    def __init__(
        self, models: LoadedModels, weights: EnsembleWeights, groups: npt.NDArray[np.int32], dataset: Dataset
    ) -> None:
        self._models, self._dataset = models, dataset
        used = weights.table.max(axis=0) > 0
        self.names = tuple(np.array(weights.models)[used].tolist())
        shares = weights.normalised()[:, used][groups]  # (R, 2, n)
        self.shares: Floats = np.moveaxis(shares, -1, 0) / 2
        """Weight of each model for each relation and direction, (n, R, 2); those of a relation sum to 1."""
        counts = np.bincount(dataset.train[:, 1], minlength=len(dataset.relations)) + 1
        self._log_share: Floats = np.log(counts / counts.sum())

    def choose_scale(self, progress: Progress) -> RelationScale:
        """Return the scale with the best MRR on validation; without validation triples, ``standardised``.

        Known relations of train and valid are removed there. The first one of equals wins.
        """
        train, valid = self._dataset.train, self._dataset.valid
        rng = generator(0, "relation scale")
        others = rng.permutation(np.unique(train[:, [0, 2]], axis=0))[:PAIRS]
        most = max(LEAST_VALID, SCORED // (2 * len(self._dataset.relations)))
        asked = valid[np.sort(rng.permutation(len(valid))[:most])]
        scores_of_others = self._scores(others, progress)
        if not len(asked):
            return RelationScale("standardised", 0.0, scores_of_others, {}, 0)
        scores = self._scores(asked[:, [0, 2]], progress)
        known = known_relations(asked, [train, valid], len(self._dataset.relations))
        tried = {}
        for name, scaled in SCALES.items():
            mean = self._mean(scaled(scores, scores_of_others))
            for prior in PRIORS:
                ranks = relation_ranks(mean + prior * self._log_share, asked[:, 1], known)
                tried[name, prior] = float(np.mean(1 / ranks.realistic))
        best = max(tried, key=lambda one: tried[one])
        return RelationScale(*best, scores_of_others, tried, len(asked))

    def rank(self, pairs: Pairs, scale: RelationScale, progress: Progress) -> tuple[Floats, Floats]:
        """Return the scores of all relations between q pairs, (q, R), and those of each model, (n, q, R)."""
        scaled = SCALES[scale.name](self._scores(pairs, progress), scale.others)
        return self._mean(scaled) + scale.prior * self._log_share, scaled.mean(axis=3)

    def _mean(self, scaled: Floats) -> Floats:
        """Return the weighted mean over models and directions of (n, q, R, 2), as (q, R)."""
        mean = np.zeros(scaled.shape[1:3])
        for scores, shares in zip(scaled, self.shares, strict=True):  # in one order: sums do not depend on q
            mean += scores[..., 0] * shares[:, 0] + scores[..., 1] * shares[:, 1]
        return mean

    def _scores(self, pairs: Pairs, progress: Progress) -> Floats:
        """Return the models' scores of all relations between q pairs in both directions, (n, q, R, 2)."""
        n_relations = len(self._dataset.relations)
        relation = np.tile(np.arange(n_relations), len(pairs))
        head, tail = np.repeat(pairs, n_relations, axis=0).T
        queries = Queries.from_triples(np.column_stack([head, relation, tail]))
        with progress.task("scoring relations", len(queries) * len(self.names)) as advance:
            scores = []
            for name in self.names:
                scores.append(self._models.answer_scores(name, queries, advance).astype(np.float64))
        return np.stack(scores).reshape(len(scores), len(pairs), n_relations, 2)


def known_relations(
    asked: npt.NDArray[np.integer[Any]], splits: Sequence[npt.NDArray[np.integer[Any]]], n_relations: int
) -> npt.NDArray[np.bool_]:
    """Return which relations hold between the heads and tails of q triples (q, 3) in some splits, (q, R)."""
    wanted: dict[tuple[int, int], list[int]] = {}
    for number, (head, _, tail) in enumerate(asked.tolist()):
        wanted.setdefault((head, tail), []).append(number)
    known = np.zeros((len(asked), n_relations), dtype=bool)
    for triples in splits:
        for head, relation, tail in triples.tolist():
            known[wanted.get((head, tail), []), relation] = True
    return known


def relation_ranks(scores: Floats, relation: npt.NDArray[np.integer[Any]], known: npt.NDArray[np.bool_]) -> AnswerRanks:
    """Rank the relation of each of q pairs by scores (q, R), other ``known`` (q, R) relations removed."""
    own = np.take_along_axis(scores, relation[:, None], axis=1)
    rivals = ~known
    np.put_along_axis(rivals, relation[:, None], False, axis=1)
    return AnswerRanks(((scores > own) & rivals).sum(axis=1), ((scores == own) & rivals).sum(axis=1))
