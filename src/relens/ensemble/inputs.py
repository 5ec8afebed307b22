"""Inputs: what the weights are applied to, as integers, so that ties are decided exactly.

For a rank input, the advantage of a candidate over the answer is ``table[answer rank] − table[candidate rank]`` for a
strictly increasing integer table over doubled ranks. For scores it is the stored score gap. Positive means the
candidate is ahead, and a weighted sum of advantages is exact in float64 as long as it stays below 2**53.
"""

from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from relens.errors import InputError, RanksError, nearest
from relens.packs.pack import PackedRanks

Input = Literal["rank", "log", "sqrt", "rrf", "score"]
INPUTS: tuple[Input, ...] = ("rank", "log", "sqrt", "rrf", "score")

ADVANTAGE_LIMIT = 2**26
"""Bound of every advantage; with weights it leaves room for 127 models below 2**53."""
MODEL_LIMIT = 127

LOG_OFFSET = 5.0
RRF_OFFSET = 60.0

SCALED_FOR = 2**16
"""Candidates whose costs fill the range of a table; twice, four times, … as many where a query has more."""


def check_input(name: str, packed: PackedRanks) -> Input:
    """Return ``name`` if ``packed`` can serve it; otherwise say why not and what to do."""
    if name not in INPUTS:
        raise InputError(f"unknown input {name!r}; {nearest(name, INPUTS)}")
    if name == "score" and packed.gaps is None:
        raise RanksError(
            "input 'score' needs score gaps, and these packed ranks have none. "
            "Pack the models' scores with gaps, or choose one of rank, log, sqrt, rrf."
        )
    if packed.n_models > MODEL_LIMIT:
        raise RanksError(f"{packed.n_models} models are too many for exact sums: at most {MODEL_LIMIT} are possible")
    return name


def available_inputs(packed: PackedRanks) -> tuple[Input, ...]:
    """Return the inputs ``packed`` can serve."""
    return INPUTS if packed.gaps is not None else INPUTS[:-1]


def cost_table(name: Input, n_candidates: int) -> npt.NDArray[np.int32]:
    """Return the strictly increasing cost of each doubled rank 0 … 2·``n_candidates``, int32, read-only.

    A rank costs the same in every split and every selection of queries: the scale does not depend on
    ``n_candidates``, except that it halves or so beyond each power of two from ``SCALED_FOR`` on.
    """
    return _whole_table(name, max(SCALED_FOR, 1 << (n_candidates - 1).bit_length()))[: 2 * n_candidates + 1]


@lru_cache(maxsize=len(INPUTS))
def _whole_table(name: Input, n_candidates: int) -> npt.NDArray[np.int32]:
    """Return the table that fills the range up to ``ADVANTAGE_LIMIT``.

    Where neighbouring ranks would still round to one value (the far tail of ``rrf``), they are kept one apart.
    """
    doubled = np.arange(2 * n_candidates + 1, dtype=np.float64)
    rank = np.maximum(doubled / 2, 1.0)
    if name == "rank":
        return _read_only(doubled)
    if name == "log":
        cost = np.log(LOG_OFFSET + rank)
    elif name == "sqrt":
        cost = np.sqrt(rank)
    elif name == "rrf":
        cost = -1.0 / (RRF_OFFSET + rank)
    else:
        raise InputError(f"input {name!r} has no rank table")
    cost -= cost[0]
    steps = np.arange(len(cost))
    scaled = np.rint(cost * ((ADVANTAGE_LIMIT - len(cost)) / cost[-1])).astype(np.int64)
    # Strictly increasing: table[k] = max over j ≤ k of scaled[j] + (k − j).
    strict: npt.NDArray[np.int64] = np.maximum.accumulate(scaled - steps) + steps
    return _read_only(strict)


def _read_only(table: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    costs = table.astype(np.int32)
    costs.flags.writeable = False
    return costs
