"""The sweep as a searcher; ``relens.ensemble.sweep`` has the algorithm."""

from collections.abc import Sequence

from relens.ensemble.context import QueryIndex, SearchContext, SearchResult
from relens.ensemble.searchers.base import Searcher
from relens.ensemble.sweep import sweep, sweep_groups


class Sweep(Searcher):
    """Coordinate ascent with exact line searches."""

    name = "sweep"
    description = "exact along lines of weights"
    order = 0
    cross_validates = True

    def search(self, context: SearchContext, members: Sequence[QueryIndex]) -> list[SearchResult]:
        """Search each group's weights; none ends up worse than equal weights or a single model."""
        return sweep(context, members)

    def search_groups(
        self, context: SearchContext, queries: QueryIndex, members: Sequence[QueryIndex], *, lossless: bool = True
    ) -> tuple[SearchResult, list[SearchResult]]:
        """Search both together; with ``lossless`` no group ends up worse than with the global weights."""
        return sweep_groups(context, queries, members, lossless=lossless)


SWEEP = Sweep()
