"""Score gaps: the candidate's score minus the answer's, in units of the model's median gap on validation."""

import numpy as np

from relens.ensemble.inputs.base import Input, Operands
from relens.packs.pack import PackedRanks
from relens.packs.packing import UNITS_PER_GAP


class Score(Input):
    """Score gaps as they are stored, in whole units. No rank is used."""

    name = "score"
    description = "score gaps, in units of the model's median gap on validation; needs scores"
    label = "score gaps"
    order = 4
    needs_gaps = True
    unit = UNITS_PER_GAP

    def operands(self, packed: PackedRanks) -> Operands:
        """Compare gaps. A gap is an advantage already, and the answer's own gap is 0."""
        assert packed.gaps is not None  # check_input has raised an error otherwise
        return Operands(packed.gaps, np.zeros(packed.answer.shape, dtype=np.int32), None, 1)

    def cost_table(self, n_candidates: int) -> None:
        """Return None: scores have no table of ranks."""
        del n_candidates


SCORE = Score()
