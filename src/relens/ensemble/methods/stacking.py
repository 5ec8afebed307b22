"""Stacking (Wolpert, 1992): a logistic regression on the models' ranks."""

import warnings

import numpy as np
import numpy.typing as npt

from relens.ensemble.context import SearchContext
from relens.ensemble.grid import to_grid, uniform
from relens.ensemble.methods.base import Method, MethodResult
from relens.errors import MissingExtraError
from relens.packs.pack import PackedRanks
from relens.seeding import generator

CANDIDATES = 50
"""Contested candidates of each query that are told from its answer, at most."""
ITERATIONS = 300
"""The paper stops after so many iterations, too, converged or not."""


class Stacking(Method):
    """A regression that tells answers from candidates; a model's weight is max(0, −coefficient of its rank)."""

    name = "stacking"
    description = "baseline: a logistic regression that separates answers from other candidates"
    order = 2
    extra = "stacking"

    def search(self, context: SearchContext) -> MethodResult:
        """Return the regression's weights, or equal weights and a note where it finds none."""
        try:
            from sklearn.exceptions import ConvergenceWarning
            from sklearn.linear_model import LogisticRegression
        except ImportError as error:
            raise MissingExtraError(f"method {self.name!r}", self.extra) from error
        packed = context.packed
        candidates = sample_contested(packed, generator(context.seed, self.name))
        ranks = np.concatenate([packed.answer, packed.contested[:, candidates]], axis=1).T / 2.0  # (samples, N)
        is_answer = np.arange(len(ranks)) < packed.n_queries
        if is_answer.all():
            return self._equal(packed, "no contested candidate to learn from")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            coefficients = LogisticRegression(max_iter=ITERATIONS).fit(ranks, is_answer).coef_[0]
        weights = np.maximum(0.0, -coefficients)
        if weights.max() == 0:
            return self._equal(packed, "no model got a positive weight")
        return MethodResult(to_grid(weights))

    def _equal(self, packed: PackedRanks, reason: str) -> MethodResult:
        return MethodResult(uniform(packed.n_models), notes=(f"{self.name}: {reason}, so all weights are equal",))


def sample_contested(packed: PackedRanks, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return positions of up to 50 contested candidates of each query: all, or a draw with replacement."""
    counts = np.diff(packed.offsets)[:, None]
    place = np.tile(np.arange(CANDIDATES), (packed.n_queries, 1))
    drawn = np.where(counts > CANDIDATES, (rng.random(place.shape) * counts).astype(np.int64), place)
    return np.unique((packed.offsets[:-1, None] + drawn)[drawn < counts])


STACKING = Stacking()
