"""Predictions run in their own thread, so that the service keeps answering; waiting questions are answered together.

Long jobs pause between two of their steps, and let quicker ones have their turn there.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Event, Lock
from typing import Any, Generic, NamedTuple, TypeVar

from relens.progress import Advance, Progress, Silent
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


QUICK, LONG, BACKGROUND = range(3)
"""Kinds of jobs. A job pauses for those of lower kinds."""


class GivenUpError(Exception):
    """The end of a job that nobody waits for."""


class Pauses(Silent):
    """The progress of a long job, which ``pause`` is called for between two steps.

    Attributes:
        share: how much of the present task is done, from 0 to 1.
    """

    def __init__(self, pause: Callable[[], None], limit: Callable[[float], None] = lambda total: None) -> None:
        self._pause, self._limit, self.share = pause, limit, 0.0

    @contextmanager
    def task(self, description: str, total: float) -> Iterator[Advance]:
        """Open a task, unless ``limit`` raises an error about its total."""
        del description
        self._limit(total)
        done = 0.0
        self.share = 0.0

        def advance(amount: float) -> None:
            nonlocal done
            done += amount
            self.share = done / total if total else 1.0
            self._pause()

        self._pause()
        yield advance


class Worker:
    """One thread with a short queue."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="prediction")
        self._lines: tuple[deque[Callable[[], None]], ...] = (deque(), deque(), deque())  # by kind
        self._closed = Event()
        self._lock = Lock()
        self._in_line = 0

    async def run(self, job: Callable[[Event], T]) -> T:
        """Return the result of a job; refuse it if the queue is full (503) or the time runs out (503 or 504).

        A running job cannot be stopped from outside. It checks the event now and then, which is set once nobody waits
        for its result.
        """
        self._enter()
        given_up = Event()
        future = self._put(QUICK, partial(job, given_up))
        future.add_done_callback(self._leave)
        return await self._result(future, given_up, self._limits.seconds)

    async def run_long(
        self,
        job: Callable[[Progress], T],
        *,
        seconds: float | None = None,
        limit: Callable[[float], None] = lambda total: None,
    ) -> T:
        """Return the result of a job with many steps, between which jobs of ``run`` and questions have their turn.

        The job ends at its next step once nobody waits for its result. Refusals are those of ``run``.

        Args:
            job: the job; between two steps it reports its progress.
            seconds: the time limit; None for that of ``run``.
            limit: called with the units of each task; raises an error if they are too many.
        """
        self._enter()
        given_up = Event()
        pauses = Pauses(partial(self._pause, LONG, given_up), limit)
        future = self._put(LONG, partial(job, pauses))
        future.add_done_callback(self._leave)
        return await self._result(future, given_up, self._limits.seconds if seconds is None else seconds)

    async def ask(self, desk: "Desk[Q, A]", question: Q) -> A:
        """Return the answer to a question, which is taken together with those that wait at the same desk.

        It has its turn when a job submitted now would have its, or earlier. Refusals are those of ``run``.
        """
        self._enter()
        waiting: Waiting[Q, A] = Waiting(question, Future(), Event())
        waiting.answer.add_done_callback(self._leave)
        desk.add(waiting)
        self._put(QUICK, desk.serve)
        return await self._result(waiting.answer, waiting.given_up, self._limits.seconds)

    def begin(self, job: Callable[[Progress], T]) -> "tuple[Future[T], Pauses]":
        """Begin a job in the background, for which nobody has to wait; return its future result and its progress."""
        pauses = Pauses(partial(self._pause, BACKGROUND, Event()))
        return self._put(BACKGROUND, partial(job, pauses)), pauses

    @property
    def seconds(self) -> float:
        """The time limit of a request."""
        return self._limits.seconds

    @property
    def in_line(self) -> int:
        """The number of jobs and questions that wait or run."""
        return self._in_line

    @property
    def full(self) -> bool:
        """Whether another job would be refused now."""
        return self._in_line >= self._limits.in_line

    def close(self) -> None:
        """Accept no more jobs, drop the waiting ones, and end long ones at their next step."""
        self._closed.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _put(self, kind: int, job: Callable[[], T]) -> "Future[T]":
        """Put a job at the end of the line of its kind."""
        future: Future[T] = Future()
        self._lines[kind].append(partial(_work, future, job))
        self._pool.submit(self._next, kind)
        return future

    def _next(self, kind: int) -> None:
        """Do the next job of a kind, if it has not had its turn already."""
        if self._lines[kind]:
            self._lines[kind].popleft()()

    def _pause(self, kind: int, given_up: Event) -> None:
        """Do the waiting jobs of lower kinds, from within a job; end the job if nobody waits for it."""
        for lower in range(kind):
            for _ in range(len(self._lines[lower])):  # those that come meanwhile have the next turn
                self._next(lower)
        if given_up.is_set() or self._closed.is_set():
            raise GivenUpError

    async def _result(self, future: "Future[T]", given_up: Event, seconds: float) -> T:
        waiting = asyncio.wrap_future(future)
        try:
            done, _ = await asyncio.wait([waiting], timeout=seconds)
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


def _work(future: "Future[T]", job: Callable[[], T]) -> None:
    """Do a job, unless nobody waits for it; its result or error goes to a future."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = job()
    except BaseException as error:  # as in an executor: the thread goes on
        future.set_exception(error)
    else:
        future.set_result(result)


class Once:
    """Work that many requests need, and that is done in the background when the first one comes. Its result is kept.

    Args:
        worker: does the work.
        job: the work; it is repeated if it fails.
        what: how refusals call it.
    """

    def __init__(self, worker: Worker, job: Callable[[Progress], object], what: str) -> None:
        self._worker, self._job, self._what = worker, job, what
        self._begun: tuple[Future[object], Pauses] | None = None

    async def done(self) -> float:
        """Wait for the work, and return how many seconds are left of a request; refuse it if half are not enough."""
        begun = time.monotonic()
        if self._begun is None or (self._begun[0].done() and self._begun[0].exception() is not None):
            self._begun = self._worker.begin(self._job)
        future, pauses = self._begun
        waiting = asyncio.shield(asyncio.wrap_future(future))  # the work goes on without this request
        try:
            await asyncio.wait([waiting], timeout=self._worker.seconds / 2)
            if not waiting.done():
                raise RefusedError(
                    503,
                    f"{self._what}, which is done once: {pauses.share:.0%} of it so far. Try again in a moment",
                )
            waiting.result()
        finally:
            waiting.cancel()
        return self._worker.seconds - (time.monotonic() - begun)


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
