"""Batches are as large as memory allows, and cover everything once."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from relens.ranking.memory import MEMORY_BUDGET, ROWS, Batches, batch_rows  # noqa: E402


@pytest.mark.parametrize("rows", [0, 1, 3, 7, 100])
@pytest.mark.parametrize("fits", [1, 2, 5, 100])
@pytest.mark.parametrize("message", [None, "[enforce fail] DefaultCPUAllocator: can't allocate memory"])
def test_batches_are_halved_until_they_fit(rows, fits, message):
    batches, tried = Batches(rows), []

    def work(part: slice) -> list[int]:
        tried.append(part.stop - part.start)
        if tried[-1] > fits:
            raise RuntimeError(message) if message else torch.OutOfMemoryError("full")
        return list(range(part.start, part.stop))

    done = [number for part in batches.over(17, work) for number in part]
    assert done == list(range(17))
    assert 1 <= batches.rows <= max(1, rows)
    assert max(tried) <= max(1, rows)
    n_done = len(tried)
    assert list(batches.over(17, work)), "the size stays for the next round"
    assert all(n <= fits for n in tried[n_done:])


def test_a_query_that_does_not_fit_and_other_errors_are_raised():
    def fail(error: Exception):
        def work(part: slice) -> None:
            raise error

        return work

    with pytest.raises(torch.OutOfMemoryError, match="full"):
        list(Batches(4).over(4, fail(torch.OutOfMemoryError("full"))))
    batches = Batches(4)
    with pytest.raises(RuntimeError, match="wrong shape"):
        list(batches.over(4, fail(RuntimeError("wrong shape"))))
    assert batches.rows == 4
    assert list(Batches(4).over(0, fail(RuntimeError("never called")))) == []


def test_fewer_queries_are_scored_together_among_millions_of_entities() -> None:
    from relens.ranking.memory import OF_ALL_ENTITIES

    found = {n: batch_rows(4 * n, OF_ALL_ENTITIES) for n in (40_943, 2**19, 2**20, 4_594_485, 10**9)}
    assert found == {40_943: 64, 2**19: 64, 2**20: 32, 4_594_485: 7, 10**9: 1}


def test_batches_have_one_shape_where_the_budget_allows_it():
    assert batch_rows(4 * 14_541) == ROWS
    assert batch_rows(MEMORY_BUDGET // 3) == 3
    assert batch_rows(10 * MEMORY_BUDGET) == 1
