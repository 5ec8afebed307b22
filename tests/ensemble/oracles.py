"""Results that the ensemble must agree with: obvious loops over Python integers and fractions, over all candidates.

Nothing here but the weight limit comes from the code under test.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from relens.ensemble.grid import WEIGHT_LIMIT
from relens.ensemble.pairs import Pairs
from tests.ensemble.cases import Case
from tests.oracles import tie_rules

Number = int | Fraction


RANGE = 2**26
"""Costs stay below this."""
CANDIDATES = 2**16
"""Costs are scaled for queries of so many candidates."""
DIGITS = 40
VALUES = {
    "sqrt": lambda rank: -rank.sqrt(),
    "rrf": lambda rank: 1 / (60 + rank),
}
"""The decreasing functions f of docs/concepts.md, of decimal numbers; ``log_cost`` has the logarithm."""


@lru_cache
def costs(name: str, most: int = 8000) -> list[int]:
    """Return the cost of the doubled ranks 0 … ``most`` as Python integers, worked out with forty digits.

    The cost of rank r is f(1) − f(r), stretched so that the worst rank of 2**16 candidates costs 2**26 less the number
    of doubled ranks, and rounded. It is at least one more than the cost of the doubled rank before. A plain rank costs
    its double. A logarithm is the sum of those of its prime factors, and rank 0 costs nothing.
    """
    if name == "rank":
        return list(range(most + 1))
    if name == "log":
        return [log_cost(10 + doubled) - log_cost(10) for doubled in range(most + 1)]
    value, n_doubled = VALUES[name], 2 * CANDIDATES + 1
    with localcontext() as exact:
        exact.prec = DIGITS
        best = value(Decimal(1))
        stretch = (RANGE - n_doubled) / (best - value(Decimal(CANDIDATES)))
        found: list[int] = []
        for doubled in range(most + 1):
            cost = (best - value(max(Decimal(1), Decimal(doubled) / 2))) * stretch
            whole = int(cost.quantize(Decimal(1), rounding=ROUND_HALF_EVEN))
            found.append(max(whole, found[-1] + 1) if found else whole)
    return found


@lru_cache(None)
def log_cost(number: int) -> int:
    """Return the cost of 2·(5 + rank): the sum of the rounded, stretched logarithms of its prime factors."""
    for factor in range(2, number):
        if number % factor == 0:
            return log_cost(factor) + log_cost(number // factor)
    with localcontext() as exact:
        exact.prec = DIGITS
        stretch = (RANGE - (2 * CANDIDATES + 1)) / (Decimal(2 * CANDIDATES + 10) / 10).ln()
        return int((Decimal(number).ln() * stretch).quantize(Decimal(1), rounding=ROUND_HALF_EVEN))


def ahead_and_tied(case: Case, query: int, weights: Sequence[int], name: str) -> tuple[int, int]:
    """Count the candidates ahead of, and level with, the answer, going through every candidate there is."""
    table = None if name == "score" else costs(name)
    answer = case.answers[query]
    ahead = tied = 0
    for j in case.dense[query][0]:
        if j == answer:
            continue
        total = 0
        for i, weight in enumerate(weights):
            if table is None:
                total += int(weight) * case.gaps[query][i][j]
            else:
                ranks = case.dense[query][i]
                total += int(weight) * (table[ranks[answer]] - table[ranks[j]])
        ahead += total > 0
        tied += total == 0
    return ahead, tied


def realistic_rank(case: Case, query: int, weights: Sequence[int], name: str) -> Fraction:
    """Return the answer's mean rank."""
    return tie_rules(*ahead_and_tied(case, query, weights, name))["realistic"]


def reciprocal_sum(case: Case, queries: Sequence[int], weights: Sequence[int], name: str) -> Fraction:
    """Return the sum of reciprocal mean ranks of some queries."""
    return sum((1 / realistic_rank(case, int(q), weights, name) for q in queries), Fraction(0))


def value_of_pairs(pairs: Pairs, weights: Sequence[Number]) -> Fraction:
    """Return the sum of reciprocal mean ranks that pairs give weights, which may be fractions."""
    value = Fraction(0)
    for q in range(pairs.n_queries):
        doubled = int(pairs.floor[q])
        for k in range(int(pairs.offsets[q]), int(pairs.offsets[q + 1])):
            total = sum(weight * int(pairs.advantage[i, k]) for i, weight in enumerate(weights))
            doubled += int(pairs.multiplicity[k]) * (2 if total > 0 else 1 if total == 0 else 0)
        value += Fraction(2, doubled)
    return value


