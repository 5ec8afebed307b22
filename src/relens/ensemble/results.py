"""What a search is about, and what it finds."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from relens.ensemble.grid import Weights

QueryIndex = npt.NDArray[np.int64]
"""Positions of the queries of a group, (n,)."""


@dataclass(frozen=True)
class SearchResult:
    """What a search found for one group.

    Attributes:
        weights: grid weights, (N,).
        value: their sum of reciprocal ranks over the group's queries, from lossless pairs.
        trace: (steps, 3): seconds since the search began, weight vectors or lines evaluated, best sum so far.
    """

    weights: Weights
    value: float
    trace: npt.NDArray[np.float64]
