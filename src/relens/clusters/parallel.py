"""Work in parallel on this machine, in batches of about equal cost; results never depend on the workers."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from joblib import delayed

from relens.clusters.workers import start_workers
from relens.progress import SILENT, Progress

T = TypeVar("T")
R = TypeVar("R")

BATCHES_PER_JOB = 16


def run_batches(
    function: Callable[[T], R],
    tasks: Sequence[T],
    *,
    jobs: int,
    costs: Sequence[float] | None = None,
    send: Callable[[T], T] | None = None,
    progress: Progress = SILENT,
    description: str = "working",
) -> list[R]:
    """Return ``[function(task) for task in tasks]``, computed by ``jobs`` workers, the costliest tasks first.

    The workers are threads, which suit functions that spend their time in compiled kernels. With ``send`` they are
    processes: ``send`` reduces a task to the data that another process needs, when the task's turn comes.
    """
    costs = [1.0] * len(tasks) if costs is None else list(costs)
    results: list[R | None] = [None] * len(tasks)
    with progress.task(description, sum(costs)) as advance:
        if jobs == 1 or len(tasks) == 1:
            for at, task in enumerate(tasks):
                results[at] = function(task)
                advance(costs[at])
        else:
            workers = "threads" if send is None else "processes"
            pool = start_workers(jobs, prefer=workers, return_as="generator_unordered")
            parts = list(batches(costs, sum(costs) / (BATCHES_PER_JOB * jobs)))
            sent = ((part, [tasks[at] if send is None else send(tasks[at]) for at in part]) for part in parts)
            for batch, found in pool(delayed(_run)(function, part, own) for part, own in sent):
                for at, result in zip(batch, found, strict=True):
                    results[at] = result
                    advance(costs[at])
    return results  # type: ignore[return-value]


def _run(function: Callable[[T], R], batch: list[int], tasks: list[T]) -> tuple[list[int], list[R]]:
    return batch, [function(task) for task in tasks]


def batches(costs: Sequence[float], size: float) -> Iterator[list[int]]:
    """Yield lists of task positions, costliest first, each list closed once it reaches ``size``."""
    batch: list[int] = []
    filled = 0.0
    for at in sorted(range(len(costs)), key=lambda at: -costs[at]):
        batch.append(at)
        filled += costs[at]
        if filled >= size:
            yield batch
            batch, filled = [], 0.0
    if batch:
        yield batch
