"""Searching by sampling: the paper's TPE, and random search. Both see the objective as a black box."""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from relens.clusters.remote import Remote
from relens.ensemble.grid import to_grid, uniform
from relens.ensemble.inputs import Input
from relens.ensemble.objective import answer_ranks, reciprocal_sums
from relens.ensemble.parallel import run_batches
from relens.ensemble.results import QueryIndex, SearchResult
from relens.errors import MissingExtraError
from relens.packs.pack import PackedRanks
from relens.progress import SILENT, Progress
from relens.seeding import generator

Sampler = Literal["tpe", "random"]
Point = npt.NDArray[np.float64]
Propose = Callable[[Callable[[Point], float], int, int, np.random.Generator], None]

WORTHLESS = 0.0
"""Value of weights that are all zero, which rank nothing: less than any reciprocal sum."""


class _Task(NamedTuple):
    """A group to search: ranks, where its queries are in them, how, its number, and when the search of all began."""

    packed: PackedRanks
    queries: QueryIndex
    name: Input
    sampler: Sampler
    trials: int
    seed: int
    group: int
    begun: float


def sample_groups(
    packed: PackedRanks,
    members: Sequence[QueryIndex],
    name: Input,
    *,
    sampler: Sampler,
    trials: int,
    seed: int,
    jobs: int = 1,
    remote: Remote | None = None,
    progress: Progress = SILENT,
) -> list[SearchResult]:
    """Search each group's weights with ``trials`` samples of [0, 1]^N, the first at equal weights (Algorithm 1)."""
    begun = monotonic()
    description = f"{sampler}, {trials} trials a group"
    if remote is not None:
        settings = (name, sampler, trials, seed)
        return remote.search(_sample_part, packed, members, settings, progress=progress, description=description)
    tasks = [_Task(packed, queries, name, sampler, trials, seed, g, begun) for g, queries in enumerate(members)]
    costs = [float(trials)] * len(tasks)
    return run_batches(
        _sample_group, tasks, jobs=jobs, costs=costs, workers="processes", send=_with_its_queries,
        progress=progress, description=description,
    )  # fmt: skip


def _sample_part(
    packed: PackedRanks,
    members: Sequence[QueryIndex],
    numbers: Sequence[int],
    settings: tuple[Input, Sampler, int, int],
) -> list[SearchResult]:
    """Sample the weights of some groups, on a worker."""
    begun = monotonic()
    return [
        _sample_group(_Task(packed, queries, *settings, group, begun))
        for queries, group in zip(members, numbers, strict=True)
    ]


def _with_its_queries(task: _Task) -> _Task:
    """Return a task with a copy of the ranks it looks at, and of no others."""
    ranks = task.packed if task.name == "score" else task.packed.without_gaps()
    return task._replace(packed=ranks.select_queries(task.queries), queries=np.arange(len(task.queries)))


def _sample_group(task: _Task) -> SearchResult:
    packed, sampler = task.packed, task.sampler

    def value(point: Point) -> float:
        if not point.any():
            return WORTHLESS
        return float(reciprocal_sums(packed, task.queries, task.name, [to_grid(point)])[0])

    rng = generator(task.seed, sampler, task.group)
    best, found = _maximise(value, packed.n_models, sampler, task.trials, rng, task.begun)
    return SearchResult(to_grid(best), found[-1, 2], found)


def sample_jointly(
    packed: PackedRanks,
    group: npt.NDArray[np.int32],
    n_groups: int,
    name: Input,
    *,
    sampler: Sampler,
    trials: int,
    seed: int,
    jobs: int = 1,
    progress: Progress = SILENT,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Search all groups' weights as one vector of G·N parameters (the paper's RelEns-Basic).

    Returns the weights (G, N) and the trace (steps, 3).
    """
    shape = (n_groups, packed.n_models)
    with progress.task(f"{sampler}, {trials} trials of {shape[0]}×{shape[1]} parameters", trials) as advance:

        def value(point: Point) -> float:
            advance(1)
            rows = point.reshape(shape)
            if not rows.any(axis=1).all():
                return WORTHLESS
            ranks = answer_ranks(packed, to_grid(rows), group, name=name, jobs=jobs)
            return float(np.sum(1.0 / ranks.realistic))

        rng = generator(seed, sampler, "jointly")
        best, trace = _maximise(value, n_groups * packed.n_models, sampler, trials, rng, monotonic())
    return to_grid(best.reshape(shape)), trace


def _maximise(
    value: Callable[[Point], float],
    dimension: int,
    sampler: Sampler,
    trials: int,
    rng: np.random.Generator,
    begun: float,
) -> tuple[Point, npt.NDArray[np.float64]]:
    """Return the best point of ``trials`` samples and the trace (steps, 3): seconds, evaluations, best value so far."""
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

    PROPOSERS[sampler](record, dimension, trials, rng)
    trace.append((monotonic() - begun, evaluations, best_value))
    return best, np.array(trace)


def _random(record: Callable[[Point], float], dimension: int, trials: int, rng: np.random.Generator) -> None:
    record(uniform(dimension) / dimension)
    for _ in range(trials - 1):
        record(1.0 - rng.random(dimension))


def startup_trials(trials: int) -> int:
    """Return how many random trials open a TPE search: the paper's notebooks use 64 of 300, and 20 otherwise."""
    return 64 if trials >= 300 else 20


def _tpe(record: Callable[[Point], float], dimension: int, trials: int, rng: np.random.Generator) -> None:
    """Sample with Optuna in paper mode: univariate, a fresh sampler, no constant liar."""
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError("searcher 'tpe'", "tpe") from error
    names = [f"w{i}" for i in range(dimension)]

    def objective(trial: "optuna.Trial") -> float:
        return record(np.array([trial.suggest_float(name, 0.0, 1.0) for name in names]))

    sampler = optuna.samplers.TPESampler(
        n_startup_trials=startup_trials(trials), multivariate=False, constant_liar=False, seed=int(rng.integers(2**32))
    )
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(direction="maximize", sampler=sampler)
        study.enqueue_trial(dict.fromkeys(names, 1.0 / dimension))
        study.optimize(objective, n_trials=trials)
    finally:
        optuna.logging.set_verbosity(verbosity)


PROPOSERS: dict[Sampler, Propose] = {"tpe": _tpe, "random": _random}
