"""Sparse weights: a few models per group, so that a prediction has to run only those."""

from collections.abc import Sequence

import numpy as np

from relens.ensemble.grid import Weights, vertices
from relens.ensemble.inputs import Input
from relens.ensemble.objective import reciprocal_sums
from relens.ensemble.pairs import Pairs
from relens.ensemble.parallel import run_batches
from relens.ensemble.results import QueryIndex
from relens.ensemble.sweep_kernels import ascend, values_without
from relens.packs.thinning import ContestedViews
from relens.progress import SILENT, Progress

ROUNDS = 20
"""Bound on the rounds of the last ascent."""


def sparsify(
    views: ContestedViews,
    members: Sequence[QueryIndex],
    weights: Sequence[Weights],
    name: Input,
    limit: int,
    *,
    jobs: int = 1,
    progress: Progress = SILENT,
) -> list[Weights]:
    """Return weights of at most ``limit`` models for each group.

    Models are taken away one by one, each time the one whose loss costs the least on the wide view; the weights of
    those that stay are searched once more, and count where the MRR of all pairs confirms it. No group that loses a
    model ends up worse than with its best single one.

    Args:
        views: validation ranks and their views.
        members: query positions of each group, each (n,) with n ≥ 1.
        weights: grid weights of each group, each (N,).
        name: what the weights are applied to.
        limit: models that may keep a weight, at least 1.
        jobs: threads; the result does not depend on them.
        progress: where to show it.
    """
    crowded = [at for at, own in enumerate(weights) if np.count_nonzero(own) > limit]
    views.wide  # noqa: B018  # made once, before threads ask for it

    def fewer(at: int) -> Weights:
        return _fewer(views, members[at], weights[at], name, limit)

    costs = [float(views.wide.n_pairs(members[at])) + 1.0 for at in crowded]
    found = run_batches(fewer, crowded, jobs=jobs, costs=costs, progress=progress, description="leaving models out")
    result = list(weights)
    for at, own in zip(crowded, found, strict=True):
        result[at] = own
    return result


def _fewer(views: ContestedViews, queries: QueryIndex, weights: Weights, name: Input, limit: int) -> Weights:
    """Return the weights of one group with at most ``limit`` models."""
    pairs = Pairs.gather(views.packed, views.wide, queries, name)
    fewer = weights.copy()
    while np.count_nonzero(fewer) > limit:
        fewer[_least_missed(pairs, fewer)] = 0
    kept = np.flatnonzero(fewer)
    searched = np.zeros_like(weights)
    searched[kept] = ascend(
        np.ascontiguousarray(pairs.advantage[kept]), pairs.offsets, pairs.floor, pairs.multiplicity, weights[kept],
        0.0, ROUNDS,
    )[0]  # fmt: skip
    candidates = [fewer, searched, *vertices(len(weights))]
    return candidates[int(np.argmax(reciprocal_sums(views.packed, queries, name, candidates)))]


def _least_missed(pairs: Pairs, weights: Weights) -> int:
    """Return the model with a weight whose loss leaves the best reciprocal sum; of equals the lightest."""
    kept = np.flatnonzero(weights)
    values = values_without(pairs.advantage, pairs.offsets, pairs.floor, pairs.multiplicity, weights, kept)
    return int(kept[np.lexsort((weights[kept], -values))[0]])
