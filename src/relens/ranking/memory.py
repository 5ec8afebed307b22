"""How many queries are scored together, and what happens when memory runs out."""

import logging
from collections.abc import Callable, Iterator
from typing import TypeVar

MEMORY_BUDGET = 2**30
"""Bytes that scores may take."""
ROWS = 64
"""Queries that relens's own models score together.

A matrix product may round differently when its shape changes, and the last bit decides a rank where scores are close.
So all batches have one shape, and the last one is filled up with repeats.
"""

OF_ALL_ENTITIES = 2**27
"""Bytes that the scores of all entities may take in a batch of ``score_queries``: fewer than ``ROWS`` queries from half
a million entities on. Each batch is filled up, so a smaller one costs less where few queries are asked."""

T = TypeVar("T")
_log = logging.getLogger(__name__)


def batch_rows(bytes_per_query: int, budget: int = MEMORY_BUDGET) -> int:
    """Return how many queries are scored together: ``ROWS``, or fewer where the memory budget does not allow it."""
    return max(1, min(ROWS, budget // bytes_per_query))


class Batches:
    """Batches of queries that are halved when memory runs out.

    Attributes:
        rows: the largest number of queries in the next batch.
    """

    def __init__(self, rows: int) -> None:
        self.rows = max(1, rows)

    def over(self, n_queries: int, work: Callable[[slice], T]) -> Iterator[T]:
        """Yield ``work(part)`` for consecutive parts of ``n_queries`` queries."""
        begin = 0
        while begin < n_queries:
            part = slice(begin, min(begin + self.rows, n_queries))
            try:
                done = work(part)
            except RuntimeError as error:
                if self.rows == 1 or not out_of_memory(error):
                    raise
                self._halve(part.stop - part.start)
            else:
                yield done
                begin = part.stop

    def _halve(self, n_tried: int) -> None:
        import torch

        self.rows = (n_tried + 1) // 2
        _log.info("memory ran out: scoring %d queries at a time from here on", self.rows)
        torch.cuda.empty_cache()  # does nothing without a GPU


def out_of_memory(error: RuntimeError) -> bool:
    """Say whether torch raised an error because the memory of a GPU or of the machine ran out."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error)
