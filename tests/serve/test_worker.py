"""The worker: one prediction at a time, a short line, and a time limit."""

import asyncio
from threading import Event, current_thread

import pytest

from relens.serve.guard import Limits
from relens.serve.refusals import RefusedError
from relens.serve.worker import Desk, GivenUpError, Once, Worker


def refused(work) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        asyncio.run(work)
    return caught.value


def test_a_job_runs_in_the_worker_thread_and_its_error_is_raised():
    worker = Worker(Limits())
    assert asyncio.run(worker.run(lambda given_up: current_thread().name)).startswith("prediction")
    with pytest.raises(ZeroDivisionError):
        asyncio.run(worker.run(lambda given_up: 1 / 0))
    with pytest.raises(TimeoutError):
        asyncio.run(worker.run(lambda given_up: (_ for _ in ()).throw(TimeoutError)))
    worker.close()


def test_a_job_that_takes_too_long_is_cancelled():
    worker = Worker(Limits(seconds=0.05))
    told = Event()

    def slow(given_up: Event) -> None:
        assert given_up.wait(10)
        told.set()

    error = refused(worker.run(slow))
    assert (error.status, "longer than 0.05 s" in error.message) == (504, True)
    assert told.wait(10)
    worker.close()


def test_a_job_that_times_out_in_the_queue_never_runs():
    worker, gate, ran = Worker(Limits(seconds=0.1)), Event(), []

    async def both() -> None:
        first = asyncio.create_task(worker.run(lambda given_up: gate.wait(10)))
        await asyncio.sleep(0)
        with pytest.raises(RefusedError) as caught:
            await worker.run(lambda given_up: ran.append(1))
        assert caught.value.status == 503
        assert "other requests took all of the 0.1 s" in caught.value.message
        with pytest.raises(RefusedError):
            await first
        gate.set()

    asyncio.run(both())
    assert asyncio.run(worker.run(lambda given_up: "next")) == "next"
    assert ran == []
    worker.close()


