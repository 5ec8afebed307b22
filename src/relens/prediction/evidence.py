"""Evidence: what the members' scores say about a candidate, as a few numbers for the probability that it is true."""

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset
from relens.prediction.candidate_ranking import CandidateRanking

FEATURES = ("place", "lead", "agreement", "height", "margin", "known")
"""The numbers of a candidate, each better if higher, in the order of every F axis; see ``evidence_of``."""

SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")
AHEAD = 10
"""The lead of a candidate is over the mean of this many others: the best possible ones."""


class Candidates(NamedTuple):
    """The candidates of one query, with the scores of the n models that vote.

    Attributes:
        scores: higher is better, (n, E) float32.
        weights: weight of each model, (n,).
        cost: what the ensemble orders them by; less is better, (E,).
        possible: which entities take a place, (E,) bool.
        known: ids of the known answers to compare with, (m,).
    """

    scores: npt.NDArray[np.float32]
    weights: npt.NDArray[np.int64]
    cost: npt.NDArray[np.generic]
    possible: npt.NDArray[np.bool_]
    known: npt.NDArray[np.int64]

    @classmethod
    def of(cls, ranking: CandidateRanking, anchor: int | None, known: npt.NDArray[np.int64]) -> "Candidates":
        """Take the candidates of a ranking; the ``anchor`` takes no place unless it is None."""
        possible = ~ranking.known
        if anchor is not None:
            possible[anchor] = False
        return cls(ranking.scores, ranking.weights, ranking.cost, possible, known)


class Evidence(NamedTuple):
    """The evidence on k candidates of one query.

    Attributes:
        places: the place of each among the possible candidates and itself, from 1; ties share the mean, (k,) float64.
        features: the numbers named by ``FEATURES``, (k, F) float64; margin and known are 0 without known answers.
    """

    places: npt.NDArray[np.float64]
    features: npt.NDArray[np.float64]


def evidence_of(asked: Candidates, entities: npt.NDArray[np.int64], scales: npt.NDArray[np.float64]) -> Evidence:
    """Return the evidence on some entities of a query.

    The mean score of an entity is the weighted mean of its scores in units of ``scales``. The features are: ``place``,
    minus the logarithm of the place; ``lead``, the mean score minus that of the best other possible candidates;
    ``agreement``, minus the weighted mean logarithm of the models' places; ``height``, the mean score; ``margin``, the
    mean score minus that of the known answers; ``known``, minus the logarithm of one more than their number.
    ``in_usual_units`` makes heights and margins of different groups comparable.

    Args:
        asked: the candidates of the query.
        entities: the ids to judge, (k,).
        scales: the unit of each model's scores, (n,).
    """
    mean = mean_score(asked.scores, asked.weights, scales)
    possible = np.flatnonzero(asked.possible)
    places = _places(asked.cost[entities], asked.cost[possible], asked.possible[entities])
    voting = np.flatnonzero(asked.weights)
    by_model = [
        _places(-asked.scores[i, entities], -asked.scores[i, possible], asked.possible[entities]) for i in voting
    ]
    shares = asked.weights[voting] / asked.weights.sum()
    features = np.zeros((len(entities), len(FEATURES)))
    features[:, 0] = -np.log(places)
    features[:, 1] = mean[entities] - _best_others(asked, mean, possible, entities)
    features[:, 2] = -shares @ np.log(by_model)
    features[:, 3] = mean[entities]
    if len(asked.known):
        features[:, 4] = mean[entities] - mean[asked.known].mean()
        features[:, 5] = -np.log1p(len(asked.known))
    return Evidence(places, features)


def in_usual_units(features: npt.NDArray[np.float64], usual: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return features (k, F) with heights above the usual mean, and with heights and margins in usual deviations.

    ``usual`` has the mean and standard deviation of the mean score of known answers in the group of each, (k, 2).
    """
    found = features.copy()
    found[:, 3] -= usual[:, 0]
    found[:, 3:5] /= usual[:, 1:]
    return found


def mean_score(
    scores: npt.NDArray[np.float32], weights: npt.NDArray[np.int64], scales: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the weighted mean of scores (n, E) in units of ``scales`` (n,), as (E,)."""
    found: npt.NDArray[np.float64] = (weights / weights.sum() / scales) @ scores.astype(np.float64)
    return found


def self_related(dataset: Dataset) -> npt.NDArray[np.bool_]:
    """Say of each relation whether train relates an entity to itself, (R,); if not, no anchor is its own answer."""
    loops = dataset.train[dataset.train[:, 0] == dataset.train[:, 2], 1]
    found: npt.NDArray[np.bool_] = np.bincount(loops, minlength=len(dataset.relations)) > 0
    return found


def _places(
    own: npt.NDArray[np.generic], rivals: npt.NDArray[np.generic], among: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Return the place of k costs among c rivals and themselves, (k,); ``among`` says which are rivals themselves."""
    ordered = np.sort(rivals)
    ahead, behind = (np.searchsorted(ordered, own, side=side) for side in SIDES)
    found: npt.NDArray[np.float64] = 1 + ahead + (behind - ahead - among) / 2
    return found


def _best_others(
    asked: Candidates,
    mean: npt.NDArray[np.float64],
    possible: npt.NDArray[np.int64],
    entities: npt.NDArray[np.int64],
) -> npt.NDArray[np.float64]:
    """Return the mean score of the ``AHEAD`` possible candidates of least cost other than each of k entities, (k,).

    An entity without others gets its own.
    """
    first = possible[np.argsort(asked.cost[possible], kind="stable")[: AHEAD + 1]]
    inside = np.isin(entities, first)
    others = np.where(inside, len(first) - 1, min(AHEAD, len(first)))
    total = np.where(inside, mean[first].sum() - mean[entities], mean[first[:AHEAD]].sum())
    found: npt.NDArray[np.float64] = np.where(others > 0, total / np.maximum(1, others), mean[entities])
    return found
