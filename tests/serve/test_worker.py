"""The worker: one prediction at a time, a short line, and a time limit."""

import asyncio
from threading import Event, current_thread

import pytest

from relens.serve.guard import Limits
from relens.serve.refusals import RefusedError
from relens.serve.worker import Worker


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
