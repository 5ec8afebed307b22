"""Cross-validation inside the validation split: which input, and how much shrinkage. The test split is never seen."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from relens.clusters.remote import Remote
from relens.ensemble.inputs import Input
from relens.ensemble.objective import answer_ranks
from relens.ensemble.shrinkage import Shrinkage
from relens.ensemble.sweep import sweep_groups
from relens.packs.thinning import ContestedViews
from relens.progress import SILENT, Progress
from relens.seeding import generator

FOLDS = 5
ROUNDING = 1e-12
"""MRRs that differ by less are equal: sums of the same reciprocal ranks, added up in another order."""


@dataclass(frozen=True)
class Choice:
    """The input and the strength of shrinkage with the best cross-validated MRR, and all MRRs it was chosen from."""

    input: Input
    kappa: float
    scores: dict[Input, dict[float, float]]


def choose(
    views: ContestedViews,
    group: npt.NDArray[np.int32],
    inputs: Sequence[Input],
    kappas: Sequence[float],
    *,
    seed: int = 0,
    jobs: int = 1,
    remote: Remote | None = None,
    progress: Progress = SILENT,
) -> Choice:
    """Try every input and strength on held-out folds; ``group`` (Q,) is each query's group.

    Ties go to the earlier input and the larger κ: where the queries, often because they are few, tell no difference,
    weights per group have nothing to show for themselves. With fewer than two triples nothing can be held out: the
    first input and the largest κ are taken.

    The usual stronger rule, the largest κ within one standard error of the best, was tried and is not used: with 6 to
    400 validation triples it was no better than this within noise, and with more it lost up to .0008 of test MRR.
    """
    packed = views.packed
    fold = folds(packed.queries.triple, seed)
    n_folds = int(fold.max(initial=0)) + 1
    if n_folds < 2 or len(inputs) * len(kappas) == 1:
        return Choice(inputs[0], max(kappas), {})
    scores: dict[Input, dict[float, float]] = {}
    with progress.task("cross-validation", len(inputs) * n_folds) as advance:
        for name in inputs:
            sums = np.zeros(len(kappas))
            for held_out in range(n_folds):
                sums += _held_out_sums(views, group, fold == held_out, name, kappas, jobs, remote)
                advance(1)
            scores[name] = dict(zip(kappas, (sums / packed.n_queries).tolist(), strict=True))
    least = max(score for row in scores.values() for score in row.values()) - ROUNDING
    best = next(name for name in inputs if max(scores[name].values()) >= least)
    return Choice(best, max(kappa for kappa in kappas if scores[best][kappa] >= least), scores)


def folds(triple: npt.NDArray[np.int32], seed: int) -> npt.NDArray[np.int64]:
    """Return the fold of each query, (Q,), at random by triple: the queries of one triple stay together."""
    triples, index = np.unique(triple, return_inverse=True)
    of_triple = np.arange(len(triples)) % FOLDS
    generator(seed, "folds").shuffle(of_triple)
    return of_triple[index]


def _held_out_sums(
    views: ContestedViews,
    group: npt.NDArray[np.int32],
    held_out: npt.NDArray[np.bool_],
    name: Input,
    kappas: Sequence[float],
    jobs: int,
    remote: Remote | None = None,
) -> npt.NDArray[np.float64]:
    """Fit on the other queries; return the reciprocal sums of the held-out ones for each strength of shrinkage."""
    kept, test = np.flatnonzero(~held_out), np.flatnonzero(held_out)
    searched, members = split_by_group(group, kept)
    support = np.array([len(index) for index in members])
    # With infinite shrinkage alone there is nothing to search in the groups.
    wanted = members if any(np.isfinite(kappas)) else []
    overall, found = sweep_groups(views, kept, wanted, name, lossless=False, jobs=jobs, remote=remote)
    common = overall.weights
    own = np.array([result.weights for result in found]) if found else np.tile(common, (len(members), 1))
    shrinkage = Shrinkage.fit(views, kept, name)
    n_groups = int(group.max()) + 1
    sums = []
    for kappa in kappas:
        table = np.tile(common, (n_groups, 1))
        table[searched] = shrinkage.shrink(own, common, support, kappa)
        ranks = answer_ranks(views.packed, table, group, name=name, queries=test, jobs=jobs)
        sums.append(np.sum(1.0 / ranks.realistic))
    return np.array(sums)


def split_by_group(
    group: npt.NDArray[np.int32], queries: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], list[npt.NDArray[np.int64]]]:
    """Return the groups that occur among ``queries`` (n,), ascending, and the positions of each one's queries."""
    order = queries[np.argsort(group[queries], kind="stable")]
    present, first = np.unique(group[order], return_index=True)
    return present.astype(np.int64), np.split(order, first[1:]) if len(order) else []
