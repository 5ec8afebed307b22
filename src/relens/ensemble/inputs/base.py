"""Inputs turn packed values into integers, so that ties are decided exactly.

The advantage of a candidate over the answer is positive where the candidate is ahead. For an input of ranks it is
``cost[answer rank] − cost[candidate rank]``, with a strictly increasing table of integer costs over doubled ranks. For
scores it is the stored score gap.

To add an input of ranks, subclass ``RankInput``, define a decreasing function ``value``, and announce an instance as an
entry point of the group ``relens.inputs``.
"""

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from relens.ensemble.grid import ADVANTAGE_LIMIT
from relens.errors import InputError
from relens.packs.pack import PackedRanks
from relens.registry import AFTER_OURS

CostTable = npt.NDArray[np.int32]
"""Strictly increasing cost of each doubled rank, from 0 on."""

SCALED_FOR = 2**16
"""Candidates whose costs fill the range of a table; doubled until it covers the longest query."""


class Operands(NamedTuple):
    """The stored values of a pack that an input compares.

    The advantage of candidate k over the answer of query q by model i is
    ``sign · (cost(values[i, k]) − cost(answer[i, q]))``, where ``cost`` looks up ``table``, or is the value itself
    without a table.

    Attributes:
        values: (N, K), a value for each contested candidate.
        answer: (N, Q), the value of each answer.
        table: costs of doubled ranks, or None.
        sign: 1 where higher values are better, -1 where lower ones are.
    """

    values: npt.NDArray[Any]
    answer: npt.NDArray[Any]
    table: CostTable | None
    sign: int


class Input(ABC):
    """The values that the weights of an ensemble are applied to.

    Attributes:
        name: what users type.
        description: one line for help texts.
        order: position in the table. Cross-validation gives ties to the earlier input.
        needs_gaps: whether packed ranks must come with score gaps.
        unit: cost that counts as 1 in the scores that predictions show.
        label: what the weights are applied to, in a sentence, such as ``ranks``.
    """

    name: str
    description: str
    order: int = AFTER_OURS
    needs_gaps: bool = False
    unit: int = ADVANTAGE_LIMIT

    @property
    def label(self) -> str:  # noqa: D102
        return f"ranks on the scale {self.name}"

    @abstractmethod
    def operands(self, packed: PackedRanks) -> Operands:
        """Return the values of ``packed`` that this input compares."""

    @abstractmethod
    def cost_table(self, n_candidates: int) -> CostTable | None:
        """Return the cost of each doubled rank 0 … 2·``n_candidates``; None if ranks are not used."""


class RankInput(Input):
    """An input that depends on ranks alone, through a decreasing function."""

    @abstractmethod
    def value(self, rank: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return a finite value for each rank (ranks are at least 1 and may be halves); better ranks have more."""

    def operands(self, packed: PackedRanks) -> Operands:
        """Compare the costs of ranks."""
        table = self.cost_table(int(packed.n_candidates.max(initial=1)))
        return Operands(packed.contested, packed.answer, table, -1)

    def cost_table(self, n_candidates: int) -> CostTable:
        """Return the cost of each doubled rank 0 … 2·``n_candidates``, read-only.

        A rank costs the same in every split and every selection of queries: the scale does not depend on
        ``n_candidates`` up to ``SCALED_FOR``. Beyond, it changes at each power of two.
        """
        return _whole_table(self, max(SCALED_FOR, 1 << (n_candidates - 1).bit_length()))[: 2 * n_candidates + 1]

    def whole_table(self, n_candidates: int) -> npt.NDArray[np.int64]:
        """Return the costs of 2n + 1 doubled ranks, scaled to end at ``ADVANTAGE_LIMIT`` − (2n + 1) and rounded.

        Where neighbouring ranks would round to one value (the far tail of ``rrf``), they are kept one apart.
        """
        rank = np.maximum(np.arange(2 * n_candidates + 1) / 2, 1.0)
        value = np.asarray(self.value(rank), dtype=np.float64)
        cost = value[0] - value
        if not (np.isfinite(cost).all() and (cost[1:] >= cost[:-1]).all() and cost[-1] > 0):
            raise InputError(
                f"input {self.name!r}: its values must be finite and decrease from rank 1 to {n_candidates}"
            )
        # In place: with the most candidates, each of these arrays has 268 MB.
        del rank, value
        cost *= (ADVANTAGE_LIMIT - len(cost)) / cost[-1]
        table: npt.NDArray[np.int64] = np.rint(cost, out=cost).astype(np.int64)
        # Strictly increasing: the new table[k] is the maximum over j ≤ k of table[j] + (k − j).
        steps = np.arange(len(table))
        table -= steps
        np.maximum.accumulate(table, out=table)
        table += steps
        return table


@lru_cache(maxsize=16)
def _whole_table(input: RankInput, n_candidates: int) -> CostTable:
    """Return an input's whole table as int32, computed once; read-only, as it is shared."""
    costs = input.whole_table(n_candidates).astype(np.int32)
    costs.flags.writeable = False
    return costs
