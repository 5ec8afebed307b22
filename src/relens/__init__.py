"""Relation-aware ensembles of knowledge-graph-embedding models.

The names below are imported when first used, so that ``import relens`` stays instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from relens.comparison import Comparison as Comparison
    from relens.comparison import compare as compare
    from relens.data.catalog import load_dataset as load_dataset
    from relens.data.dataset import Dataset as Dataset
    from relens.data.queries import Queries as Queries
    from relens.ensemble.search import search as fit  # noqa: F401
    from relens.ensemble.search import search as search
    from relens.ensemble.settings import SearchSettings as SearchSettings
    from relens.ensemble.weights import EnsembleWeights as EnsembleWeights
    from relens.evaluation import Evaluation as Evaluation
    from relens.evaluation import evaluate as evaluate
    from relens.packs.pack import PackedRanks as PackedRanks
    from relens.packs.simulation import Simulation as Simulation
    from relens.packs.store import load_pack as load_ranks  # noqa: F401
    from relens.packs.store import save_pack as save_ranks  # noqa: F401
    from relens.prediction.ensemble import Ensemble as Ensemble
    from relens.runs import Run as Run

_PUBLIC = {
    "Comparison": "relens.comparison:Comparison",
    "Dataset": "relens.data.dataset:Dataset",
    "Ensemble": "relens.prediction.ensemble:Ensemble",
    "EnsembleWeights": "relens.ensemble.weights:EnsembleWeights",
    "Evaluation": "relens.evaluation:Evaluation",
    "SearchSettings": "relens.ensemble.settings:SearchSettings",
    "PackedRanks": "relens.packs.pack:PackedRanks",
    "Queries": "relens.data.queries:Queries",
    "Run": "relens.runs:Run",
    "Simulation": "relens.packs.simulation:Simulation",
    "compare": "relens.comparison:compare",
    "evaluate": "relens.evaluation:evaluate",
    "fit": "relens.ensemble.search:search",
    "search": "relens.ensemble.search:search",
    "load_dataset": "relens.data.catalog:load_dataset",
    "load_ranks": "relens.packs.store:load_pack",
    "save_ranks": "relens.packs.store:save_pack",
}
__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'relens' has no attribute {name!r}")
    module, _, attribute = _PUBLIC[name].partition(":")
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
