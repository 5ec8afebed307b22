"""Square roots of ranks."""

import numpy as np
import numpy.typing as npt

from relens.ensemble.inputs.base import RankInput


class Sqrt(RankInput):
    """f(r) = −√r."""

    name = "sqrt"
    description = "−√rank, which flattens far ranks less than log"
    order = 2

    def value(self, rank: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return −√r."""
        value: npt.NDArray[np.float64] = -np.sqrt(rank)
        return value


SQRT = Sqrt()
