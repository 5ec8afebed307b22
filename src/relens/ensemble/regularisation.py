"""Regularisation: shrinkage towards the global weights, and the cross-validation that chooses its strength.

Cross-validation works inside the validation split and chooses the input, too. The test split is never read.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from relens.ensemble.context import QueryIndex, SearchContext, split_by_group
from relens.ensemble.grid import Weights, to_grid
from relens.ensemble.inputs.base import Input
from relens.ensemble.objective import answer_ranks
from relens.ensemble.pairs import Pairs
from relens.packs.thinning import ContestedViews
from relens.progress import SILENT, Advance
from relens.seeding import generator

KAPPAS = (3.0, 10.0, 30.0, 100.0, 300.0, math.inf)
"""Strengths that cross-validation chooses from; infinity uses the global weights.

0, which keeps the groups' own weights, is not among them. On held-out halves of five graphs it gained nothing on
average and lost most in the worst case: ``benchmarks/bench_overfitting.py``.
"""
FOLDS = 5
ROUNDING = 1e-12
"""MRRs that differ by less are equal: they are sums of the same reciprocal ranks in another order."""


@dataclass(frozen=True)
class Shrinkage:
    """w = (n·w_group + κ·w_global)/(n + κ), both normalised to sum 1 on standardised inputs.

    ``scales`` (N,) is the mean size of each model's advantages: weights times scales are comparable across models.
    """

    scales: npt.NDArray[np.float64]

    @classmethod
    def from_pairs(cls, views: ContestedViews, queries: QueryIndex, input: Input) -> "Shrinkage":
        """Measure the scales on the wide view of the queries at ``queries`` (n,)."""
        pairs = Pairs.gather(views.packed, views.wide, queries, input)
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


@dataclass(frozen=True)
class Choice:
    """The input and the strength of shrinkage with the best cross-validated MRR.

    ``scores`` holds all MRRs, by the name of the input and the strength; it is empty if there was nothing to choose.
    """

    input: Input
    kappa: float
    scores: dict[str, dict[float, float]]


def choose(context: SearchContext, inputs: Sequence[Input], kappas: Sequence[float]) -> Choice:
    """Try every input and strength on held-out folds; the input and strength of ``context`` are not used.

    Ties go to the earlier input and the larger κ: if the queries show no difference, often because they are few, the
    groups' own weights have proved nothing. With fewer than two triples nothing can be held out: the first input and
    the largest κ are taken.

    The usual stronger rule, the largest κ within one standard error of the best, was tried and is not used: with 6 to
    400 validation triples it was no better than this within noise, and with more it lost up to .0008 of test MRR. A
    guard that uses the global weights unless the gain of the groups exceeds its standard error loses on average, too.
    """
    if len(inputs) * len(kappas) == 1:
        return Choice(inputs[0], kappas[0], {})
    fold = folds(context.packed.queries.triple, context.seed)
    n_folds = int(fold.max(initial=0)) + 1
    if n_folds < 2:
        return Choice(inputs[0], max(kappas), {})
    scores: dict[str, dict[float, float]] = {}
    with context.progress.task("cross-validation", len(inputs) * n_folds) as advance:
        for input in inputs:
            tried = replace(context, input=input, progress=SILENT)
            mrrs = cross_validate(tried, fold, kappas, advance).mean(axis=1)
            scores[input.name] = dict(zip(kappas, mrrs.tolist(), strict=True))
    least = max(score for row in scores.values() for score in row.values()) - ROUNDING
    best = next(input for input in inputs if max(scores[input.name].values()) >= least)
    return Choice(best, max(kappa for kappa in kappas if scores[best.name][kappa] >= least), scores)


def folds(triple: npt.NDArray[np.int32], seed: int) -> npt.NDArray[np.int64]:
    """Return the fold of each query, (Q,), at random by triple: the queries of one triple stay together."""
    triples, index = np.unique(triple, return_inverse=True)
    of_triple = np.arange(len(triples)) % FOLDS
    generator(seed, "folds").shuffle(of_triple)
    return of_triple[index]


def cross_validate(
    context: SearchContext, fold: npt.NDArray[np.int64], kappas: Sequence[float], advance: Advance = lambda _: None
) -> npt.NDArray[np.float64]:
    """Return the reciprocal rank of each query by a search on the other folds, for each strength, (κs, Q).

    ``fold`` (Q,) is that of ``folds``; ``advance`` is told of each fold.
    """
    reciprocal = np.zeros((len(kappas), len(fold)))
    for held_out in range(int(fold.max()) + 1):
        test = fold == held_out
        reciprocal[:, test] = _held_out(context, test, kappas)
        advance(1)
    return reciprocal


def _held_out(
    context: SearchContext, held_out: npt.NDArray[np.bool_], kappas: Sequence[float]
) -> npt.NDArray[np.float64]:
    """Search on the other queries; return the reciprocal ranks of the n held-out ones for each strength, (κs, n)."""
    group = context.group_of_query
    kept, test = np.flatnonzero(~held_out), np.flatnonzero(held_out)
    searched, members = split_by_group(group, kept)
    support = np.array([len(index) for index in members])
    # With infinite shrinkage alone there is nothing to search in the groups.
    wanted = members if any(np.isfinite(kappas)) else []
    overall, found = context.searcher.search_groups(context, kept, wanted, lossless=False)
    common = overall.weights
    own = np.array([result.weights for result in found]) if found else np.tile(common, (len(members), 1))
    shrinkage = Shrinkage.from_pairs(context.views, kept, context.input)
    n_groups = int(group.max()) + 1
    reciprocal = np.empty((len(kappas), len(test)))
    for kappa, row in zip(kappas, reciprocal, strict=True):
        table = np.tile(common, (n_groups, 1))
        table[searched] = shrinkage.shrink(own, common, support, kappa)
        ranks = answer_ranks(context.packed, table, group, input=context.input, queries=test, jobs=context.jobs)
        row[:] = 1.0 / ranks.realistic
    return reciprocal
