"""The paper's SimpleEns: one weight vector for all relations."""

import math

from relens.ensemble.context import SearchContext
from relens.ensemble.methods.base import Method, MethodResult, search_globally


class Simple(Method):
    """One search over all queries: as if every group were shrunk to the global weights."""

    name = "simple"
    description = "one weight vector for all groups, searched on the validation split"
    order = 5
    searches = True
    cross_validated = True

    def strengths(self, asked: tuple[float, ...]) -> tuple[float, ...]:
        """Return infinite shrinkage, whatever was asked for."""
        del asked
        return (math.inf,)

    def search(self, context: SearchContext) -> MethodResult:
        """Search the global weights."""
        weights, trace = search_globally(context)
        return MethodResult(weights, trace=trace)


SIMPLE = Simple()
