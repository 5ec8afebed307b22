"""The base class of searchers.

To add one, subclass ``Searcher`` (or ``relens.ensemble.sampling.Sampler``, which needs only proposals of weights), and
announce an instance as an entry point of the group ``relens.searchers``.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.ensemble.context import QueryIndex, SearchContext, SearchResult
from relens.options import Option
from relens.registry import AFTER_OURS


class Searcher(ABC):
    """A way to search the weights with the best MRR.

    Attributes:
        name: what users type.
        description: one line for help texts.
        order: position in lists.
        samples: whether it evaluates a number of samples, set by ``trials``; otherwise it is exact along lines.
        cross_validates: whether cross-validation may use it to choose the input and the shrinkage.
        joint: whether it can search the weights of all groups as one vector, see ``search_jointly``.
        extra: the optional dependency that it needs, if any.
        options: options of its own, by name; their values are in the context's ``options``.
    """

    name: str
    description: str
    order: int = AFTER_OURS
    samples: bool = False
    cross_validates: bool = False
    joint: bool = False
    extra: str | None = None
    options: Mapping[str, Option] = {}

    @abstractmethod
    def search(self, context: SearchContext, members: Sequence[QueryIndex]) -> list[SearchResult]:
        """Search each group's weights; ``members`` holds its query positions, each (n,) with n ≥ 1."""

    def search_groups(
        self, context: SearchContext, queries: QueryIndex, members: Sequence[QueryIndex], *, lossless: bool = True
    ) -> tuple[SearchResult, list[SearchResult]]:
        """Search the global weights of ``queries`` (n,), and each group's.

        Cross-validation passes ``lossless=False``: it needs good weights quickly, not exact values.
        """
        del lossless
        (overall,) = self.search(context, [queries])
        return overall, self.search(context, members)

    def search_jointly(self, context: SearchContext) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Search the weights of all groups with queries as one vector; return them (G, N), and the trace (steps, 3)."""
        raise NotImplementedError(f"the searcher {self.name!r} does not search jointly")

    def resolved_settings(self, context: SearchContext) -> dict[str, Any]:
        """Return what the settings of the weights say about this search, besides its name."""
        del context
        return {}
