"""Rank the candidates of one query under the weights of its group, by the rules of the evaluation.

The candidates are the entities that are not known answers. A known answer is ranked as the answer of an evaluated
query: among the candidates and itself, without the other known answers. So known answers never change the rank of
another entity, and each has the rank that the evaluation gives it.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from relens.ensemble.inputs.base import Input
from relens.ensemble.inputs.rank import RANK
from relens.packs.packing import MAX_GAP, scale_gaps
from relens.prediction import ranking_kernels as kernels
from relens.ranking.answer_ranks import doubled_rank, doubled_ranks


class Place(NamedTuple):
    """The number of candidates strictly ahead of an entity, and of others level with it."""

    ahead: int
    tied: int

    @property
    def doubled(self) -> int:
        """Twice the mean rank of the tied block."""
        return int(doubled_rank(self.ahead, self.tied + 1))

    @property
    def rank(self) -> float:
        """The mean rank of the tied block."""
        return self.doubled / 2


class Newcomers(NamedTuple):
    """Entities that only some models can score.

    Attributes:
        mask: which entities, (E,) bool.
        weights: grid weights of the models for them, (n,) int64; 0 for models that abstain.
    """

    mask: npt.NDArray[np.bool_]
    weights: npt.NDArray[np.int64]


class CandidateRanking:
    """The ranks of E entities in one query, by n models.

    A model may abstain on newcomers: it does not rank them, and its weight goes to the models that do. Costs are
    weighted means then, of fewer models for newcomers. Twice a cost is compared, and a fraction counts as one half:
    whole numbers, as if the fractions were compared.

    Args:
        scores: higher is better, (n, E) float32 or float64; NaN where a model abstains.
        known: ids of the known answers, (m,).
        weights: grid weights, (n,) int64; 0 for a model that votes on newcomers only.
        input: what the weights are applied to.
        gap_scales: raw score difference of one unit of a gap, (n,); for an input of score gaps.
        newcomers: entities that some models abstain on, if there are any.
        allowed: the entities that may answer, (E,) bool; None for all. Others are ranked as known answers are.
    """

    def __init__(
        self,
        scores: npt.NDArray[Any],
        known: npt.NDArray[np.integer[Any]],
        weights: npt.NDArray[np.int64],
        input: Input = RANK,
        gap_scales: npt.NDArray[np.float64] | None = None,
        newcomers: Newcomers | None = None,
        allowed: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        scores = np.ascontiguousarray(scores)
        self.scores, self.weights, self.input, self.newcomers = scores, weights, input, newcomers
        self.known = np.zeros(scores.shape[1], dtype=bool)
        self.known[known] = True
        self.shown = self.known.copy()  # the known answers that a list may have
        if allowed is not None:
            self.shown &= allowed
            self.known |= ~allowed
        self.votes = ~np.isnan(scores)
        self.gap_scales = np.ones(len(weights)) if gap_scales is None else gap_scales
        self.doubled = self._doubled_ranks()
        self.table = input.cost_table(scores.shape[1])
        if newcomers is not None:
            # Different sums of newcomers must differ by one or more when they are scaled to all weights.
            self.weights = weights * max(1, -(-int(newcomers.weights.sum()) // int(weights.sum())))
            self.scores = scores if self.table is not None else self._filled(newcomers)
        self.cost = self._cost()

    @property
    def n_candidates(self) -> int:
        """The number of entities that compete: allowed ones, without the known answers."""
        return int(np.sum(~self.known))

    def best(self, top: int, *, with_known: bool, without: int | None = None) -> list[tuple[int, Place]]:
        """Return the ids and places of the best ``top`` candidates, and with ``with_known`` of as many known answers.

        They come in one list, best first. Among equal ranks the smaller sum comes first, then the smaller id. The
        candidate ``without`` is left out of the list, but not of the ranks.
        """
        new = ~self.known
        if without is not None:
            new[without] = False
        if self.table is None:
            beaten = np.zeros(len(self.known), dtype=np.int64)
            placed = self._first_by_gaps(new, top, beaten)
            placed += self._first_by_gaps(self.shown, top, beaten) if with_known else []
        else:
            placed = self._placed(_smallest(self.cost, new, top))
            placed += self._first_known(top) if with_known else []
        placed.sort(key=self._order)
        return [(entity, place) for place, entity in placed]

    def place(self, entity: int) -> Place:
        """Return the place of an entity among the candidates and itself, without the other known answers."""
        own = self.cost[entity]  # kernels do not check ids
        if self.table is None:
            return self._behind(kernels.lead(self.scores, self.gap_scales, self.weights, entity), entity)
        if self.newcomers is None:
            columns = self.scores, self.doubled, self.known, self.weights, self.table, self.cost
            return Place(*kernels.place_by_cost(*columns, entity))
        rivals = ~self.known
        rivals[entity] = False
        # One more candidate never improves a rank: an entity that is behind without it stays behind.
        rivals &= self.cost <= own
        cost = self._cost_beside(entity, rivals) if self.known[entity] else self.cost[rivals]
        return Place(int(np.sum(cost < own)), int(np.sum(cost == own)))

    def place_without(self, other: int | None, entity: int, place: Place) -> Place:
        """Return the place of a candidate, given its place among all of them, if the candidate ``other`` takes none."""
        if other is None or other == entity:
            return place
        if self.table is None:
            gaps = scale_gaps(self.scores[:, [other]], self.scores[:, [entity]], self.gap_scales)
            lead = int(self.weights @ gaps[:, 0].astype(np.int64))
        else:
            lead = int(self.cost[entity]) - int(self.cost[other])
        return Place(place.ahead - (lead > 0), place.tied - (lead == 0))

    def model_ranks(self, entity: int) -> list[float | None]:
        """Return the rank of an entity by each model, without the other known answers, n numbers; None: it abstains."""
        ranks = zip(self.doubled[:, entity].tolist(), self.votes[:, entity].tolist(), strict=True)
        return [doubled / 2 if votes else None for doubled, votes in ranks]

    def score(self, entity: int) -> float:
        """Return the weighted mean of the input; higher is better.

        For ``rank`` it is minus the mean rank. For a transform it runs from 0 (best) to -1. For ``score`` its unit is a
        model's mean score gap on validation.
        """
        if self.table is None:
            return float(score_of(float(self.cost[entity]), self.weights, self.input))
        weights = self.weights
        if self.newcomers is not None and self.newcomers.mask[entity]:
            weights = self.newcomers.weights
        cost = int(weights @ self.table[self.doubled[:, entity]].astype(np.int64))
        return float(score_of(cost, weights, self.input))

    def _doubled_ranks(self) -> npt.NDArray[np.int32]:
        """Return the doubled mean rank of each entity by each model, (n, E)."""
        if self.scores.dtype != np.float32:  # scorers of others may return more digits, which kernels do not sort
            rows = zip(self.scores, ~self.known & self.votes, strict=True)
            return np.stack([doubled_ranks(*row) for row in rows]).astype(np.int32)
        found = np.empty(self.scores.shape, dtype=np.int32)
        kernels.rank_rows(self.scores, ~self.known, found)
        return found

    def _placed(self, ids: npt.NDArray[np.int64]) -> list[tuple[Place, int]]:
        return [(self.place(entity), entity) for entity in ids.tolist()]

    def _first_known(self, top: int) -> list[tuple[Place, int]]:
        """Return the ``top`` of the known answers by their ranks, where costs order the candidates.

        The answer that may have the best rank is placed next, until no other one can be better than those found.
        """
        ids = _smallest(self.cost, self.shown, len(self.shown))
        if len(ids) <= top:
            return sorted(self._placed(ids), key=self._order)
        least = doubled_rank(0, 1) + self._certainly_ahead(ids)  # the best doubled rank that each may have
        found: list[tuple[Place, int]] = []
        # Costs rise, and with them the least ranks.
        for at, entity in enumerate(ids.tolist()):
            if len(found) >= top and (least[at], self.cost[entity], entity) > self._order(found[top - 1]):
                break
            found = sorted([*found, (self.place(entity), entity)], key=self._order)[:top]
        return found

    def _first_by_gaps(
        self, among: npt.NDArray[np.bool_], top: int, beaten: npt.NDArray[np.int64]
    ) -> list[tuple[Place, int]]:
        """Return the ``top`` of some entities (E,) by their ranks, where no sum orders them."""
        ids = _smallest(self.cost, among, len(among))
        columns = self.scores, self.gap_scales, self.weights, self.known, self.cost
        found = kernels.first_by_gaps(*columns, ids, self._certainly_ahead(ids), beaten, top)
        return [(Place(ahead, tied), entity) for ahead, tied, entity in found.tolist()]

    def _order(self, placed: tuple[Place, int]) -> tuple[int, float, int]:
        """Return the key that lists are sorted by: the doubled rank, the sum, the id."""
        place, entity = placed
        return place.doubled, self.cost[entity], entity

    def _certainly_ahead(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return twice the number of candidates that are certainly ahead of each of k entities, (k,)."""
        sure, worst = self._bounds
        return 2 * np.searchsorted(worst, self.cost[ids], side="left") * sure[ids]

    @cached_property
    def _bounds(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[Any]]:
        """Return whose costs say who is ahead, (E,) bool, and the most that the costs of these may be, sorted."""
        if self.table is not None:
            # A known answer that joins the candidates adds 2 to their doubled ranks at most.
            worst = self._weighed(self.doubled[:, ~self.known] + 2, ~self.known)
            return np.ones(len(self.known), dtype=bool), np.sort(worst)
        units = self.scores / self.gap_scales[:, None]
        # No gap within this window is clipped, and rounding moves it by one unit at most.
        window, sure = MAX_GAP // 2, np.ones(len(self.known), dtype=bool)
        if np.any(units.max(axis=1) - units.min(axis=1) >= window):
            sure = np.all(np.abs(units - np.median(units, axis=1, keepdims=True)) < window, axis=0)
        slack = self.weights.sum() + 1e-12 * np.max(self.weights @ np.abs(units))
        return sure, np.sort(self.cost[sure & ~self.known] + slack)

    def _behind(self, lead: npt.NDArray[np.int64], entity: int) -> Place:
        """Count the candidates other than an entity by their lead over it, (E,)."""
        theirs = lead[~self.known]
        return Place(int(np.sum(theirs > 0)), int(np.sum(theirs == 0)) - int(not self.known[entity]))

    def _cost(self) -> npt.NDArray[Any]:
        """Return the cost of each entity, (E,); less is better. Costs are whole numbers unless scores are weighed."""
        if self.table is None:
            cost: npt.NDArray[np.float64] = kernels.sum_scores(self.scores, self.weights / self.gap_scales)
            return cost
        return self._weighed(self.doubled, np.ones_like(self.known))

    def _cost_beside(self, entity: int, rivals: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Return the costs of some candidates beside a known answer, which joins them."""
        own, theirs = self.scores[:, [entity]], self.scores[:, rivals]
        joined = (doubled_rank(own > theirs, own == theirs) - doubled_rank(0, 0)).astype(np.int32)
        return self._weighed(self.doubled[:, rivals] + joined, rivals)

    def _weighed(self, doubled: npt.NDArray[np.int32], chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Return the costs of the k ``chosen`` (E,) entities with doubled ranks (n, k)."""
        assert self.table is not None
        if self.newcomers is None:
            cost: npt.NDArray[np.int64] = kernels.weigh(doubled, self.weights, self.table)
            return cost
        of_models = self.table[doubled].astype(np.int64)
        costs: npt.NDArray[np.int64] = 2 * (self.weights @ of_models)
        new = self.newcomers.mask[chosen]
        all_, voting = int(self.weights.sum()), int(self.newcomers.weights.sum())
        scaled = (divmod(cost * all_, voting) for cost in (self.newcomers.weights @ of_models[:, new]).tolist())
        costs[new] = [2 * whole + (rest > 0) for whole, rest in scaled]  # in Python's integers: products are large
        return costs

    def _filled(self, newcomers: Newcomers) -> npt.NDArray[Any]:
        """Return the scores with those of abstaining models filled in, (n, E): as far above the median as others say.

        The distance from the median of the other entities, in gaps, is the weighted mean over the models that vote.
        """
        voting = newcomers.weights > 0
        medians = np.median(self.scores[:, ~newcomers.mask].astype(np.float64), axis=1, keepdims=True)
        scales = self.gap_scales[:, None]
        gaps = ((self.scores - medians) / scales)[voting]
        mean = newcomers.weights[voting] @ gaps / newcomers.weights.sum()
        return np.where(self.votes, self.scores, (medians + scales * mean).astype(np.float32))


def score_of(cost: Any, weights: npt.NDArray[np.int64], input: Input) -> Any:
    """Return the score that people see of a cost, or of several: the weighted mean of the input, higher is better."""
    return -cost / input.unit / weights.sum(axis=0)


def _smallest(cost: npt.NDArray[Any], among: npt.NDArray[np.bool_], count: int) -> npt.NDArray[np.int64]:
    """Return the positions of the ``count`` smallest costs among some, in order; the first of equal ones wins."""
    positions = np.flatnonzero(among)
    if len(positions) > count:
        limit = np.partition(cost[positions], count - 1)[count - 1]
        positions = positions[cost[positions] <= limit]
    return positions[np.argsort(cost[positions], kind="stable")][:count]
