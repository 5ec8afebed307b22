"""Calibration: a logistic regression with an intercept per group, then pooled into steps that never fall."""

from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

FOLDS = 5
"""Parts of the questions; each is judged by a regression, and by weights, that were fitted without it."""

SPREAD = 1.0
"""Standard deviation that is presumed of the intercepts of groups."""

RIDGE = 1.0
"""Strength of the regularisation of coefficients, of standardised features."""

PRIOR = 4.0
"""Candidates that the regression counts for in each step."""

STEPS = 50
"""Most Newton steps of a regression."""

LIMIT = 30.0


class Judged(NamedTuple):
    """Candidates with their labels.

    Attributes:
        features: better if higher, (n, F) float64.
        group: group of each, (n,) int64.
        fold: fold of the question of each, below ``FOLDS``, (n,) int64.
        weight: how many candidates each stands for, (n,) float64.
        true: whether the candidate is a hidden fact, (n,) bool.
    """

    features: npt.NDArray[np.float64]
    group: npt.NDArray[np.int64]
    fold: npt.NDArray[np.int64]
    weight: npt.NDArray[np.float64]
    true: npt.NDArray[np.bool_]

    def part(self, rows: npt.NDArray[np.bool_]) -> "Judged":
        """Return the candidates at ``rows`` (n,)."""
        return Judged(self.features[rows], self.group[rows], self.fold[rows], self.weight[rows], self.true[rows])


