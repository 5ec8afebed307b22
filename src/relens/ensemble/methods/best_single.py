"""The best single model."""

import numpy as np

from relens.ensemble.context import SearchContext
from relens.ensemble.grid import vertices
from relens.ensemble.methods.base import Method, MethodResult
from relens.ensemble.objective import model_mrrs


class BestSingle(Method):
    """All weight on the model with the best validation MRR. The first model wins ties."""

    name = "best-single"
    description = "baseline: all weight on the model with the best validation MRR"
    order = 3
    fitted = False

    def search(self, context: SearchContext) -> MethodResult:
        """Return the vertex of the best model."""
        best = int(np.argmax(model_mrrs(context.packed, jobs=context.jobs)))
        return MethodResult(vertices(context.packed.n_models)[best])


BEST_SINGLE = BestSingle()
