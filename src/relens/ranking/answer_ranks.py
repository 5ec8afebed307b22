"""Metrics: pure functions of how many candidates stand ahead of, and level with, each answer."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class AnswerRanks:
    """Where the answers of Q queries stand.

    ``ahead`` and ``tied``, (Q,) int64: candidates strictly ahead of the answer, and level with it. A tied block
    shares its mean rank (``realistic``); the optimistic and the pessimistic rank bound it.
    """

    ahead: npt.NDArray[np.int64]
    tied: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ahead)

    def __getitem__(self, index: Any) -> "AnswerRanks":
        return AnswerRanks(self.ahead[index], self.tied[index])

    @property
    def optimistic(self) -> npt.NDArray[np.float64]:
        """Ranks if every tie were broken in the answer's favour, (Q,)."""
        return self.ahead + np.float64(1)

    @property
    def realistic(self) -> npt.NDArray[np.float64]:
        """Mean ranks of the tied blocks, (Q,): the ranks every reported number uses."""
        return self.optimistic + self.tied / 2

    @property
    def pessimistic(self) -> npt.NDArray[np.float64]:
        """Ranks if every tie were broken against the answer, (Q,)."""
        return self.optimistic + self.tied


def mrr(ranks: npt.NDArray[np.float64]) -> float:
    """Return the mean reciprocal rank of ``ranks`` (Q,); 0 for no queries."""
    return float(np.mean(1.0 / ranks)) if len(ranks) else 0.0


def hits(ranks: npt.NDArray[np.float64], k: int) -> float:
    """Return Hit@k of ``ranks`` (Q,): the share of ranks no larger than k; 0 for no queries."""
    return float(np.mean(ranks <= k)) if len(ranks) else 0.0


def mean_rank(ranks: npt.NDArray[np.float64]) -> float:
    """Return the mean of ``ranks`` (Q,); 0 for no queries."""
    return float(np.mean(ranks)) if len(ranks) else 0.0