@dataclass(frozen=True)
class Line:
    """Everything that happens on a line of weights, from λ = 0 to λ = 1.

    Attributes:
        at_zero: value at λ = 0, where the line begins.
        at_one: value at λ = 1, where it ends.
        breakpoints: where some pair is level and is not so nearby, ascending and distinct.
        at_breakpoints: values there.
        cuts: 0, the breakpoints, 1: the ends of the open intervals.
        inside: values in the open intervals.
    """

    at_zero: Fraction
    at_one: Fraction
    breakpoints: list[Fraction]
    at_breakpoints: list[Fraction]
    cuts: list[Fraction]
    inside: list[Fraction]

    @property
    def best_inside(self) -> Fraction:
        """The best value of any interval that floats can tell from a point."""
        return max(self.inside[i] for i in range(len(self.inside)) if self._is_wide(i))

    @property
    def widest_best(self) -> float:
        """The width of the widest interval that has it."""
        best = self.best_inside
        widths = [float(right) - float(left) for left, right in pairwise(self.cuts)]
        return max(width for width, value in zip(widths, self.inside, strict=True) if value == best)

    def ordered(self) -> list[tuple[float, float, float]]:
        """Return (value, width, left) of all intervals: the best first, then the widest, then the leftmost."""
        cuts = [float(cut) for cut in self.cuts]
        found = [
            (float(value), cuts[i + 1] - cuts[i], cuts[i]) for i, value in enumerate(self.inside) if self._is_wide(i)
        ]
        return sorted(found, key=lambda interval: (-interval[0], -interval[1], interval[2]))

    def _is_wide(self, i: int) -> bool:
        return float(self.cuts[i]) < float(self.cuts[i + 1])


def ends_of(weights: Sequence[int], model: int, giver: int | None = None) -> tuple[list[int], list[int]]:
    """Return the weights at both ends of the line of a model, or of the line on which ``giver`` gives to it."""
    near, far = [int(weight) for weight in weights], [0] * len(weights)
    if giver is None:
        near[model] = 0
        far[model] = sum(near)
    else:
        far = list(near)
        near[giver], near[model] = near[giver] + near[model], 0
        far[model], far[giver] = far[giver] + far[model], 0
    return near, far


def along(pairs: Pairs, weights: Sequence[int], model: int, giver: int | None = None) -> Line:
    """Scan the line of one model, or of two, exhaustively."""
    near, far = ends_of(weights, model, giver)
    breakpoints = set()
    for k in range(pairs.n_pairs):
        a, b = (sum(w * int(pairs.advantage[i, k]) for i, w in enumerate(end)) for end in (near, far))
        if a * b < 0:
            breakpoints.add(Fraction(abs(a), abs(a) + abs(b)))

    def value(share: Fraction) -> Fraction:
        return value_of_pairs(pairs, [w * (1 - share) + v * share for w, v in zip(near, far, strict=True)])

    found = sorted(breakpoints)
    cuts = [Fraction(0), *found, Fraction(1)]
    return Line(
        at_zero=value(Fraction(0)),
        at_one=value(Fraction(1)),
        breakpoints=found,
        at_breakpoints=[value(share) for share in found],
        cuts=cuts,
        inside=[value((left + right) / 2) for left, right in pairwise(cuts)],
    )


def assert_no_line_is_better(pairs: Pairs, weights: Sequence[int], value: float, least_gain: float) -> None:
    """No line through the weights has a better endpoint, nor any better interval that the grid can meet."""
    # The line of two models alone is that of either; only its ends, the vertices, are not part of an ascent.
    couples = [(model, giver) for giver in range(len(weights)) for model in range(giver) if len(weights) > 2]
    for model, giver in [*((model, None) for model in range(len(weights))), *couples]:
        near, far = ends_of(weights, model, giver)
        if not any(near) or not any(far):
            continue
        line = along(pairs, weights, model, giver)
        assert line.at_zero < value + least_gain + 1e-12
        for inside, width, _ in line.ordered():
            assert inside < value + least_gain + 1e-12 or width < 64 / WEIGHT_LIMIT


def shrunk(own: Sequence[int], common: Sequence[int], n: int, kappa: float, scales: Sequence[float]) -> list[float]:
    """Return the shrunk weights, normalised to sum 1 on standardised inputs, and back on the raw ones."""
    mine = [w * s for w, s in zip(own, scales, strict=True)]
    all_ = [w * s for w, s in zip(common, scales, strict=True)]
    mine, all_ = [w / sum(mine) for w in mine], [w / sum(all_) for w in all_]
    mixed = [(n * a + kappa * b) / (n + kappa) for a, b in zip(mine, all_, strict=True)]
    return [w / s for w, s in zip(mixed, scales, strict=True)]
