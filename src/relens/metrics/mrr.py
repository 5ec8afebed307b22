"""The mean reciprocal rank, by the realistic rank of a tied answer, or if every tie were won or lost."""

from dataclasses import dataclass

import numpy as np

from relens.metrics.base import Metric, Ranks


def mrr(ranks: Ranks) -> float:
    """Return the mean reciprocal rank of ``ranks`` (Q,); 0 without queries."""
    return float(np.mean(1.0 / ranks)) if len(ranks) else 0.0


@dataclass(frozen=True, kw_only=True)
class MeanReciprocalRank(Metric):
    """The mean of 1 / rank."""

    def summarise(self, ranks: Ranks) -> float:
        """Return the mean reciprocal rank of ``ranks`` (Q,)."""
        return mrr(ranks)


MRR = MeanReciprocalRank(
    name="mrr",
    description="mean reciprocal rank: the mean of 1 / rank of the answers, 1 at best",
    heading="MRR",
    order=10,
    spare=0,
)
MRR_OPTIMISTIC = MeanReciprocalRank(
    name="mrr_optimistic",
    description="mean reciprocal rank if every answer won its ties",
    heading="MRR optimistic",
    order=60,
    ties="optimistic",
    spare=40,
)
MRR_PESSIMISTIC = MeanReciprocalRank(
    name="mrr_pessimistic",
    description="mean reciprocal rank if every answer lost its ties",
    heading="MRR pessimistic",
    order=70,
    ties="pessimistic",
    spare=40,
)
