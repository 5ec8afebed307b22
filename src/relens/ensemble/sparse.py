"""Sparse weights: a few models per group, so that a prediction runs only those."""

from collections.abc import Sequence

import numpy as np

from relens.clusters.parallel import run_batches
from relens.ensemble.context import QueryIndex, SearchContext
from relens.ensemble.grid import Weights, vertices
from relens.ensemble.objective import reciprocal_sums
from relens.ensemble.pairs import Pairs
from relens.ensemble.sweep_kernels import ascend, values_without

ROUNDS = 20
"""Bound on the rounds of the last ascent."""


def sparsify(
    context: SearchContext, members: Sequence[QueryIndex], weights: Sequence[Weights], limit: int
) -> list[Weights]:
    """Return weights of at most ``limit`` models for each group.

    Models are removed one by one, each time the one whose loss costs least on the wide view. The weights of the
    remaining models are searched once more, and used if the MRR of all pairs confirms them. No group that loses a model
    ends up worse than with its best single model.

    Args:
        context: of the search.
        members: query positions of each group, each (n,) with n ≥ 1.
        weights: grid weights of each group, each (N,).
        limit: models that may keep a weight, at least 1.
    """
    crowded = [at for at, own in enumerate(weights) if np.count_nonzero(own) > limit]
    wide = context.views.wide  # made once, before threads ask for it

    def fewer(at: int) -> Weights:
        return _fewer(context, members[at], weights[at], limit)

    costs = [float(wide.n_pairs(members[at])) + 1.0 for at in crowded]
    found = run_batches(
        fewer, crowded, jobs=context.jobs, costs=costs, progress=context.progress, description="removing models"
    )
    result = list(weights)
    for at, own in zip(crowded, found, strict=True):
        result[at] = own
    return result


def _fewer(context: SearchContext, queries: QueryIndex, weights: Weights, limit: int) -> Weights:
    """Return the weights of one group with at most ``limit`` models."""
    pairs = Pairs.gather(context.packed, context.views.wide, queries, context.input)
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
    return candidates[int(np.argmax(reciprocal_sums(context.packed, queries, context.input, candidates)))]


def _least_missed(pairs: Pairs, weights: Weights) -> int:
    """Return the weighted model whose loss leaves the best reciprocal sum; the lightest model wins ties."""
    kept = np.flatnonzero(weights)
    values = values_without(pairs.advantage, pairs.offsets, pairs.floor, pairs.multiplicity, weights, kept)
    return int(kept[np.lexsort((weights[kept], -values))[0]])
