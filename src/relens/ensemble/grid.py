"""The weight grid: whole numbers up to 2**20, so that sums of weighted advantages are exact and ties are decided.

A weighted sum is exact in float64 as long as it stays below 2**53. ``WEIGHT_LIMIT``, ``ADVANTAGE_LIMIT`` and
``MODEL_LIMIT`` bound it.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from relens.errors import WeightsError

Weights = npt.NDArray[np.int64]
"""Grid weights of one group, (N,)."""

WEIGHT_LIMIT = 2**20
"""Largest weight. A coarser grid loses MRR, a finer one gains none."""

ADVANTAGE_LIMIT = 2**26
"""Bound of a candidate's advantage over the answer by one model."""

MODEL_LIMIT = 127
"""Most models whose weighted advantages still add up to less than 2**53."""

NEAR_VERTEX = 16
"""Weight of the favoured model near its vertex, where every other model has weight 1."""


def to_grid(weights: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Round non-negative weights (…, N) to the grid; the largest of each vector becomes 2**20."""
    real = np.asarray(weights, dtype=np.float64)
    check_weights(real)
    grid: npt.NDArray[np.int64] = np.rint(real / real.max(axis=-1, keepdims=True) * WEIGHT_LIMIT).astype(np.int64)
    return grid


def check_weights(weights: npt.NDArray[np.float64], where: str = "weights") -> None:
    """Raise an error for vectors (…, N) with a negative, infinite or NaN weight, or without a positive one."""
    if not np.all(np.isfinite(weights)):
        raise WeightsError(f"{where}: found NaN or an infinite weight, expected finite numbers of at least 0")
    if np.any(weights < 0):
        raise WeightsError(f"{where}: found the negative weight {weights.min():g}, expected numbers of at least 0")
    if np.any(weights.max(axis=-1, initial=0.0) <= 0):
        raise WeightsError(f"{where}: all weights of a vector are 0; at least one model needs a positive weight")


def uniform(n_models: int) -> Weights:
    """Return equal weights, (N,)."""
    return np.ones(n_models, dtype=np.int64)


def vertices(n_models: int) -> list[Weights]:
    """Return the N weight vectors that use one model alone."""
    return list(np.eye(n_models, dtype=np.int64))


def near_vertices(n_models: int) -> list[Weights]:
    """Return N weight vectors; each gives one model most of the weight."""
    return [uniform(n_models) + (NEAR_VERTEX - 1) * vertex for vertex in vertices(n_models)]
