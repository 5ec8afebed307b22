"""The search of groups with the sweep: a wide search on thinned pairs, then an exact finish on all of them."""

from collections.abc import Sequence
from functools import lru_cache
from time import monotonic
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from relens.clusters.parallel import run_batches
from relens.ensemble.context import QueryIndex, SearchContext, SearchResult
from relens.ensemble.distributed import search_remotely
from relens.ensemble.grid import Weights, near_vertices, to_grid, uniform, vertices
from relens.ensemble.inputs import INPUTS
from relens.ensemble.objective import answer_ranks, reciprocal_sums
from relens.ensemble.pairs import Pairs
from relens.ensemble.searchers import SEARCHERS
from relens.ensemble.sweep_kernels import ascend, values_at
from relens.packs.pack import PackedRanks
from relens.packs.thinning import ContestedView, ContestedViews
from relens.seeding import generator

WIDE_PAIRS = 100_000
"""A group with more pairs on the wide view climbs on an evenly spaced sample of its queries."""
LOSSLESS_PAIRS = 20_000
"""A group with more pairs finishes on the fine view; its result counts only if all pairs confirm it."""
TOPS = 3
"""Ends of ascents on thinned pairs that are evaluated on all pairs."""
NEAR_STARTS = 3
"""Starts near a vertex in each group."""
SMALL_PAIRS = 5_000
"""A group with up to so many pairs on the wide view has starts at random, too: its MRR has many local maxima."""
SAMPLED, SAMPLED_STARTS = 128, 3
"""Weights at random that are evaluated for such starts, and how many of them become starts."""
ROUNDS = 20
"""Bound on the rounds of one ascent; most end after three."""
WIDE_GAIN, FINE_GAIN = 1e-5, 1e-6
"""Gain in MRR worth a step in the wide search, and in the finish."""


class End(NamedTuple):
    """Where an ascent ended: its weights, their reciprocal sum on the pairs it saw, and the lines it swept."""

    weights: Weights
    value: float
    lines: float


def sweep(context: SearchContext, members: Sequence[QueryIndex], *, lossless: bool = True) -> list[SearchResult]:
    """Search each group's weights; none ends up worse than equal weights or a single model.

    Args:
        context: of the search.
        members: query positions of each group, each (n,) with n ≥ 1.
        lossless: whether to finish on all pairs; without, values are those of the thinned pairs.
    """
    search = _Search(context, lossless=lossless)
    return search.finish(members, search.climb(members), [])


def sweep_groups(
    context: SearchContext, queries: QueryIndex, members: Sequence[QueryIndex], *, lossless: bool = True
) -> tuple[SearchResult, list[SearchResult]]:
    """Search the global weights and each group's; with ``lossless`` no group ends up worse than with the global ones.

    The groups start from the global weights as they are after the wide search, so that the rest of the global search
    runs beside theirs. ``queries`` (n,) are those of the global search; the other arguments are ``sweep``'s.
    """
    search = _Search(context, lossless=lossless)
    overall = search.climb([queries])
    common = max(overall[0], key=lambda end: end.value).weights
    if context.remote is None:
        climbed = search.climb(members, [common])
        found, *groups = search.finish([queries, *members], [*overall, *climbed], [common])
    else:
        settings = (context.input.name, context.searcher.name, lossless, common.tolist())
        groups = search_remotely(
            context.remote, context, _sweep_part, members, settings, description="searching weights"
        )  # fmt: skip
        (found,) = search.finish([queries], overall, [common])
    if lossless:
        reciprocal = np.zeros(context.packed.n_queries)
        reciprocal[queries] = 1.0 / answer_ranks(
            context.packed, found.weights, input=context.input, queries=queries, jobs=context.jobs
        ).realistic  # fmt: skip
        groups = [
            _better(group, found.weights, float(reciprocal[own].sum()))
            for group, own in zip(groups, members, strict=True)
        ]
    return found, groups


def _sweep_part(
    packed: PackedRanks,
    members: Sequence[QueryIndex],
    numbers: Sequence[int],
    settings: tuple[str, str, bool, list[int]],
) -> list[SearchResult]:
    """Search some groups as ``sweep_groups`` does, on a worker."""
    del numbers
    input, searcher, lossless, common = settings
    search = _Search(SearchContext(ContestedViews(packed), INPUTS[input], SEARCHERS[searcher]), lossless=lossless)
    incumbents = [np.array(common, dtype=np.int64)]
    return search.finish(members, search.climb(members, incumbents), incumbents)


def _better(found: SearchResult, weights: Weights, value: float) -> SearchResult:
    """Return ``found``, or the other weights if their ``value`` is higher."""
    if value <= found.value:
        return found
    last = [found.trace[-1, 0], found.trace[-1, 1] + 1, value]
    return SearchResult(weights, value, np.vstack([found.trace, last]))