def test_a_full_queue_refuses_jobs_until_it_has_room():
    worker, gate = Worker(Limits(in_line=2)), Event()

    async def three() -> None:
        waiting = [asyncio.create_task(worker.run(lambda given_up: gate.wait(10))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(RefusedError, match="2 requests are in line already") as caught:
            await worker.run(lambda given_up: None)
        assert caught.value.response().headers["retry-after"] == "1"
        gate.set()
        assert await asyncio.gather(*waiting) == [True, True]
        assert await worker.run(lambda given_up: "free") == "free"

    asyncio.run(three())
    worker.close()


# ---- questions that are answered together --------------------------------------------------------------------------


def desk_of(batches: list[list[int]], gate: Event | None = None) -> "Desk[int, int]":
    """Return a desk that squares numbers, and fails at odd ones; ``batches`` gets what it was asked together."""

    def together(questions, nobody_waits):
        batches.append(list(questions))
        if gate is not None:
            assert gate.wait(10)
        for question in questions:
            if nobody_waits():
                return
            if question % 2:
                raise ValueError(f"{question} is odd")
            yield question**2

    return Desk(together)


def test_questions_that_wait_are_answered_together_and_one_alone_at_once():
    worker, gate, batches = Worker(Limits()), Event(), []
    desk = desk_of(batches, gate)

    async def ask() -> None:
        first = asyncio.create_task(worker.ask(desk, 2))
        while not batches:
            await asyncio.sleep(0.001)
        others = [asyncio.create_task(worker.ask(desk, number)) for number in (8, 4, 6)]
        await asyncio.sleep(0)
        assert worker.in_line == 4
        gate.set()
        assert await asyncio.gather(first, *others) == [4, 64, 16, 36]

    asyncio.run(ask())
    assert batches == [[2], [8, 4, 6]]
    assert worker.in_line == 0
    worker.close()


def test_a_question_that_fails_does_not_take_others_with_it():
    worker, gate, batches = Worker(Limits()), Event(), []
    desk = desk_of(batches)

    async def ask() -> None:
        busy = asyncio.create_task(worker.run(lambda given_up: gate.wait(10)))
        await asyncio.sleep(0)
        waiting = [asyncio.create_task(worker.ask(desk, number)) for number in (2, 3, 4, 5)]
        await asyncio.sleep(0)
        gate.set()
        found = await asyncio.gather(busy, *waiting, return_exceptions=True)
        assert [str(value) for value in found[1:]] == ["4", "3 is odd", "16", "5 is odd"]

    asyncio.run(ask())
    assert batches == [[2, 3, 4, 5], [3], [4], [5]]
    worker.close()


def test_a_question_that_times_out_in_line_is_never_asked():
    worker, gate, batches = Worker(Limits(seconds=0.1)), Event(), []
    desk = desk_of(batches)

    async def ask() -> None:
        busy = asyncio.create_task(worker.run(lambda given_up: gate.wait(10)))
        await asyncio.sleep(0)
        with pytest.raises(RefusedError, match=r"other requests took all of the 0\.1 s"):
            await worker.ask(desk, 2)
        with pytest.raises(RefusedError):
            await busy
        gate.set()

    asyncio.run(ask())
    assert asyncio.run(worker.run(lambda given_up: "next")) == "next"
    assert (batches, worker.in_line) == ([], 0)
    worker.close()


def test_answers_that_nobody_waits_for_are_not_computed():
    worker, gate, batches = Worker(Limits(seconds=0.05)), Event(), []
    desk = desk_of(batches, gate)
    error = refused(worker.ask(desk, 2))
    assert (error.status, "longer than 0.05 s" in error.message) == (504, True)
    gate.set()
    assert asyncio.run(worker.run(lambda given_up: "next")) == "next"
    assert worker.in_line == 0
    worker.close()


def test_a_full_line_refuses_questions_too():
    worker, gate, batches = Worker(Limits(in_line=2)), Event(), []
    desk = desk_of(batches, gate)

    async def ask() -> None:
        waiting = [asyncio.create_task(worker.ask(desk, number)) for number in (2, 4)]
        await asyncio.sleep(0)
        with pytest.raises(RefusedError, match="2 requests are in line already"):
            await worker.ask(desk, 6)
        gate.set()
        assert await asyncio.gather(*waiting) == [4, 16]

    asyncio.run(ask())
    worker.close()


def stepping(begun: Event, until: Event):
    """Return a job that takes small steps until an event is set."""

    def job(progress) -> str:
        with progress.task("stepping", 100) as advance:
            begun.set()
            while not until.wait(0.005):
                advance(1)
        return current_thread().name

    return job


def test_long_jobs_pause_for_quicker_ones_in_the_same_thread():
    worker, begun, until = Worker(Limits()), Event(), Event()
    order: list[str] = []

    async def all_kinds() -> None:
        background, pauses = worker.begin(stepping(begun, until))
        assert await asyncio.to_thread(begun.wait, 10)
        inner = Event()
        long = asyncio.create_task(worker.run_long(stepping(inner, until)))
        assert await asyncio.to_thread(inner.wait, 10)
        name = await worker.run(lambda given_up: current_thread().name)
        order.append("quick")
        assert not long.done()
        assert pauses.share > 0
        second = asyncio.create_task(worker.run_long(lambda progress: order.append("second")))
        await asyncio.sleep(0.05)
        assert order == ["quick"], "a long job does not pause for another one"
        until.set()
        assert await long == await asyncio.wrap_future(background) == name
        await second

    asyncio.run(all_kinds())
    assert order == ["quick", "second"]
    worker.close()


def test_a_long_job_ends_when_nobody_waits_or_the_service_stops():
    worker, begun, never = Worker(Limits(seconds=0.1)), Event(), Event()
    error = refused(worker.run_long(stepping(begun, never)))
    assert (error.status, "longer than 0.1 s" in error.message) == (504, True)
    assert asyncio.run(worker.run(lambda given_up: "next")) == "next"
    begun.clear()
    background, _ = worker.begin(stepping(begun, never))
    assert begun.wait(10)
    worker.close()
    assert isinstance(background.exception(10), GivenUpError)


def test_a_long_job_is_refused_by_its_limit():
    def limit(total: float) -> None:
        raise RefusedError(422, f"{total:g} steps are too many")

    worker = Worker(Limits())
    assert refused(worker.run_long(stepping(Event(), Event()), limit=limit)).message == "100 steps are too many"
    worker.close()


def test_work_that_is_done_once_is_kept_and_repeated_after_a_failure():
    worker, calls = Worker(Limits()), []

    def job(progress) -> None:
        calls.append(len(calls))
        if len(calls) == 1:
            raise ZeroDivisionError

    async def three() -> None:
        once = Once(worker, job, "it is made")
        with pytest.raises(ZeroDivisionError):
            await once.done()
        assert 0 < await once.done() <= worker.seconds
        await once.done()

    asyncio.run(three())
    assert calls == [0, 1]
    worker.close()
