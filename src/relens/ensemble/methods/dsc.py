"""The paper's RelEns-DSC: divide, search, combine."""

import math

import numpy as np

from relens.ensemble.context import SearchContext
from relens.ensemble.methods.base import Method, MethodResult, overall_trace, search_globally
from relens.ensemble.regularisation import Shrinkage


class DivideSearchCombine(Method):
    """Every group is searched on its own; its weights are shrunk towards the global ones."""

    name = "dsc"
    description = "weights per group, each searched on its own: divide, search, combine"
    order = 7
    searches = True
    cross_validated = True
    shrinks = True

    def search(self, context: SearchContext) -> MethodResult:
        """Search the global weights and each group's."""
        _, members = context.groups
        if math.isinf(context.kappa):
            weights, trace = search_globally(context)
            return MethodResult(weights, np.tile(weights, (len(members), 1)), trace)
        overall, found = context.searcher.search_groups(context, context.everything, members)
        own = np.array([result.weights for result in found])
        support = np.array([len(index) for index in members])
        shrinkage = Shrinkage.from_pairs(context.views, context.everything, context.input)
        table = shrinkage.shrink(own, overall.weights, support, context.kappa)
        return MethodResult(overall.weights, table, overall_trace(found, context.packed.n_queries))


DSC = DivideSearchCombine()
