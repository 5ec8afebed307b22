"""The share of answers among the first k."""

from dataclasses import dataclass

import numpy as np

from relens.metrics.base import Metric, Ranks


def hits(ranks: Ranks, k: int) -> float:
    """Return Hit@k of ``ranks`` (Q,): the share of ranks that are at most k; 0 without queries."""
    return float(np.mean(ranks <= k)) if len(ranks) else 0.0


@dataclass(frozen=True, kw_only=True)
class Hits(Metric):
    """The share of ranks that are at most ``k``."""

    k: int

    def summarise(self, ranks: Ranks) -> float:
        """Return Hit@k of ``ranks`` (Q,)."""
        return hits(ranks, self.k)

    @classmethod
    def build(cls, k: int, *, order: int, spare: int) -> "Hits":
        """Return the metric Hit@k with the name, heading and description that follow from ``k``."""
        among = "first" if k == 1 else f"among the first {k}"
        description = f"share of the queries whose answer is {among}"
        return cls(name=f"hits_at_{k}", description=description, heading=f"Hit@{k}", order=order, spare=spare, k=k)


HITS_AT_1 = Hits.build(1, order=20, spare=0)
HITS_AT_3 = Hits.build(3, order=30, spare=30)
HITS_AT_10 = Hits.build(10, order=40, spare=50)
