"""Logarithms of ranks."""

import numpy as np
import numpy.typing as npt

from relens.ensemble.grid import ADVANTAGE_LIMIT
from relens.ensemble.inputs.base import RankInput

OFFSET = 5
"""Added to the rank, so that the first few places do not count for more than all others together."""

MOST_FACTORED = 2**18
"""The most candidates whose costs can be sums of rounded logarithms of primes, and still increase strictly."""


class Log(RankInput):
    """f(r) = −log(5 + r)."""

    name = "log"
    description = "−log(5 + rank), where ranks count by their ratio"
    order = 1

    def value(self, rank: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return −log(5 + r)."""
        value: npt.NDArray[np.float64] = -np.log(OFFSET + rank)
        return value

    def whole_table(self, n_candidates: int) -> npt.NDArray[np.int64]:
        """Return costs of 2n + 1 doubled ranks that keep ties: equal products of 5 + rank have equal sums of costs.

        The logarithm of each prime is rounded, and the cost of another number is the sum of its prime factors' costs.
        With more than ``MOST_FACTORED`` candidates, every logarithm is rounded alone.
        """
        if n_candidates > MOST_FACTORED:
            return super().whole_table(n_candidates)
        numbers = np.arange(2 * n_candidates + 2 * OFFSET + 1)
        first = 2 * OFFSET
        scale = (ADVANTAGE_LIMIT - 2 * n_candidates - 1) / np.log(numbers[-1] / first)
        factor = _smallest_factors(len(numbers))
        costs = np.rint(scale * np.log(np.maximum(numbers, 1))).astype(np.int64)
        composite = np.flatnonzero(factor < numbers)
        # A number without its smallest factor has one prime factor less, so costs settle from few factors to many.
        while True:
            summed = costs[factor[composite]] + costs[composite // factor[composite]]
            if np.array_equal(summed, costs[composite]):
                break
            costs[composite] = summed
        return np.asarray(costs[first:] - costs[first])


def _smallest_factors(n: int) -> npt.NDArray[np.int64]:
    """Return the smallest prime factor of each number below ``n``, (n,); 0 and 1 are their own."""
    factor = np.arange(n)
    for p in range(2, int(n**0.5) + 1):
        if factor[p] == p:
            factor[p * p :: p] = np.minimum(factor[p * p :: p], p)
    return factor


LOG = Log()
