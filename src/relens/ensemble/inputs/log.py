"""Logarithms of ranks."""

import numpy as np
import numpy.typing as npt

from relens.ensemble.inputs.base import RankInput

OFFSET = 5.0
"""Added to the rank, so that the first few places do not count for more than all others together."""


class Log(RankInput):
    """f(r) = −log(5 + r)."""

    name = "log"
    description = "−log(5 + rank), where ranks count by their ratio"
    order = 1

    def value(self, rank: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return −log(5 + r)."""
        value: npt.NDArray[np.float64] = -np.log(OFFSET + rank)
        return value


LOG = Log()
