"""Parts of workers that hang go to other workers, in bounded time; a fake cluster says what hangs and when."""

import pytest

from relens.clusters.parts import MOST_TIMES, Patience, Timed, finished_parts
from relens.errors import ClusterError


class Script:
    """A cluster that plays a script: numbers of submitted tasks that finish; None: nothing finished in time."""

    n_workers = 2

    def __init__(self, script, *, free=True, unanswered=()):  # type: ignore[no-untyped-def]
        self.script, self.free, self.unanswered = list(script), free, set(unanswered)
        self.submitted, self.suspected, self.dropped, self.limits = [], [], [], []

    def submit(self, function, shared, task):  # type: ignore[no-untyped-def]
        self.submitted.append(function(shared, task))
        return len(self.submitted) - 1

    def wait(self, handles, seconds):  # type: ignore[no-untyped-def]
        self.limits.append(seconds)
        return self.script.pop(0)

    def result(self, handle):  # type: ignore[no-untyped-def]
        if handle in self.unanswered:
            raise TimeoutError
        return self.submitted[handle]

    def suspect(self, handles):  # type: ignore[no-untyped-def]
        self.suspected.append(list(handles))
        return self.free

    def drop(self, handle):  # type: ignore[no-untyped-def]
        self.dropped.append(handle)


def work(shared, task):  # type: ignore[no-untyped-def]
    return Timed(shared + task, seconds=task)


def finished(cluster, tasks=(1, 2, 3), patience=10.0):  # type: ignore[no-untyped-def]
    return list(finished_parts(cluster, work, 100, tasks, Patience(patience, [1.0] * len(tasks))))


def test_parts_come_in_the_order_of_arrival() -> None:
    cluster = Script([2, 0, 1])
    assert finished(cluster) == [(2, 103), (0, 101), (1, 102)]
    assert (cluster.suspected, cluster.dropped) == ([], [])


def test_tasks_that_hang_start_again_elsewhere_and_the_first_result_counts() -> None:
    cluster = Script([1, None, 3, 2])  # of tasks 0 and 2, copies 3 and 4: copy 3 comes first, then task 2 itself
    with pytest.warns(
        UserWarning, match=r"^no part .* finished for 40 s: 2 parts that hang start again on other workers"
    ):
        found = finished(cluster)
    assert found == [(1, 102), (0, 101), (2, 103)]
    assert cluster.suspected == [[0, 2]]
    assert [timed.result for timed in cluster.submitted] == [101, 102, 103, 101, 103]
    assert cluster.dropped == [0, 4]


def test_a_copy_that_is_late_is_ignored() -> None:
    cluster = Script([None, 1, 0, 2, 3], free=True)
    with pytest.warns(UserWarning, match="start again"):
        assert finished(cluster, tasks=(1, 2)) == [(1, 102), (0, 101)]
    cluster = Script([None, 2, 0, 1], free=True)
    with pytest.warns(UserWarning, match="start again"):
        assert finished(cluster, tasks=(1, 2)) == [(0, 101), (1, 102)]


def test_a_result_that_stays_on_a_worker_that_hangs_is_computed_again() -> None:
    cluster = Script([0, 1, 2], unanswered={0})
    with pytest.warns(UserWarning, match="1 part that"):
        assert finished(cluster, tasks=(1, 2)) == [(1, 102), (0, 101)]
    assert (cluster.suspected, cluster.dropped) == ([[0]], [0])


@pytest.mark.parametrize(
    ("script", "free", "why"),
    [([0, None], False, "no other worker is free"), ([0, None, None], True, "their copies hang, too")],
)
@pytest.mark.filterwarnings("ignore:no part of the search")
def test_nothing_twice_ends_the_work_with_an_error(script, free, why) -> None:
    parts = finished_parts(Script(script, free=free), work, 100, (1, 2), Patience(30.0, [1.0, 1.0]))
    assert next(parts) == (0, 101)
    expected = (
        rf"^no part of the search was finished for 30 s, and {why}: \d parts? hang or wait for a worker\. End the "
    )
    with pytest.raises(ClusterError, match=expected + r"workers that hang and start others; .* `patience=SECONDS`\.$"):
        next(parts)


def test_the_limit_follows_the_pace_and_the_costliest_part_that_is_missing() -> None:
    patience = Patience(10.0, [1.0, 8.0, 2.0])
    assert patience.limit([0, 1, 2]) == MOST_TIMES * 10.0
    patience.learn(0, 0.25)
    assert patience.limit([1, 2]) == MOST_TIMES * 0.25 * 8.0
    assert patience.limit([2]) == 10.0
    patience.learn(2, 6.0)
    patience.learn(1, 800.0)
    assert patience.limit([1]) == MOST_TIMES * 3.0 * 8.0
