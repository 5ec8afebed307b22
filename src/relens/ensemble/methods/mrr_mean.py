"""The mean weighted by MRR."""

from relens.ensemble.context import SearchContext
from relens.ensemble.grid import to_grid
from relens.ensemble.methods.base import Method, MethodResult
from relens.ensemble.objective import model_mrrs


class MrrMean(Method):
    """Weights in proportion to the models' MRR."""

    name = "mrr-mean"
    description = "baseline: weights in proportion to the models' validation MRR"
    order = 1
    fitted = False

    def search(self, context: SearchContext) -> MethodResult:
        """Return each model's validation MRR as its weight."""
        return MethodResult(to_grid(model_mrrs(context.packed, jobs=context.jobs)))


MRR_MEAN = MrrMean()
