"""Searching by sampling: the objective is a black box, evaluated at a number of proposed weights (Algorithm 1)."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from relens.clusters.parallel import run_batches
from relens.ensemble.context import QueryIndex, SearchContext, SearchResult
from relens.ensemble.distributed import search_remotely
from relens.ensemble.grid import to_grid
from relens.ensemble.inputs import INPUTS
from relens.ensemble.objective import answer_ranks, reciprocal_sums
from relens.ensemble.searchers import SEARCHERS
from relens.ensemble.searchers.base import Searcher
from relens.packs.pack import PackedRanks
from relens.seeding import generator

Point = npt.NDArray[np.float64]
"""Proposed weights, each from 0 to 1."""
Record = Callable[[Point], float]
"""Evaluates a proposal and returns its value."""

WORTHLESS = 0.0
"""Value of weights that are all zero, which rank nothing: less than any reciprocal sum."""


class _Settings(NamedTuple):
    """How groups are sampled, in plain values that other processes and machines understand."""

    input: str
    searcher: str
    trials: int
    seed: int


class _Task(NamedTuple):
    """A group to search: ranks, its query positions, its number, settings, and the time when the search began."""

    packed: PackedRanks
    queries: QueryIndex
    group: int
    settings: _Settings
    begun: float


class Sampler(Searcher):
    """A searcher that proposes weights in [0, 1]^N, evaluates them, and keeps the best."""

    samples = True
    joint = True

    @abstractmethod
    def propose(self, record: Record, dimension: int, trials: int, rng: np.random.Generator) -> None:
        """Call ``record`` with ``trials`` points of (dimension,), the first of them equal weights."""

    def search(self, context: SearchContext, members: Sequence[QueryIndex]) -> list[SearchResult]:
        """Search each group's weights, in processes of their own or on a cluster."""
        begun = monotonic()
        description = f"{self.name}, {context.trials} trials a group"
        settings = _Settings(context.input.name, self.name, context.trials, context.seed)
        if context.remote is not None:
            return search_remotely(
                context.remote, context, _sample_part, members, tuple(settings), description=description
            )
        tasks = [_Task(context.packed, queries, g, settings, begun) for g, queries in enumerate(members)]
        costs = [float(context.trials)] * len(tasks)
        return run_batches(
            _sample_group, tasks, jobs=context.jobs, costs=costs, send=_with_its_queries,
            progress=context.progress, description=description,
        )  # fmt: skip

    def search_jointly(self, context: SearchContext) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Search the weights of all groups as one vector of G·N parameters."""
        present, dense = np.unique(context.group_of_query, return_inverse=True)
        group, trials = dense.astype(np.int32), context.trials
        shape = (len(present), context.packed.n_models)
        description = f"{self.name}, {trials} trials of {shape[0]}×{shape[1]} parameters"
        with context.progress.task(description, trials) as advance:

            def value(point: Point) -> float:
                advance(1)
                rows = point.reshape(shape)
                if not rows.any(axis=1).all():
                    return WORTHLESS
                ranks = answer_ranks(context.packed, to_grid(rows), group, input=context.input, jobs=context.jobs)
                return float(np.sum(1.0 / ranks.realistic))

            rng = generator(context.seed, self.name, "jointly")
            best, trace = self.maximise(value, shape[0] * shape[1], trials, rng, monotonic())
        return to_grid(best.reshape(shape)), trace

    def maximise(
        self, value: Record, dimension: int, trials: int, rng: np.random.Generator, begun: float
    ) -> tuple[Point, npt.NDArray[np.float64]]:
        """Return the best of ``trials`` points, and the trace (steps, 3): seconds, evaluations, best value so far."""
        best = np.full(dimension, np.nan)
        best_value = -np.inf
        trace: list[tuple[float, float, float]] = []
        evaluations = 0

        def record(point: Point) -> float:
            nonlocal best, best_value, evaluations
            found = value(point)
            evaluations += 1
            if found > best_value:
                best, best_value = point, found
                trace.append((monotonic() - begun, evaluations, found))
            return found

        self.propose(record, dimension, trials, rng)
        trace.append((monotonic() - begun, evaluations, best_value))
        return best, np.array(trace)

    def resolved_settings(self, context: SearchContext) -> dict[str, Any]:
        """Record the number of trials."""
        return {"trials": context.trials}


def _sample_part(
    packed: PackedRanks, members: Sequence[QueryIndex], numbers: Sequence[int], settings: tuple[str, str, int, int]
) -> list[SearchResult]:
    """Sample the weights of some groups, on a worker."""
    begun = monotonic()
    return [
        _sample_group(_Task(packed, queries, group, _Settings(*settings), begun))
        for queries, group in zip(members, numbers, strict=True)
    ]


def _with_its_queries(task: _Task) -> _Task:
    """Return a task with a copy of the ranks that it reads, and of no others."""
    ranks = task.packed if INPUTS[task.settings.input].needs_gaps else task.packed.without_gaps()
    return task._replace(packed=ranks.select_queries(task.queries), queries=np.arange(len(task.queries)))


def _sample_group(task: _Task) -> SearchResult:
    packed, settings = task.packed, task.settings
    input, sampler = INPUTS[settings.input], SEARCHERS[settings.searcher]
    assert isinstance(sampler, Sampler)  # its own search has made the task

    def value(point: Point) -> float:
        if not point.any():
            return WORTHLESS
        return float(reciprocal_sums(packed, task.queries, input, [to_grid(point)])[0])

    rng = generator(settings.seed, sampler.name, task.group)
    best, trace = sampler.maximise(value, packed.n_models, settings.trials, rng, task.begun)
    return SearchResult(to_grid(best), trace[-1, 2], trace)
