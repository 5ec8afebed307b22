"""Work in parallel: the same results in the same order, whichever worker computed them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relens.clusters.parallel import batches, run_batches
from tests.ensemble.cases import Recorder


def square(number):
    return number * number


def unchanged(number):
    return number


@pytest.mark.parametrize("send", [None, unchanged], ids=["threads", "processes"])
@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_results_come_in_the_order_of_the_tasks(jobs, send):
    tasks = list(range(25))
    costs = [float((7 * task) % 11) for task in tasks]
    progress = Recorder()
    found = run_batches(square, tasks, jobs=jobs, costs=costs, send=send, progress=progress, description="squaring")
    assert found == [task * task for task in tasks]
    ((description, total, done),) = progress.tasks
    assert (description, total) == ("squaring", sum(costs))
    assert sum(done) == pytest.approx(total)
    assert len(done) == 25


@pytest.mark.parametrize(("jobs", "expected"), [(1, [1, 4, 9]), (2, [4, 9, 16])])
def test_tasks_are_changed_for_other_workers_only(jobs, expected):
    assert run_batches(square, [1, 2, 3], jobs=jobs, send=lambda task: task + 1) == expected


@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize("costs", [None, []])
def test_no_tasks(jobs, costs):
    assert run_batches(square, [], jobs=jobs, costs=costs) == []


@pytest.mark.parametrize("jobs", [1, 4])
def test_tasks_that_cost_nothing_are_done_all_the_same(jobs):
    assert run_batches(square, [3, 1, 2], jobs=jobs, costs=[0.0, 0.0, 0.0]) == [9, 1, 4]
    assert run_batches(square, [3], jobs=jobs) == [9]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failure_reaches_the_caller(jobs):
    def fail_at_three(number):
        if number == 3:
            raise ValueError("three is too many")
        return number

    with pytest.raises(ValueError, match="three is too many"):
        run_batches(fail_at_three, range(6), jobs=jobs)


@given(st.lists(st.floats(0.0, 1e6), max_size=40), st.floats(0.0, 1e6))
def test_batches_hold_every_task_once_costliest_first_and_close_when_full(costs, size):
    found = list(batches(costs, size))
    flat = [at for batch in found for at in batch]
    assert sorted(flat) == list(range(len(costs)))
    assert [costs[at] for at in flat] == sorted(costs, reverse=True)
    for batch in found[:-1]:
        assert sum(costs[at] for at in batch) >= size
    for batch in found:
        assert len(batch) == 1 or sum(costs[at] for at in batch[:-1]) < size
