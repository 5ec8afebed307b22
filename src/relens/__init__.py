"""Relation-aware ensembles of knowledge-graph-embedding models.

The functions below are the verbs of the command line. Names are imported when first used: ``import relens`` stays fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from relens.api import predict as predict
    from relens.api import rank as rank
    from relens.api import report as report
    from relens.api import run as run
    from relens.api import train as train
    from relens.api import upgrade as upgrade
    from relens.comparison import Comparison as Comparison
    from relens.comparison import compare as compare
    from relens.data.catalog import load_dataset as load_dataset
    from relens.data.dataset import Dataset as Dataset
    from relens.data.queries import Queries as Queries
    from relens.ensemble.search import search as fit  # noqa: F401
    from relens.ensemble.search import search as search
    from relens.ensemble.weights import EnsembleWeights as EnsembleWeights
    from relens.errors import RelensError as RelensError
    from relens.evaluation import Evaluation as Evaluation
    from relens.evaluation import evaluate as evaluate
    from relens.packs.pack import PackedRanks as PackedRanks
    from relens.packs.simulation import Simulation as Simulation
    from relens.packs.store import load_pack as load_ranks  # noqa: F401
    from relens.packs.store import save_pack as save_ranks  # noqa: F401
    from relens.prediction.ensemble import Ensemble as Ensemble
    from relens.prediction.predictions import Prediction as Prediction
    from relens.prediction.predictions import Predictions as Predictions
    from relens.runs import Run as Run
    from relens.runs import open_run as open_run
    from relens.training.trained import TrainedModel as TrainedModel

_PUBLIC = {
    "Comparison": "relens.comparison:Comparison",
    "Dataset": "relens.data.dataset:Dataset",
    "Ensemble": "relens.prediction.ensemble:Ensemble",
    "EnsembleWeights": "relens.ensemble.weights:EnsembleWeights",
    "Evaluation": "relens.evaluation:Evaluation",
    "PackedRanks": "relens.packs.pack:PackedRanks",
    "Prediction": "relens.prediction.predictions:Prediction",
    "Predictions": "relens.prediction.predictions:Predictions",
    "Queries": "relens.data.queries:Queries",
    "RelensError": "relens.errors:RelensError",
    "Run": "relens.runs:Run",
    "Simulation": "relens.packs.simulation:Simulation",
    "TrainedModel": "relens.training.trained:TrainedModel",
    "compare": "relens.comparison:compare",
    "evaluate": "relens.evaluation:evaluate",
    "fit": "relens.ensemble.search:search",
    "load_dataset": "relens.data.catalog:load_dataset",
    "load_ranks": "relens.packs.store:load_pack",
    "open_run": "relens.runs:open_run",
    "predict": "relens.api:predict",
    "rank": "relens.api:rank",
    "report": "relens.api:report",
    "run": "relens.api:run",
    "save_ranks": "relens.packs.store:save_pack",
    "search": "relens.ensemble.search:search",
    "train": "relens.api:train",
    "upgrade": "relens.api:upgrade",
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
    return sorted(__all__)
