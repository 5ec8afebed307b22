"""Run the parts of some work on a cluster, and give those of workers that hang to other workers."""

import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple, TypeVar

from relens.clusters.engines import Cluster, Handle
from relens.errors import ClusterError, counted

R = TypeVar("R")

MOST_TIMES = 20.0
"""How many times as long as its cost lets expect may a part take before its worker hangs."""


class Timed(NamedTuple):
    """The result of a part, and the seconds that its worker needed."""

    result: Any
    seconds: float


@dataclass
class Patience:
    """How long to wait for the next result.

    Attributes:
        seconds: the least time.
        costs: relative cost of each part.
        paces: seconds per cost of each finished part.
    """

    seconds: float
    costs: Sequence[float]
    paces: list[float] = field(default_factory=list)

    def learn(self, part: int, seconds: float) -> None:
        """Take into account how long a part took."""
        self.paces.append(seconds / max(self.costs[part], 1e-9))

    def limit(self, parts: Collection[int]) -> float:
        """Return how many seconds to wait for one of some parts; much longer before any pace is known."""
        if not self.paces:
            return MOST_TIMES * self.seconds
        return max(self.seconds, MOST_TIMES * median(self.paces) * max(self.costs[part] for part in parts))


def finished_parts(
    cluster: Cluster, function: Callable[..., Timed], shared: Any, tasks: Sequence[Any], patience: Patience
) -> Iterator[tuple[int, Any]]:
    """Yield each task's position and the result of ``function(shared, task)``, in the order of arrival.

    If no result comes for too long, all workers with a task hang: other workers get copies of their tasks, and the
    first result of each task counts. If nothing comes again, the work ends with an error.
    """
    running: dict[Handle, int] = {}
    copied: set[int] = set()
    for part, task in enumerate(tasks):
        running[cluster.submit(function, shared, task)] = part
    while running:
        limit = patience.limit(set(running.values()))
        done = cluster.wait(list(running), limit)
        if done is not None and done not in running:
            continue  # another copy was faster
        found = None if done is None else _fetched(cluster, done)
        if found is None:
            late = set(running.values()) if done is None else {running[done]}
            _check_copies(cluster, [handle for handle, part in running.items() if part in late], late & copied, limit)
            for part in late:
                running[cluster.submit(function, shared, tasks[part])] = part
            copied |= late
            continue
        part = running.pop(done)
        patience.learn(part, found.seconds)
        for other in [handle for handle, same in running.items() if same == part]:
            del running[other]
            cluster.drop(other)
        yield part, found.result


def _fetched(cluster: Cluster, done: Handle) -> Timed | None:
    """Return the result of a finished task; None if it stays on a worker that hangs."""
    try:
        found: Timed = cluster.result(done)
    except TimeoutError:
        return None
    return found


def _check_copies(cluster: Cluster, hanging: Sequence[Handle], copied: set[int], limit: float) -> None:
    """Tell the cluster which tasks hang. Raise an error if they have copies already, or if no other worker is free."""
    free = cluster.suspect(hanging)
    if copied or not free:
        why = "their copies hang, too" if copied else "no other worker is free"
        raise ClusterError(
            f"no part of the search was finished for {limit:.0f} s, and {why}: {counted(len(hanging), 'part')} hang "
            f"or wait for a worker. End the workers that hang and start others; if a part needs more time, allow it "
            f"with `patience=SECONDS`."
        )
    warnings.warn(
        f"no part of the search was finished for {limit:.0f} s: {counted(len(hanging), 'part')} that hang start again "
        f"on other workers",
        stacklevel=4,
    )
