"""Predictions run one after another in their own thread, so that the service keeps answering."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event, Lock
from typing import Any, TypeVar

from relens.serve.guard import Limits
from relens.serve.refusals import RefusedError

T = TypeVar("T")


class Worker:
    """One thread with a short queue."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="prediction")
        self._lock = Lock()
        self._in_line = 0

    async def run(self, job: Callable[[Event], T]) -> T:
        """Return the result of a job; refuse it if the queue is full (503) or the time runs out (503 or 504).

        A running job cannot be stopped from outside. It checks the event now and then, which is set once nobody waits
        for its result.
        """
        self._enter()
        given_up = Event()
        future = self._pool.submit(job, given_up)
        future.add_done_callback(self._leave)
        waiting = asyncio.wrap_future(future)
        try:
            done, _ = await asyncio.wait([waiting], timeout=self._limits.seconds)
            if not done:
                raise self._too_late(never_begun=future.cancel())
            return waiting.result()
        finally:
            given_up.set()
            waiting.cancel()

    @property
    def in_line(self) -> int:
        """The number of jobs that wait or run."""
        return self._in_line

    @property
    def full(self) -> bool:
        """Whether another job would be refused now."""
        return self._in_line >= self._limits.in_line

    def close(self) -> None:
        """Accept no more jobs and drop the waiting ones."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _enter(self) -> None:
        with self._lock:
            if self.full:
                raise RefusedError(503, f"{self._in_line} requests are in line already: try again in a moment")
            self._in_line += 1

    def _leave(self, future: "Future[Any]") -> None:
        del future
        with self._lock:
            self._in_line -= 1

    def _too_late(self, *, never_begun: bool) -> RefusedError:
        seconds = f"{self._limits.seconds:g} s"
        if never_begun:
            return RefusedError(503, f"other requests took all of the {seconds} this one had: try again in a moment")
        return RefusedError(504, f"the prediction took longer than {seconds}: ask for fewer queries at a time")
