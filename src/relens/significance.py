"""Significance of a mean over queries: bootstrap intervals and paired sign-flip tests.

The unit of resampling is the triple. Its two queries share both entities, so they are drawn or flipped together.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from relens.seeding import generator

LEVEL = 0.95
EXACT_UP_TO = 12
"""All sign patterns are enumerated if at most this many triples differ (4,096 patterns)."""

_ROUNDING = 1e-15
"""Above the rounding error of a sum of a few reciprocal ranks, below any real difference."""
_RELATIVE_ROUNDING = 1e-12
"""Above the relative rounding error of a sum over all triples."""
_CHUNK = 2**21
"""Random numbers in memory at a time."""

Values = npt.NDArray[np.float64]
TripleIds = npt.NDArray[np.integer[Any]]


class Interval(NamedTuple):
    """A confidence interval at ``LEVEL``."""

    low: float
    high: float

    def __str__(self) -> str:
        """Return the interval for readers, as ``0.9551–0.9704``, or with ``to`` if the lower end is negative."""
        return f"{self.low:z.4f}{'–' if self.low >= 0 else ' to '}{self.high:z.4f}"


@dataclass(frozen=True)
class PairedTest:
    """A comparison of two models or ensembles on the same queries.

    Attributes:
        reference: name of the model or ensemble to compare with.
        difference: mean over the queries of our value minus the value of the reference.
        interval: bootstrap interval of ``difference``.
        p_value: two-sided p-value of a sign-flip test.
        exact: whether all sign patterns were enumerated, instead of a random sample.
    """

    reference: str
    difference: float
    interval: Interval
    p_value: float
    exact: bool


def bootstrap_interval(values: Values, triple: TripleIds, *, seed: int = 0, resamples: int = 1000) -> Interval:
    """Return the percentile interval of the mean of ``values`` (Q,), Q ≥ 1, resampled by ``triple`` (Q,).

    A resample draws as many triples as there are, with replacement. Its mean is the sum of their values divided by the
    number of their queries. Equal seeds draw equal resamples, so the intervals of several models are comparable.
    """
    sums, counts = _per_triple(values, triple)
    rng = generator(seed, "bootstrap")
    means = []
    for rows in _chunks(resamples, len(sums)):
        drawn = rng.integers(len(sums), size=(rows, len(sums)), dtype=np.int32)
        means.append(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    low, high = np.quantile(np.concatenate(means), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high))


def paired_test(
    values: Values, baseline: Values, triple: TripleIds, *, reference: str, seed: int = 0, resamples: int = 1000
) -> PairedTest:
    """Compare ``values`` (Q,) with the ``baseline`` (Q,) of the model or method named ``reference``.

    If both are equally good, each sign of a triple's difference is equally likely. The p-value is the share of sign
    patterns whose absolute sum is at least the observed one.
    """
    differences = values - baseline
    p_value, exact = _sign_flip(_per_triple(differences, triple)[0], seed, resamples)
    return PairedTest(
        reference=reference,
        difference=float(differences.mean()),
        interval=bootstrap_interval(differences, triple, seed=seed, resamples=resamples),
        p_value=p_value,
        exact=exact,
    )


def _sign_flip(differences: Values, seed: int, resamples: int) -> tuple[float, bool]:
    """Return the two-sided p-value of the sum of ``differences`` (T,), and whether it is exact."""
    differences = differences[np.abs(differences) > _ROUNDING]
    n = len(differences)
    # Patterns that tie with the observed sum must count in spite of rounding.
    threshold = abs(differences.sum()) - _RELATIVE_ROUNDING * np.abs(differences).sum()
    if n <= EXACT_UP_TO:
        patterns = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        return float(np.mean(_absolute_sums(patterns, differences) >= threshold)), True
    rng = generator(seed, "sign-flip")
    extreme = sum(
        int(np.count_nonzero(_absolute_sums(_coins(rng, rows, n), differences) >= threshold))
        for rows in _chunks(resamples, n)
    )
    # Counting the observed pattern as well keeps the test valid and p above 0.
    return (1 + extreme) / (1 + resamples), False


def _absolute_sums(patterns: npt.NDArray[Any], differences: Values) -> Values:
    """Return |Σ ±differences|, (P,), for ``patterns`` (P, T) of 0 and 1; 0 flips the sign of a difference."""
    kept: Values = patterns.astype(np.float64) @ differences
    sums: Values = np.abs(2 * kept - differences.sum())
    return sums


def _coins(rng: np.random.Generator, rows: int, n: int) -> npt.NDArray[np.uint8]:
    """Toss ``rows`` × ``n`` fair coins, 32 from each random number."""
    numbers = rng.integers(2**32, size=(rows, -(-n // 32)), dtype=np.uint32)
    return np.unpackbits(numbers.view(np.uint8), axis=1, count=n)


def _per_triple(values: Values, triple: TripleIds) -> tuple[Values, npt.NDArray[np.int64]]:
    """Return the sum of ``values`` and the number of queries of every triple, both (T,)."""
    _, index, counts = np.unique(triple, return_inverse=True, return_counts=True)
    sums: Values = np.bincount(index, weights=values).astype(np.float64)
    return sums, counts.astype(np.int64)


def _chunks(total: int, width: int) -> Iterator[int]:
    """Yield row counts that add up to ``total``, each for at most ``_CHUNK`` numbers in rows of ``width``."""
    rows = max(1, _CHUNK // width)
    for begin in range(0, total, rows):
        yield min(rows, total - begin)
