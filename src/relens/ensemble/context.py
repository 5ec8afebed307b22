"""The context that all steps of a search share, the groups of queries, and the results for them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from relens.clusters.remote import Remote
from relens.ensemble.grid import Weights
from relens.ensemble.inputs.base import Input
from relens.packs.pack import PackedRanks
from relens.packs.thinning import ContestedViews
from relens.progress import SILENT, Progress

if TYPE_CHECKING:
    from relens.ensemble.searchers.base import Searcher

QueryIndex = npt.NDArray[np.int64]
"""Positions of the queries of a group, (n,)."""


@dataclass(frozen=True)
class SearchResult:
    """The result of a search for one group.

    Attributes:
        weights: grid weights, (N,).
        value: their sum of reciprocal ranks over the group's queries, from lossless pairs.
        trace: (steps, 3): seconds since the search began, weight vectors or lines evaluated, best sum so far.
    """

    weights: Weights
    value: float
    trace: npt.NDArray[np.float64]


@dataclass(frozen=True)
class SearchContext:
    """The state that the steps of one search share.

    Attributes:
        views: the validation ranks and their thinned views.
        input: what the weights are applied to.
        searcher: how weights are searched.
        group: group of each query, (Q,) int32; None for one group of all queries.
        kappa: strength of the shrinkage towards the global weights.
        trials: samples of each search, for searchers that sample.
        seed: root of all randomness.
        options: values of the options that the method and the searcher declare.
        jobs: workers; results do not depend on it.
        remote: searches groups on other machines, with the same results; None for this machine.
        progress: where to show progress.
    """

    views: ContestedViews
    input: Input
    searcher: "Searcher"
    group: npt.NDArray[np.int32] | None = None
    kappa: float = 0.0
    trials: int = 100
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    jobs: int = 1
    remote: Remote[SearchResult] | None = None
    progress: Progress = SILENT

    @property
    def packed(self) -> PackedRanks:
        """The validation ranks."""
        return self.views.packed

    @cached_property
    def everything(self) -> QueryIndex:
        """Positions of all queries, (Q,)."""
        return np.arange(self.packed.n_queries)

    @cached_property
    def group_of_query(self) -> npt.NDArray[np.int32]:
        """Group of each query, (Q,)."""
        return np.zeros(self.packed.n_queries, dtype=np.int32) if self.group is None else self.group

    @cached_property
    def groups(self) -> tuple[npt.NDArray[np.int64], list[QueryIndex]]:
        """The groups that have queries, ascending, and the positions of each one's queries."""
        return split_by_group(self.group_of_query, self.everything)


def split_by_group(group: npt.NDArray[np.int32], queries: QueryIndex) -> tuple[npt.NDArray[np.int64], list[QueryIndex]]:
    """Return the groups that occur among ``queries`` (n,), ascending, and the positions of each one's queries."""
    order = queries[np.argsort(group[queries], kind="stable")]
    present, first = np.unique(group[order], return_index=True)
    return present.astype(np.int64), np.split(order, first[1:]) if len(order) else []
