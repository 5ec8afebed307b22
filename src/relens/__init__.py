"""Relation-aware ensembles of knowledge-graph-embedding models.

The functions below are the verbs of the command line. Names are imported when first used: ``import relens`` stays fast.
"""

from typing import TYPE_CHECKING

from relens.exports import lazy_exports

__version__ = "0.1.0"

if TYPE_CHECKING:
    from relens.answers import classify as classify
    from relens.answers import discover as discover
    from relens.answers import predict as predict
    from relens.answers import score as score
    from relens.api import add_members as add_members
    from relens.api import calibrate as calibrate
    from relens.api import evaluate_among as evaluate_among
    from relens.api import rank as rank
    from relens.api import report as report
    from relens.api import run as run
    from relens.api import train as train
    from relens.api import upgrade as upgrade
    from relens.comparison import Comparison as Comparison
    from relens.comparison import compare as compare
    from relens.data.catalog import load_dataset as load_dataset
    from relens.data.checks import DataCheck as DataCheck
    from relens.data.checks import check_data as check_data
    from relens.data.dataset import Dataset as Dataset
    from relens.data.preparation.prepare import PreparedData as PreparedData
    from relens.data.preparation.prepare import prepare_data as prepare_data
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
    from relens.prediction.classification import ClassifiedTriple as ClassifiedTriple
    from relens.prediction.discovery import NewFact as NewFact
    from relens.prediction.ensemble import Ensemble as Ensemble
    from relens.prediction.predictions import Prediction as Prediction
    from relens.prediction.predictions import Predictions as Predictions
    from relens.prediction.relations import RelationPrediction as RelationPrediction
    from relens.prediction.relations import RelationPredictions as RelationPredictions
    from relens.prediction.triples import ScoredTriple as ScoredTriple
    from relens.run_comparison import RunComparison as RunComparison
    from relens.run_comparison import compare_runs as compare_runs
    from relens.runs import Run as Run
    from relens.runs import open_run as open_run
    from relens.training.trained import TrainedModel as TrainedModel

_PUBLIC = {
    "ClassifiedTriple": "relens.prediction.classification",
    "Comparison": "relens.comparison",
    "DataCheck": "relens.data.checks",
    "Dataset": "relens.data.dataset",
    "Ensemble": "relens.prediction.ensemble",
    "EnsembleWeights": "relens.ensemble.weights",
    "Evaluation": "relens.evaluation",
    "NewFact": "relens.prediction.discovery",
    "PackedRanks": "relens.packs.pack",
    "Prediction": "relens.prediction.predictions",
    "Predictions": "relens.prediction.predictions",
    "PreparedData": "relens.data.preparation.prepare",
    "Queries": "relens.data.queries",
    "RelationPrediction": "relens.prediction.relations",
    "RelationPredictions": "relens.prediction.relations",
    "RelensError": "relens.errors",
    "Run": "relens.runs",
    "RunComparison": "relens.run_comparison",
    "ScoredTriple": "relens.prediction.triples",
    "Simulation": "relens.packs.simulation",
    "TrainedModel": "relens.training.trained",
    "add_members": "relens.api",
    "classify": "relens.answers",
    "calibrate": "relens.api",
    "check_data": "relens.data.checks",
    "compare": "relens.comparison",
    "compare_runs": "relens.run_comparison",
    "discover": "relens.answers",
    "evaluate": "relens.evaluation",
    "evaluate_among": "relens.api",
    "fit": "relens.ensemble.search:search",
    "load_dataset": "relens.data.catalog",
    "load_ranks": "relens.packs.store:load_pack",
    "open_run": "relens.runs",
    "predict": "relens.answers",
    "prepare_data": "relens.data.preparation.prepare",
    "rank": "relens.api",
    "report": "relens.api",
    "run": "relens.api",
    "save_ranks": "relens.packs.store:save_pack",
    "score": "relens.answers",
    "search": "relens.ensemble.search",
    "train": "relens.api",
    "upgrade": "relens.api",
}
__all__ = ["__version__", *_PUBLIC]
__getattr__ = lazy_exports(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return sorted(__all__)
