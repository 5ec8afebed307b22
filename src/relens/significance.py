"""Significance: how far chance alone could move a mean over queries.

The unit of chance is the triple: its two queries share both entities, so they are drawn, or flipped, together.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from relens.seeding import generator

LEVEL = 0.95
EXACT_UP_TO = 12
"""All sign patterns are enumerated up to this many triples that differ (4,096 patterns)."""

_ROUNDING = 1e-15
"""Above the rounding error of the few reciprocal ranks a triple adds up, below any difference worth counting."""
_RELATIVE_ROUNDING = 1e-12
"""Above the rounding error of a sum over all triples, as a share of the sum of the absolute values."""
_CHUNK = 2**21
"""Random numbers held at a time."""

Values = npt.NDArray[np.float64]
TripleIds = npt.NDArray[np.integer[Any]]


class Interval(NamedTuple):
    """A confidence interval at ``LEVEL``."""

    low: float
    high: float

    def __str__(self) -> str:
        """Return it for people: ``0.9551–0.9704``; a dash beside a minus sign would be hard to read."""
        return f"{self.low:z.4f}{'–' if self.low >= 0 else ' to '}{self.high:z.4f}"


@dataclass(frozen=True)
class PairedTest:
    """A comparison with a reference on the same queries.

    ``difference`` is the mean over queries of ours minus the reference's, with its bootstrap interval; ``p_value``
    is two-sided; ``exact`` says whether every sign pattern was enumerated or a random sample of them.
    """

    reference: str
    difference: float
    interval: Interval
    p_value: float
    exact: bool


def bootstrap_interval(values: Values, triple: TripleIds, *, seed: int = 0, resamples: int = 1000) -> Interval:
    """Return the percentile interval of the mean of ``values`` (Q,), Q ≥ 1, resampled by ``triple`` (Q,).

    A resample draws as many triples as there are, with replacement; its mean is the sum of their values over the
    number of their queries. Equal seeds draw equal resamples, so intervals of several models are comparable.
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

    If both are equally good, the sign of a triple's difference is a coin's: the p-value is the share of sign
    patterns whose absolute sum is no smaller than the one observed.
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
    # Patterns that tie with the observed sum must count; rounding may not decide that they do not.
    threshold = abs(differences.sum()) - _RELATIVE_ROUNDING * np.abs(differences).sum()
    if n <= EXACT_UP_TO:
        patterns = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        return float(np.mean(_absolute_sums(patterns, differences) >= threshold)), True
    rng = generator(seed, "sign-flip")
    extreme = sum(
        int(np.count_nonzero(_absolute_sums(_coins(rng, rows, n), differences) >= threshold))
        for rows in _chunks(resamples, n)
    )
    # The observed pattern is one of those possible: counting it keeps the test valid (and p above 0).
    return (1 + extreme) / (1 + resamples), False


def _absolute_sums(patterns: npt.NDArray[Any], differences: Values) -> Values:
    """Return |Σ ±differences|, (P,), for 0/1 ``patterns`` (P, T), where 0 flips the sign of a difference."""
    kept: Values = patterns.astype(np.float64) @ differences
    sums: Values = np.abs(2 * kept - differences.sum())
    return sums


def _coins(rng: np.random.Generator, rows: int, n: int) -> npt.NDArray[np.uint8]:
    """Toss ``rows`` × ``n`` fair coins, 32 from each random number."""
    numbers = rng.integers(2**32, size=(rows, -(-n // 32)), dtype=np.uint32)
    return np.unpackbits(numbers.view(np.uint8), axis=1, count=n)


def _per_triple(values: Values, triple: TripleIds) -> tuple[Values, npt.NDArray[np.int64]]:
    """Return the sum of ``values`` and the number of queries of every triple that has any, both (T,)."""
    _, index, counts = np.unique(triple, return_inverse=True, return_counts=True)
    sums: Values = np.bincount(index, weights=values).astype(np.float64)
    return sums, counts.astype(np.int64)


def _chunks(total: int, width: int) -> Iterator[int]:
    """Split ``total`` rows of ``width`` numbers into row counts that fit the memory set aside for them."""
    rows = max(1, _CHUNK // width)
    for begin in range(0, total, rows):
        yield min(rows, total - begin)
