"""The mean rank."""

from dataclasses import dataclass

import numpy as np

from relens.metrics.base import Metric, Ranks


def mean_rank(ranks: Ranks) -> float:
    """Return the mean of ``ranks`` (Q,); 0 without queries."""
    return float(np.mean(ranks)) if len(ranks) else 0.0


@dataclass(frozen=True, kw_only=True)
class MeanRank(Metric):
    """The mean of the ranks."""

    def summarise(self, ranks: Ranks) -> float:
        """Return the mean of ``ranks`` (Q,)."""
        return mean_rank(ranks)


MEAN_RANK = MeanRank(
    name="mean_rank",
    description="mean rank of the answers, 1 at best",
    heading="MR",
    order=50,
    spec=",.1f",
    better="lower",
    spare=10,
)
