"""The paper's input: the rank itself."""

import numpy as np
import numpy.typing as npt

from relens.ensemble.inputs.base import Operands, RankInput
from relens.packs.pack import PackedRanks


class Rank(RankInput):
    """f(r) = −r. Doubled ranks are integers, so they are their own costs."""

    name = "rank"
    description = "the rank, as in the paper"
    label = "ranks"
    order = 0
    unit = 2  # costs are doubled ranks

    def value(self, rank: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return −r."""
        return -rank

    def operands(self, packed: PackedRanks) -> Operands:
        """Compare doubled ranks without a table: that is faster, and exact."""
        return Operands(packed.contested, packed.answer, None, -1)

    def whole_table(self, n_candidates: int) -> npt.NDArray[np.int64]:
        """Return the doubled ranks themselves."""
        return np.arange(2 * n_candidates + 1)


RANK = Rank()
