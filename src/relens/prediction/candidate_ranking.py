"""Rank the candidates of one query under the weights of its group, by the rules of the evaluation.

The candidates are the entities that are not known answers. A known answer is ranked as the answer of an evaluated
query: among the candidates and itself, without the other known answers. So known answers never change the rank of
another entity, and each has the rank that the evaluation gives it.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from relens.ensemble.inputs import ADVANTAGE_LIMIT, Input, cost_table
from relens.packs.packing import MAX_GAP, UNITS_PER_MEAN_GAP, scale_gaps
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


class CandidateRanking:
    """The ranks of E entities in one query, by n models with a weight.

    Args:
        scores: higher is better, (n, E) float32.
        known: ids of the known answers, (m,).
        weights: grid weights above 0, (n,) int64.
        input: the input that the weights are applied to.
        gap_scales: raw score difference of one unit of a gap, (n,); for input ``score``.
    """

    def __init__(
        self,
        scores: npt.NDArray[np.float32],
        known: npt.NDArray[np.integer[Any]],
        weights: npt.NDArray[np.int64],
        input: Input = "rank",
        gap_scales: npt.NDArray[np.float64] | None = None,
    ) -> None:
        self.scores, self.weights, self.input = scores, weights, input
        self.known = np.zeros(scores.shape[1], dtype=bool)
        self.known[known] = True
        self.gap_scales = np.ones(len(weights)) if gap_scales is None else gap_scales
        self.doubled = np.stack([doubled_ranks(row, ~self.known) for row in scores])  # (n, E)
        self.table = None if input == "score" else cost_table(input, scores.shape[1])
        self.cost = self._cost()

    @property
    def n_candidates(self) -> int:
        """The number of entities that are ranked, without the known answers."""
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
            placed = self._first(new, top, beaten)
            placed += self._first(self.known, top, beaten) if with_known else []
        else:
            placed = [(self.place(entity), entity) for entity in _smallest(self.cost, new, top).tolist()]
            placed += self._first(self.known, top) if with_known else []
        placed.sort(key=self._order)
        return [(entity, place) for place, entity in placed]

    def place(self, entity: int) -> Place:
        """Return the place of an entity among the candidates and itself, without the other known answers."""
        if self.table is None:
            return self._behind(self._lead(entity), entity)
        rivals, own = ~self.known, self.cost[entity]
        rivals[entity] = False
        # One more candidate never improves a rank: an entity that is behind without it stays behind.
        rivals &= self.cost <= own
        cost = self._cost_beside(entity, rivals) if self.known[entity] else self.cost[rivals]
        return Place(int(np.sum(cost < own)), int(np.sum(cost == own)))

    def model_ranks(self, entity: int) -> list[float]:
        """Return the rank of an entity by each model, without the other known answers, n numbers."""
        ranks: list[float] = (self.doubled[:, entity] / 2).tolist()
        return ranks

    def score(self, entity: int) -> float:
        """Return the weighted mean of the input; higher is better.

        For ``rank`` it is minus the mean rank. For a transform it runs from 0 (best) to -1. For ``score`` its unit is a
        model's mean score gap on validation.
        """
        unit = {"rank": 2, "score": UNITS_PER_MEAN_GAP}.get(self.input, ADVANTAGE_LIMIT)
        return -float(self.cost[entity]) / unit / int(self.weights.sum())

    def _first(
        self, among: npt.NDArray[np.bool_], top: int, beaten: npt.NDArray[np.int64] | None = None
    ) -> list[tuple[Place, int]]:
        """Return the ``top`` of some entities by their ranks, where no sum orders them.

        The entity that may have the best rank is placed next, until no other one can be better than those found.

        Args:
            among: the entities to choose from, (E,) bool.
            top: how many to choose.
            beaten: twice the number of placed candidates ahead of each entity, plus those level with it, (E,); updated
                in place.
        """
        ids = _smallest(self.cost, among, len(among))
        certain, scores = self._certainly_ahead(ids), self.scores[:, ids]
        waiting = np.ones(len(ids), dtype=bool)
        found: list[tuple[Place, int]] = []
        while waiting.any():
            # The best doubled rank that each entity may have.
            least = doubled_rank(0, 1) + (certain if beaten is None else np.maximum(certain, beaten[ids]))
            at = int(np.argmin(np.where(waiting, least, np.iinfo(np.int64).max)))
            entity = int(ids[at])
            if len(found) >= top and (least[at], self.cost[entity], entity) > self._order(found[top - 1]):
                break
            alike = waiting & np.all(scores == self.scores[:, [entity]], axis=0)
            waiting &= ~alike
            if beaten is None:
                place = self.place(entity)
            else:
                lead = self._lead(entity)
                place = self._behind(lead, entity)
                if not self.known[entity]:
                    beaten += alike.sum() * (2 * (lead < 0) + (lead == 0))
            found += [(place, same) for same in ids[alike][:top].tolist()]
            found.sort(key=self._order)
        return found[:top]

    def _order(self, placed: tuple[Place, int]) -> tuple[int, float, int]:
        """Return the key that lists are sorted by: the doubled rank, the sum, the id."""
        place, entity = placed
        return place.doubled, self.cost[entity], entity

    def _certainly_ahead(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return twice the number of candidates that are certainly ahead of each of k entities, (k,)."""
        sure = np.ones(len(self.known), dtype=bool)
        if self.table is None:
            units = self.scores / self.gap_scales[:, None]
            # No gap within this window is clipped, and rounding moves it by one unit at most.
            sure = np.all(np.abs(units - np.median(units, axis=1, keepdims=True)) < MAX_GAP // 2, axis=0)
            slack = self.weights.sum() + 1e-12 * np.max(self.weights @ np.abs(units))
            worst = self.cost[sure & ~self.known] + slack
        else:
            worst = self._weighed(self.doubled[:, ~self.known] + 2 * bool(self.known.any()))
        return 2 * np.searchsorted(np.sort(worst), self.cost[ids], side="left") * sure[ids]

    def _behind(self, lead: npt.NDArray[np.int64], entity: int) -> Place:
        """Count the candidates other than an entity by their lead over it, (E,)."""
        theirs = lead[~self.known]
        return Place(int(np.sum(theirs > 0)), int(np.sum(theirs == 0)) - int(not self.known[entity]))

    def _lead(self, entity: int) -> npt.NDArray[np.int64]:
        """Return the lead of each entity over one of them, in weighted score gaps, (E,)."""
        gaps = scale_gaps(self.scores, self.scores[:, [entity]], self.gap_scales)
        lead: npt.NDArray[np.int64] = self.weights @ gaps.astype(np.int64)
        return lead

    def _cost(self) -> npt.NDArray[Any]:
        """Return the cost of each entity, (E,); less is better. Costs are whole numbers unless scores are weighed."""
        if self.table is None:
            costs: npt.NDArray[np.float64] = -(self.weights / self.gap_scales) @ self.scores.astype(np.float64)
            return costs
        return self._weighed(self.doubled)

    def _cost_beside(self, entity: int, rivals: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Return the costs of some candidates beside a known answer, which joins them."""
        own, theirs = self.scores[:, [entity]], self.scores[:, rivals]
        joined = doubled_rank(own > theirs, own == theirs) - doubled_rank(0, 0)
        return self._weighed(self.doubled[:, rivals] + joined)

    def _weighed(self, doubled: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        assert self.table is not None
        costs: npt.NDArray[np.int64] = self.weights @ self.table[doubled].astype(np.int64)
        return costs


def _smallest(cost: npt.NDArray[Any], among: npt.NDArray[np.bool_], count: int) -> npt.NDArray[np.int64]:
    """Return the positions of the ``count`` smallest costs among some, in order; the first of equal ones wins."""
    positions = np.flatnonzero(among)
    if len(positions) > count:
        limit = np.partition(cost[positions], count - 1)[count - 1]
        positions = positions[cost[positions] <= limit]
    return positions[np.argsort(cost[positions], kind="stable")][:count]