class Regression(NamedTuple):
    """The log odds of a candidate: an intercept of its group, plus features times coefficients.

    Attributes:
        low, high: the range of each feature; others are clipped to it, (F,).
        mean, scale: standardisation of each feature, (F,).
        coefficients: none is negative, (F,).
        intercepts: one per group, (G,).
    """

    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    mean: npt.NDArray[np.float64]
    scale: npt.NDArray[np.float64]
    coefficients: npt.NDArray[np.float64]
    intercepts: npt.NDArray[np.float64]

    @classmethod
    def fit(cls, judged: Judged, n_groups: int, start: "Regression | None" = None) -> Self:
        """Fit by Newton's method; features whose coefficient would be negative are left out, the worst first.

        With ``start``, a fit to more candidates, use the features that it uses, in its range and units.
        """
        if start is None:
            low, high = np.quantile(judged.features, [0.0005, 0.9995], axis=0)
            clipped = np.clip(judged.features, low, high)
            mean = np.average(clipped, axis=0, weights=judged.weight)
            scale = np.sqrt(np.average((clipped - mean) ** 2, axis=0, weights=judged.weight))
            scale = np.where(scale > 0, scale, 1.0)
            zero = np.zeros(judged.features.shape[1])
            begun = cls(low, high, mean, scale, zero, np.zeros(n_groups))
            used = np.ptp(clipped, axis=0) > 0
        else:
            begun, used = cls(*start), start.coefficients > 0
        standard = begun.standard(judged.features)
        while True:
            found, intercepts = _newton(
                standard[:, used], judged, begun._replace(coefficients=begun.coefficients[used])
            )
            if start is not None or not (found < 0).any():
                break
            used[np.flatnonzero(used)[np.argmin(found)]] = False
        coefficients = np.zeros(len(used))
        coefficients[used] = np.maximum(found, 0)
        return begun._replace(coefficients=coefficients, intercepts=intercepts)

    def standard(self, features: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return features (n, F) in the range and the units of this regression, (n, F)."""
        found: npt.NDArray[np.float64] = (np.clip(features, self.low, self.high) - self.mean) / self.scale
        return found

    def log_odds(self, features: npt.NDArray[np.float64], group: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the log odds of n candidates with features (n, F) and groups (n,), as (n,)."""
        found: npt.NDArray[np.float64] = self.standard(features) @ self.coefficients + self.intercepts[group]
        return found


class Steps(NamedTuple):
    """A function of the log odds that never falls: ``values[i]`` from ``bounds[i]`` on.

    Attributes:
        bounds: the least log odds of each step, ascending; the first step has no bound, (s,) float64.
        values: probabilities, ascending, (s,) float64.
    """

    bounds: npt.NDArray[np.float64]
    values: npt.NDArray[np.float64]

    @classmethod
    def fit(
        cls, log_odds: npt.NDArray[np.float64], true: npt.NDArray[np.bool_], weight: npt.NDArray[np.float64]
    ) -> Self:
        """Pool n candidates, sorted by their log odds, until the share of true ones never falls.

        Each share is drawn to the mean probability of the regression, which counts like ``PRIOR`` candidates.
        """
        order = np.argsort(log_odds, kind="stable")
        x, y, w = log_odds[order], true[order].astype(np.float64), weight[order]
        begins = np.flatnonzero(np.append(True, x[1:] != x[:-1]))  # equal log odds stay together
        sizes = np.add.reduceat(w, begins)
        blocks = _pooled(np.add.reduceat(w * y, begins), sizes)
        starts = begins[blocks]
        total = np.add.reduceat(w, starts)
        counts = np.diff(np.append(starts, len(x)))
        hits = np.add.reduceat(w * y, starts)
        expected = np.add.reduceat(w * _probability(x), starts) / total
        typical = total / counts  # of one candidate, so that the prior counts candidates
        values = (hits + PRIOR * typical * expected) / (total + PRIOR * typical)
        return cls(x[starts], np.maximum.accumulate(values))

    def at(self, log_odds: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the probability at each of n log odds, (n,)."""
        step = np.searchsorted(self.bounds, log_odds, side="right") - 1
        found: npt.NDArray[np.float64] = self.values[np.maximum(step, 0)]
        return found


def cross_fitted(judged: Judged, n_groups: int) -> tuple[Regression, npt.NDArray[np.float64]]:
    """Return the regression on all n candidates, and the log odds of each by one without its fold, (n,)."""
    whole, found = Regression.fit(judged, n_groups), np.zeros(len(judged.true))
    for fold in np.unique(judged.fold).tolist():
        inside = judged.fold == fold
        without = Regression.fit(judged.part(~inside), n_groups, whole)
        found[inside] = without.log_odds(judged.features[inside], judged.group[inside])
    return whole, found


def _newton(
    standard: npt.NDArray[np.float64], judged: Judged, start: Regression
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return coefficients (f,) and intercepts (G,) of greatest penalised likelihood, searched from those of ``start``.

    The intercepts are a common one, which is not penalised, plus one per group. Their part of the Hessian is diagonal,
    and is eliminated first. Weights are scaled to a mean of 1 over questions of equal weight.
    """
    n_groups, group, weight = len(start.intercepts), judged.group, judged.weight / judged.weight.mean()
    design = np.column_stack([standard, np.ones(len(standard))])
    common = float(start.intercepts.mean())
    if not start.coefficients.any():
        rate = np.clip(np.average(judged.true, weights=weight), 1e-9, 1 - 1e-9)
        common = float(np.log(rate / (1 - rate)))
    beta = np.append(start.coefficients, common)
    own = start.intercepts - common if start.coefficients.any() else np.zeros(n_groups)
    ridge = np.append(np.full(standard.shape[1], RIDGE), 1e-6)
    for _ in range(STEPS):
        p = _probability(design @ beta + own[group])
        slope, bend = weight * (judged.true - p), weight * p * (1 - p)
        own_slope = np.bincount(group, slope, n_groups) - own / SPREAD**2
        own_bend = np.bincount(group, bend, n_groups) + 1 / SPREAD**2
        bent = design * bend[:, None]
        cross = np.stack([np.bincount(group, column, n_groups) for column in bent.T])  # (f + 1, G)
        hessian = bent.T @ design + np.diag(ridge) - (cross / own_bend) @ cross.T
        gradient = design.T @ slope - ridge * beta - (cross / own_bend) @ own_slope
        change = np.linalg.solve(hessian, gradient)
        own_change = (own_slope - cross.T @ change) / own_bend
        largest = max(float(np.abs(change).max()), float(np.abs(own_change).max()))
        shortened = min(1.0, 3.0 / max(largest, 1e-12))
        beta, own = beta + shortened * change, own + shortened * own_change
        if largest < 1e-6:
            break
    return beta[:-1], own + beta[-1]


def _pooled(hits: npt.NDArray[np.float64], sizes: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the starts of the blocks whose shares of hits never fall: neighbours with falling shares are joined."""
    blocks: list[tuple[float, float, int]] = []
    for start, (hit, size) in enumerate(zip(hits.tolist(), sizes.tolist(), strict=True)):
        block = hit, size, start
        while blocks and blocks[-1][0] * block[1] >= block[0] * blocks[-1][1]:
            before = blocks.pop()
            block = before[0] + block[0], before[1] + block[1], before[2]
        blocks.append(block)
    return np.array([start for _, _, start in blocks], dtype=np.int64)


def _probability(log_odds: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(log_odds, -LIMIT, LIMIT)))
    return found
