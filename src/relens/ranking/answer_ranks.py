"""The ranks of answers: how many candidates are ahead of each answer, and how many are tied with it."""

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