class _Search:
    """One search: the wide ascents, and the exact finish."""

    def __init__(self, context: SearchContext, *, lossless: bool) -> None:
        self.views, self.input, self.lossless = context.views, context.input, lossless
        self.jobs, self.progress = context.jobs, context.progress
        self.n_models = context.packed.n_models
        self.begun = monotonic()

    def climb(self, members: Sequence[QueryIndex], incumbents: Sequence[Weights] = ()) -> list[list[End]]:
        """Ascend on the wide view from several starts in each group; return the ends of each group's ascents."""
        wide = [self._gather(self.views.wide, queries, WIDE_PAIRS) for queries in members]
        starts = [_starts(pairs, [uniform(self.n_models), *incumbents]) for pairs in wide]
        tasks = [(group, start) for group, of_group in enumerate(starts) for start in of_group]

        def climb(task: tuple[int, Weights]) -> End:
            return _ascend(wide[task[0]], task[1], WIDE_GAIN)

        costs = [wide[group].n_pairs + 1000.0 for group, _ in tasks]
        ends = iter(
            run_batches(
                climb, tasks, jobs=self.jobs, costs=costs, progress=self.progress, description="searching weights"
            )
        )
        return [[next(ends) for _ in of_group] for of_group in starts]

    def finish(
        self, members: Sequence[QueryIndex], climbed: Sequence[list[End]], incumbents: Sequence[Weights]
    ) -> list[SearchResult]:
        """Continue from the best end of each group, on all its pairs."""

        def finish(group: int) -> SearchResult:
            ends = sorted(climbed[group], key=lambda end: -end.value)
            if not self.lossless:
                at = [monotonic() - self.begun, sum(end.lines for end in ends), ends[0].value]
                return SearchResult(ends[0].weights, ends[0].value, np.array([at]))
            # One group alone gets all workers for its evaluations.
            return self._finish(members[group], ends, incumbents, self.jobs if len(members) == 1 else 1)

        costs = [float(self.views.lossless.n_pairs(queries)) for queries in members]
        return run_batches(
            finish, range(len(members)), jobs=self.jobs, costs=costs,
            progress=self.progress, description="finishing exactly",
        )  # fmt: skip

    def _finish(self, members: QueryIndex, ends: list[End], incumbents: Sequence[Weights], jobs: int) -> SearchResult:
        """Ascend from the best candidate. The trace starts at equal weights. All values are lossless."""
        tops = list({tuple(end.weights): end.weights for end in ends}.values())[:TOPS]
        candidates = [uniform(self.n_models), *tops, *incumbents, *vertices(self.n_models)]
        values = reciprocal_sums(self.views.packed, members, self.input, candidates, jobs=jobs)
        at = int(np.argmax(values))
        weights, value = candidates[at], float(values[at])
        evaluations = sum(end.lines for end in ends) + len(candidates)
        trace = [[self._seconds(), 1.0, values[0]], [self._seconds(), evaluations, value]]
        whole = self.views.lossless.n_pairs(members) <= LOSSLESS_PAIRS
        end = _ascend(self._gather(self.views.lossless if whole else self.views.fine, members), weights, FINE_GAIN)
        reached = float(reciprocal_sums(self.views.packed, members, self.input, [end.weights], jobs=jobs)[0])
        if reached > value:
            weights, value = end.weights, reached
        trace.append([self._seconds(), evaluations + end.lines + 1, value])
        return SearchResult(weights, value, np.array(trace))

    def _gather(self, view: ContestedView, members: QueryIndex, limit: int | None = None) -> Pairs:
        """Gather the pairs of a group, or of every s-th query if all pairs are more than ``limit``."""
        # An odd step, because the directions of a triple usually alternate.
        step = 1 if limit is None else view.n_pairs(members) // limit | 1
        return Pairs.gather(self.views.packed, view, members[::step], self.input)

    def _seconds(self) -> float:
        return monotonic() - self.begun


def _starts(pairs: Pairs, always: list[Weights]) -> list[Weights]:
    """Return the starts ``always``, the most promising ones near a vertex, and in a small group some at random."""
    near = near_vertices(len(pairs.advantage))
    if len(near) == 1:
        return always
    starts = [*always, *_best(pairs, np.stack(near), NEAR_STARTS)]
    return starts + _best(pairs, _sampled(len(near)), SAMPLED_STARTS) if pairs.n_pairs <= SMALL_PAIRS else starts


def _best(pairs: Pairs, table: npt.NDArray[np.int64], n: int) -> list[Weights]:
    """Return the ``n`` best of the weights ``table`` (M, N)."""
    values = values_at(pairs.advantage, pairs.offsets, pairs.floor, pairs.multiplicity, table)
    return list(table[np.argsort(-values, kind="stable")[:n]])


@lru_cache(maxsize=16)
def _sampled(n_models: int) -> npt.NDArray[np.int64]:
    """Return weights at random, the same in every group, (SAMPLED, N); squares make them less equal."""
    return to_grid(generator(0, "starts").random((SAMPLED, n_models)) ** 2)


def _ascend(pairs: Pairs, start: Weights, gain: float) -> End:
    """Ascend on ``pairs`` while a step gains at least ``gain`` in MRR."""
    least = gain * pairs.n_queries
    weights, value, trace = ascend(
        pairs.advantage, pairs.offsets, pairs.floor, pairs.multiplicity, start, least, ROUNDS
    )
    return End(weights, value, trace[-1, 0])
