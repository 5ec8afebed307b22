"""How many queries are scored together."""

MEMORY_BUDGET = 2**30
"""Bytes that scores may take."""
ROWS = 64
"""Queries that relens' own models score together. A product of matrices may round differently when its shape changes,
and a rank hangs on the last bit where scores are close: all batches have one shape, the last filled up with repeats."""


def batch_rows(n_entities: int) -> int:
    """Return how many queries are scored together; fewer than ``ROWS`` where their scores would not fit the budget."""
    return max(1, min(ROWS, MEMORY_BUDGET // (4 * n_entities)))
