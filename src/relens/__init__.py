"""Relation-aware ensembles of knowledge-graph-embedding models.

The names below are imported when first used, so that ``import relens`` stays instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from relens.comparison import Comparison as Comparison
    from relens.comparison import compare as compare
    from relens.data.catalog import load as load_dataset  # noqa: F401
    from relens.data.dataset import Dataset as Dataset
    from relens.data.queries import Queries as Queries
    from relens.ensemble.fit import FitSettings as FitSettings
    from relens.ensemble.fit import fit as fit
    from relens.ensemble.weights import EnsembleWeights as EnsembleWeights
    from relens.evaluation import Evaluation as Evaluation
    from relens.evaluation import evaluate as evaluate
    from relens.prediction.ensemble import Ensemble as Ensemble
    from relens.ranks.packed import PackedRanks as PackedRanks
    from relens.ranks.simulate import Simulation as Simulation
    from relens.ranks.store import load as load_ranks  # noqa: F401
    from relens.ranks.store import save as save_ranks  # noqa: F401
    from relens.run import Run as Run

_PUBLIC = {
    "Comparison": "relens.comparison:Comparison",
    "Dataset": "relens.data.dataset:Dataset",
    "Ensemble": "relens.prediction.ensemble:Ensemble",
    "EnsembleWeights": "relens.ensemble.weights:EnsembleWeights",
    "Evaluation": "relens.evaluation:Evaluation",
    "FitSettings": "relens.ensemble.fit:FitSettings",
    "PackedRanks": "relens.ranks.packed:PackedRanks",
    "Queries": "relens.data.queries:Queries",
    "Run": "relens.run:Run",
    "Simulation": "relens.ranks.simulate:Simulation",
    "compare": "relens.comparison:compare",
    "evaluate": "relens.evaluation:evaluate",
    "fit": "relens.ensemble.fit:fit",
    "load_dataset": "relens.data.catalog:load",
    "load_ranks": "relens.ranks.store:load",
    "save_ranks": "relens.ranks.store:save",
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
