"""Shrinkage: a group's weights are pulled towards the global ones, the more the fewer validation queries it has."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from relens.ensemble.grid import Weights, to_grid
from relens.ensemble.inputs import Input
from relens.ensemble.pairs import Pairs
from relens.packs.thinning import ContestedViews

KAPPAS = (0.0, 3.0, 10.0, 30.0, 100.0, 300.0, math.inf)
"""Strengths that cross-validation chooses from: 0 keeps the group's weights, infinity the global ones."""


@dataclass(frozen=True)
class Shrinkage:
    """w = (n·w_group + κ·w_global)/(n + κ), both normalised to sum 1 on standardised inputs.

    ``scales`` (N,) is the mean size of each model's advantages: weights times scales are comparable across models.
    """

    scales: npt.NDArray[np.float64]

    @classmethod
    def fit(cls, views: ContestedViews, queries: npt.NDArray[np.int64], name: Input) -> "Shrinkage":
        """Measure the scales on the wide view of the queries at ``queries`` (n,)."""
        pairs = Pairs.gather(views.packed, views.wide, queries, name)
        if pairs.n_pairs == 0:
            return cls(np.ones(views.packed.n_models))
        scales = np.abs(pairs.advantage).mean(axis=1)
        return cls(np.where(scales > 0, scales, 1.0))

    def shrink(
        self, table: npt.NDArray[np.int64], towards: Weights, support: npt.NDArray[np.int64], kappa: float
    ) -> npt.NDArray[np.int64]:
        """Shrink the weights (G, N) of groups with ``support`` (G,) validation queries towards ``towards`` (N,)."""
        if kappa == 0 or len(table) == 0:
            return table
        if math.isinf(kappa):
            return np.tile(towards, (len(table), 1))
        groups, common = self._standardised(table), self._standardised(towards)
        n = support[:, None]
        return to_grid((n * groups + kappa * common) / (n + kappa) / self.scales)

    def _standardised(self, weights: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        scaled = weights * self.scales
        normalised: npt.NDArray[np.float64] = scaled / scaled.sum(axis=-1, keepdims=True)
        return normalised
