"""Predictions run in their own thread, so that the service keeps answering; waiting questions are answered together."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event, Lock
from typing import Any, Generic, NamedTuple, TypeVar

from relens.serve.guard import Limits
from relens.serve.refusals import RefusedError

T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")

Together = Callable[[Sequence[Q], Callable[[], bool]], Iterator[A]]
"""Yields the answers to several questions in order; the second argument says that nobody waits for them any more."""
MOST = 64
"""Questions that are answered together: as many as models score at a time."""


class Waiting(NamedTuple, Generic[Q, A]):
    """A question, where its answer goes, and an event that is set once nobody waits for it."""

    question: Q
    answer: "Future[A]"
    given_up: Event


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
        return await self._result(future, given_up)

    async def ask(self, desk: "Desk[Q, A]", question: Q) -> A:
        """Return the answer to a question, which is taken together with those that wait at the same desk.

        It has its turn when a job submitted now would have its, or earlier. Refusals are those of ``run``.
        """
        self._enter()
        waiting: Waiting[Q, A] = Waiting(question, Future(), Event())
        waiting.answer.add_done_callback(self._leave)
        desk.add(waiting)
        self._pool.submit(desk.serve)
        return await self._result(waiting.answer, waiting.given_up)

    @property
    def in_line(self) -> int:
        """The number of jobs and questions that wait or run."""
        return self._in_line

    @property
    def full(self) -> bool:
        """Whether another job would be refused now."""
        return self._in_line >= self._limits.in_line

    def close(self) -> None:
        """Accept no more jobs and drop the waiting ones."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _result(self, future: "Future[T]", given_up: Event) -> T:
        waiting = asyncio.wrap_future(future)
        try:
            done, _ = await asyncio.wait([waiting], timeout=self._limits.seconds)
            if not done:
                raise self._too_late(never_begun=future.cancel())
            return waiting.result()
        finally:
            given_up.set()
            waiting.cancel()

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


class Desk(Generic[Q, A]):
    """Questions that one function answers together. A question never waits for others to come."""

    def __init__(self, together: Together[Q, A]) -> None:
        self._together = together
        self._line: deque[Waiting[Q, A]] = deque()

    def add(self, waiting: Waiting[Q, A]) -> None:
        """Put a question at the end of the line."""
        self._line.append(waiting)

    def serve(self) -> None:
        """Answer the questions in line, ``MOST`` at a time; one thread calls this.

        If one fails, that question and those behind it are answered one by one, so that each has its own error only.
        """
        taken = [self._line.popleft() for _ in range(min(MOST, len(self._line)))]
        batch = [waiting for waiting in taken if waiting.answer.set_running_or_notify_cancel()]
        if not batch:
            return
        try:
            self._answer(batch)
        except Exception:
            for waiting in batch:
                if not waiting.answer.done():
                    self._answer_alone(waiting)

    def _answer(self, batch: Sequence[Waiting[Q, A]]) -> None:
        """Answer questions; each answer is given away when it is ready."""

        def nobody_waits() -> bool:
            return all(waiting.given_up.is_set() for waiting in batch)

        answers = self._together([waiting.question for waiting in batch], nobody_waits)
        for waiting, answer in zip(batch, answers, strict=False):
            waiting.answer.set_result(answer)
        for waiting in batch:
            if not waiting.answer.done():  # nobody waits
                waiting.answer.set_exception(TimeoutError())

    def _answer_alone(self, waiting: Waiting[Q, A]) -> None:
        try:
            self._answer([waiting])
        except Exception as error:
            waiting.answer.set_exception(error)
