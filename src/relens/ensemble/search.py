"""Searching the weights of groups with the sweep: a wide search on reduced pairs, an exact finish on all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

import numpy as np
import numpy.typing as npt

from relens.ensemble.grid import Weights, near_vertices, uniform, vertices
from relens.ensemble.inputs import Input
from relens.ensemble.objective import reciprocal_sums
from relens.ensemble.pairs import Pairs, Views
from relens.ensemble.parallel import run_batches
from relens.ensemble.sweep import ascend
from relens.progress import SILENT, Progress

Members = npt.NDArray[np.int64]
"""Positions of the queries of a group, (n,)."""


LOSSLESS_LIMIT = 50_000
"""A group with more pairs finishes on the fine view; what it finds counts only as far as all pairs confirm it."""
TOPS = 3
"""Ends of ascents on reduced pairs that are tried on all of them."""
ROUNDS = 20
"""Bound on the rounds of one ascent; most end after three."""
WIDE_GAIN, FINE_GAIN = 1e-5, 1e-6
"""Gain in MRR worth a step in the wide search, and in the finish."""


@dataclass(frozen=True)
class Found:
    """What a search found for one group.

    Attributes:
        weights: grid weights, (N,).
        value: their sum of reciprocal ranks over the group's queries, from lossless pairs.
        trace: (steps, 3): seconds since the search began, weight vectors or lines evaluated, best sum so far.
    """

    weights: Weights
    value: float
    trace: npt.NDArray[np.float64]


def sweep(
    views: Views,
    members: Sequence[Members],
    name: Input,
    *,
    incumbents: Sequence[Weights] = (),
    lossless: bool = True,
    jobs: int = 1,
    progress: Progress = SILENT,
) -> list[Found]:
    """Search each group's weights; never worse than equal weights, a single model or any of ``incumbents``.

    Args:
        views: validation ranks and their views.
        members: query positions of each group, each (n,) with n ≥ 1.
        name: what the weights are applied to.
        incumbents: further starting points, (N,) each.
        lossless: whether to finish on all pairs; without, values are those of the reduced pairs.
        jobs: threads.
        progress: where to show it.
    """
    begun = monotonic()
    packed, n = views.packed, views.packed.n_models
    starts = [uniform(n), *incumbents, *near_vertices(n)] if n > 1 else [uniform(n)]
    wide = [Pairs.gather(packed, views.wide, queries, name) for queries in members]

    def climb(task: tuple[int, int]) -> tuple[Weights, float, float]:
        return _ascend(wide[task[0]], starts[task[1]], WIDE_GAIN)

    tasks = [(group, start) for group in range(len(members)) for start in range(len(starts))]
    costs = [wide[group].n_pairs + 1000.0 for group, _ in tasks]
    climbed = run_batches(climb, tasks, jobs=jobs, costs=costs, progress=progress, description="searching weights")

    def finish(group: int) -> Found:
        tops = sorted(climbed[group * len(starts) : (group + 1) * len(starts)], key=lambda top: -top[1])
        distinct = list({tuple(top[0]): top[0] for top in tops}.values())
        lines = sum(top[2] for top in tops)
        if not lossless:
            return Found(distinct[0], tops[0][1], np.array([[monotonic() - begun, lines, tops[0][1]]]))
        candidates = [uniform(n), *distinct[:TOPS], *incumbents, *vertices(n)]
        # One group alone gets all workers for its evaluations.
        return _finish(views, members[group], name, candidates, lines, begun, jobs if len(members) == 1 else 1)

    sizes = [float(views.lossless.n_pairs(queries)) for queries in members]
    return run_batches(
        finish, range(len(members)), jobs=jobs, costs=sizes, progress=progress, description="finishing exactly"
    )


def _ascend(pairs: Pairs, start: Weights, gain: float) -> tuple[Weights, float, float]:
    """Return the weights an ascent reaches, their reciprocal sum on ``pairs``, and the lines it swept."""
    least = gain * pairs.n_queries
    weights, value, trace = ascend(
        pairs.advantage, pairs.offsets, pairs.floor, pairs.multiplicity, start, least, ROUNDS
    )
    return weights, value, trace[-1, 0]


def _finish(
    views: Views, members: Members, name: Input, candidates: list[Weights], lines: float, begun: float, jobs: int
) -> Found:
    """Ascend from the best candidate; the first candidate opens the trace. All values are lossless."""
    values = reciprocal_sums(views.packed, members, name, candidates, jobs=jobs)
    at = int(np.argmax(values))
    weights, value = candidates[at], values[at]
    evaluations = lines + len(candidates)
    trace = [[monotonic() - begun, 1.0, values[0]], [monotonic() - begun, evaluations, value]]
    view = views.lossless if views.lossless.n_pairs(members) <= LOSSLESS_LIMIT else views.fine
    reached, _, more = _ascend(Pairs.gather(views.packed, view, members, name), weights, FINE_GAIN)
    reached_value = reciprocal_sums(views.packed, members, name, [reached], jobs=jobs)[0]
    if reached_value > value:
        weights, value = reached, reached_value
    trace.append([monotonic() - begun, evaluations + more + 1, value])
    return Found(weights, value, np.array(trace))
