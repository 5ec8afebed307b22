"""Confidence: the share of a group's validation queries whose answer had a given rank."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from relens.ensemble.weights import EnsembleWeights
from relens.packs.pack import PackedRanks
from relens.prediction.candidate_ranking import Place
from relens.ranking.answer_ranks import AnswerRanks

PLACES = 100
"""Ranks that get a confidence; answers with higher ranks are too rare to count."""

SHRINKAGE = 5
"""Weight of the share over all groups, in validation queries of the group."""

LEAST = 5
"""Validation queries that a group needs to get a confidence."""


@dataclass(frozen=True, eq=False)
class Confidence:
    """The share of validation queries whose answer had each of the first ranks, by group; shares never rise.

    Queries with and without other known answers are counted separately: if a relation has one answer at most, finding
    that answer says nothing about the next candidate once the answer is known.

    Attributes:
        shares: (2, G, PLACES) float64, without and with other known answers; rows sum to at most 1.
        queries: validation queries of each group, (2, G) int64.
    """

    shares: npt.NDArray[np.float64]
    queries: npt.NDArray[np.int64]

    @classmethod
    def from_valid(cls, valid: PackedRanks, weights: EnsembleWeights, answered: npt.NDArray[np.bool_]) -> Self:
        """Count the ranks of the validation answers under the weights.

        ``answered`` says which of the queries have other known answers, (Q,).
        """
        if set(weights.models) < set(valid.models):
            valid = valid.select_models(weights.models)
        mine = weights.aligned_to(valid)
        return cls.from_ranks(
            mine.answer_ranks(valid), mine.grouping.groups_of(valid.queries), answered, len(mine.grouping)
        )

    @classmethod
    def from_ranks(
        cls, ranks: AnswerRanks, group: npt.NDArray[np.int32], answered: npt.NDArray[np.bool_], n_groups: int
    ) -> Self:
        """Count the ranks of Q answers.

        Args:
            ranks: the ranks of the answers, (Q,); an answer in a tied block counts in equal parts at all its places.
            group: the group of each query, (Q,).
            answered: whether the query has other known answers, (Q,).
            n_groups: the number of groups, G.
        """
        parts = [_shares(ranks[chosen], group[chosen], n_groups) for chosen in (~answered, answered)]
        queries = [np.bincount(group[chosen], minlength=n_groups) for chosen in (~answered, answered)]
        return cls(np.stack(parts), np.stack(queries))

    def share_at(self, group: int, place: Place, *, answered: bool) -> float | None:
        """Return the share of a place, or the mean over a tied block; None if there are too few queries."""
        end = place.ahead + place.tied + 1
        if self.queries[int(answered), group] < LEAST or end > PLACES:
            return None
        return float(np.clip(self.shares[int(answered), group, place.ahead : end].mean(), 0.0, 1.0))


def _shares(ranks: AnswerRanks, group: npt.NDArray[np.int32], n_groups: int) -> npt.NDArray[np.float64]:
    """Return the share of each place by group, (G, PLACES), shrunk towards the share over all groups."""
    part = 1 / (ranks.tied + 1)
    change = np.zeros((n_groups, PLACES + 1))
    np.add.at(change, (group, np.minimum(ranks.ahead, PLACES)), part)
    np.add.at(change, (group, np.minimum(ranks.ahead + ranks.tied + 1, PLACES)), -part)
    counts = np.cumsum(change[:, :PLACES], axis=1)
    overall = counts.sum(axis=0) / max(1, len(ranks))
    queries = np.bincount(group, minlength=n_groups)
    shrunk = (counts + SHRINKAGE * overall) / (queries + SHRINKAGE)[:, None]
    return np.array([never_rising(row) for row in shrunk]).reshape(n_groups, PLACES)


def never_rising(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the closest sequence by squared error that never rises, (k,): rising neighbours are averaged."""
    blocks: list[tuple[float, int]] = []
    for value in values.tolist():
        total, length = value, 1
        while blocks and blocks[-1][0] * length < total * blocks[-1][1]:
            before, n_before = blocks.pop()
            total, length = total + before, length + n_before
        blocks.append((total, length))
    return np.repeat([total / length for total, length in blocks], [length for _, length in blocks])
