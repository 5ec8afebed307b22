"""The mean reciprocal rank."""

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
