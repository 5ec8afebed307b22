"""The base class of methods.

To add one, subclass ``Method``, define ``search``, and announce an instance as an entry point of the group
``relens.methods``::

    class Median(Method):
        name = "median"
        description = "weights around the median model"
        options = {"width": Option("How many models to use.", default=3, kind=int, minimum=1)}

        def search(self, context):
            return MethodResult(my_weights(context.packed, context.options["width"]))

It is then a choice of ``relens search --method median --width 5``, ``relens compare RUN median:width=5`` and
``relens.search(packed, method="median", width=5)``.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from relens.ensemble.context import SearchContext, SearchResult
from relens.ensemble.grid import Weights
from relens.ensemble.searchers.base import Searcher
from relens.options import Option
from relens.registry import AFTER_OURS

TRACE_POINTS = 200


@dataclass(frozen=True)
class MethodResult:
    """The weights that a method found.

    Attributes:
        common: global weights, (N,): of all groups, or of those without validation queries.
        table: weights of each group that has validation queries, (G', N) in the order of ``SearchContext.groups``;
            None for a method that has global weights alone.
        trace: best validation MRR so far, (steps, 3): seconds, evaluations, MRR.
        notes: remarks for the reader of the weights.
    """

    common: Weights
    table: npt.NDArray[np.int64] | None = None
    trace: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 3)))
    notes: tuple[str, ...] = ()


class Method(ABC):
    """A way to find ensemble weights.

    Attributes:
        name: what users type.
        description: one line for help texts.
        order: position in lists.
        searches: whether it uses a searcher.
        cross_validated: whether cross-validation chooses its input, if the searcher can be used for that.
        shrinks: whether the weights of groups are shrunk towards the global ones.
        learns: whether the weights depend on the ranks at all.
        fitted: whether the weights are fitted closely enough that few validation queries make them unreliable.
        has_global: whether ``MethodResult.common`` comes from the data, and not from equal weights.
        extra: the optional dependency that it needs, if any.
        options: options of its own, by name; their values are in the context's ``options``.
    """

    name: str
    description: str
    order: int = AFTER_OURS
    searches: bool = False
    cross_validated: bool = False
    shrinks: bool = False
    learns: bool = True
    fitted: bool = True
    has_global: bool = True
    extra: str | None = None
    options: Mapping[str, Option] = {}

    @abstractmethod
    def search(self, context: SearchContext) -> MethodResult:
        """Return the weights for the input and the shrinkage of ``context``."""

    def check_searcher(self, searcher: Searcher) -> None:
        """Raise an error for a searcher that the method cannot use."""
        del searcher

    def strengths(self, asked: tuple[float, ...]) -> tuple[float, ...]:
        """Return the strengths of shrinkage to choose from, given those that the user asked for."""
        return asked if self.shrinks else (0.0,)


def search_globally(context: SearchContext) -> tuple[Weights, npt.NDArray[np.float64]]:
    """Search one weight vector for all queries; return it, (N,), and the trace (steps, 3)."""
    found = context.searcher.search(context, [context.everything])
    return found[0].weights, overall_trace(found, context.packed.n_queries)


def overall_trace(found: Sequence[SearchResult], n_queries: int) -> npt.NDArray[np.float64]:
    """Merge the groups' traces into one of the overall MRR, (steps, 3): seconds, evaluations, MRR.

    Until its search has begun, a group counts with the first value of its trace, that of equal weights.
    """
    moments: list[tuple[float, float, float]] = []
    for result in found:
        gains = np.diff(result.trace, axis=0)
        moments.extend(zip(result.trace[1:, 0], gains[:, 1], gains[:, 2], strict=True))
    moments.sort()
    _, evaluated, at_first = np.sum([result.trace[0] for result in found], axis=0)
    steps: npt.NDArray[np.float64] = np.array([(0.0, evaluated, at_first), *moments])
    steps[:, 1:] = np.cumsum(steps[:, 1:], axis=0)
    steps[:, 2] /= n_queries
    return steps[np.unique(np.linspace(0, len(steps) - 1, TRACE_POINTS).round().astype(np.int64))]
