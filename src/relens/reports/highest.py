"""The row of the comparison with the highest test MRR, where that is not the ensemble's: could it be chance?"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from relens.evaluation import model_ranks
from relens.reports.material import Material
from relens.significance import PairedTest, paired_test


@dataclass(frozen=True)
class Highest:
    """A row with a higher MRR than the ensemble's.

    Attributes:
        name: of the model or method.
        mrr: its test MRR.
        paired: the row against the ensemble, query by query.
    """

    name: str
    mrr: float
    paired: PairedTest


def highest_row(material: Material) -> Highest | None:
    """Return the row with the highest test MRR, the first of equals; None where no row is above the ensemble's."""
    ours = material.evaluation(material.ensemble)
    best = max(material.comparison.evaluations, key=lambda evaluation: evaluation.overall.mrr)
    if best.overall.mrr <= ours.overall.mrr:
        return None
    paired = paired_test(
        _reciprocal_ranks(material, best.name),
        _reciprocal_ranks(material, ours.name),
        material.test.queries.triple,
        reference=ours.name,
        seed=ours.seed,
        resamples=ours.resamples,
    )
    return Highest(best.name, best.overall.mrr, paired)


def _reciprocal_ranks(material: Material, name: str) -> npt.NDArray[np.float64]:
    """Return 1 / rank of every test answer by a method or a single model, (Q,)."""
    weights = material.comparison.weights.get(name)
    ranks = model_ranks(material.test, name) if weights is None else weights.answer_ranks(material.test)
    return 1 / ranks.realistic
