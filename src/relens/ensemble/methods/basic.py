"""The paper's RelEns-Basic: the weights of all groups searched as one long vector."""

from relens.ensemble.context import SearchContext
from relens.ensemble.grid import uniform
from relens.ensemble.methods.base import Method, MethodResult
from relens.ensemble.searchers import SEARCHERS
from relens.ensemble.searchers.base import Searcher
from relens.errors import InputError


class Basic(Method):
    """One search over G·N parameters. There are no global weights: groups without queries get equal ones."""

    name = "basic"
    description = "weights per group, searched for all groups at once"
    order = 6
    searches = True
    has_global = False

    def check_searcher(self, searcher: Searcher) -> None:
        """Raise an error for a searcher that cannot search jointly."""
        if not searcher.joint:
            able = " or ".join(name for name, other in SEARCHERS.items() if other.joint)
            raise InputError(
                f"method {self.name!r} searches all groups jointly, and with the {searcher.name} that would be 'dsc', "
                f"because the objective is a sum over groups. Choose the searcher {able}, or the method dsc."
            )

    def search(self, context: SearchContext) -> MethodResult:
        """Search the weights of all groups that have queries."""
        table, trace = context.searcher.search_jointly(context)
        packed = context.packed
        return MethodResult(uniform(packed.n_models), table, trace / [1.0, 1.0, packed.n_queries])


BASIC = Basic()
