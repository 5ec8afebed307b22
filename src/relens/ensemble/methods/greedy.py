"""Greedy selection with replacement (Caruana et al., 2004)."""

import numpy as np

from relens.ensemble.context import SearchContext
from relens.ensemble.grid import uniform, vertices
from relens.ensemble.methods.base import Method, MethodResult
from relens.ensemble.objective import answer_ranks
from relens.metrics.mrr import mrr

STEPS = 50
PATIENCE = 5
"""Steps without improvement after which the selection ends."""


class Greedy(Method):
    """Select models with replacement, each time the one that raises the MRR most; count them."""

    name = "greedy"
    description = "baseline: adds, step by step, the model that raises the validation MRR most"
    order = 4

    def search(self, context: SearchContext) -> MethodResult:
        """Return the counts of the best selection met."""
        packed = context.packed
        counts = np.zeros(packed.n_models, dtype=np.int64)
        best, best_value, best_step = uniform(packed.n_models), -1.0, 0
        with context.progress.task("greedy selection", STEPS) as advance:
            for step in range(STEPS):
                options = [counts + vertex for vertex in vertices(packed.n_models)]
                ranks = (answer_ranks(packed, option, input=context.input, jobs=context.jobs) for option in options)
                values = [mrr(rank.realistic) for rank in ranks]
                counts = options[int(np.argmax(values))]
                if max(values) > best_value:
                    best, best_value, best_step = counts, max(values), step
                if step - best_step >= PATIENCE:
                    break
                advance(1)
        return MethodResult(best)


GREEDY = Greedy()
