"""The mean of all models."""

from relens.ensemble.context import SearchContext
from relens.ensemble.grid import uniform
from relens.ensemble.methods.base import Method, MethodResult


class Mean(Method):
    """Equal weights."""

    name = "mean"
    description = "baseline: all models have the same weight"
    order = 0
    learns = False
    fitted = False

    def search(self, context: SearchContext) -> MethodResult:
        """Return equal weights."""
        return MethodResult(uniform(context.packed.n_models))


MEAN = Mean()
