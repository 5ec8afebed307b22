"""Reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009)."""

import numpy as np
import numpy.typing as npt

from relens.ensemble.inputs.base import RankInput

OFFSET = 60.0
"""The constant k of the paper."""


class ReciprocalRankFusion(RankInput):
    """f(r) = 1 / (60 + r)."""

    name = "rrf"
    description = "1 / (60 + rank), reciprocal rank fusion, where ranks beyond a few hundred are alike"
    order = 3

    def value(self, rank: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return 1 / (60 + r)."""
        return 1.0 / (OFFSET + rank)


RRF = ReciprocalRankFusion()
