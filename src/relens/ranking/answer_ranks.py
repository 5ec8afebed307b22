"""The tie rule, and the ranks of answers: how many candidates are ahead of each, and how many are tied with it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


def doubled_rank(above: Any, level: Any) -> Any:
    """Return twice the mean rank of a block of tied candidates, which is a whole number.

    This is the one place that states the tie rule. It takes numbers, arrays or tensors, and numba compiles it.

    Args:
        above: candidates strictly ahead of the block.
        level: candidates in the block.
    """
    return 2 * above + level + 1


def doubled_ranks(scores: npt.NDArray[Any], competing: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the doubled mean rank of each score (E,) among the competing ones and itself, (E,); higher is better."""
    ordered = np.sort(scores[competing])
    right = np.searchsorted(ordered, scores, side="right")
    left = np.searchsorted(ordered, scores, side="left")
    doubled: npt.NDArray[np.int64] = doubled_rank(len(ordered) - right, right - left + ~competing)
    return doubled


@dataclass(frozen=True)
class AnswerRanks:
    """The ranks of the answers of Q queries.

    A tied block shares its mean rank (``realistic``). The optimistic and the pessimistic rank bound it.

    Attributes:
        ahead: candidates strictly ahead of the answer, (Q,) int64.
        tied: other candidates level with the answer, (Q,) int64.
    """

    ahead: npt.NDArray[np.int64]
    tied: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ahead)

    def __getitem__(self, index: Any) -> "AnswerRanks":
        return AnswerRanks(self.ahead[index], self.tied[index])

    @property
    def optimistic(self) -> npt.NDArray[np.float64]:
        """Ranks if every tie were broken in favour of the answer, (Q,) float64."""
        return self.ahead + np.float64(1)

    @property
    def realistic(self) -> npt.NDArray[np.float64]:
        """Mean ranks of the tied blocks, (Q,) float64. Every reported number uses them."""
        ranks: npt.NDArray[np.float64] = doubled_rank(self.ahead, self.tied + 1) / 2
        return ranks

    @property
    def pessimistic(self) -> npt.NDArray[np.float64]:
        """Ranks if every tie were broken against the answer, (Q,) float64."""
        return self.optimistic + self.tied
