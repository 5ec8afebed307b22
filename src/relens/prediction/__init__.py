"""Prediction: answers of a run's ensemble to questions about its graph."""

from relens.prediction.classification import ClassificationEvaluation, ClassifiedTriple
from relens.prediction.confidence import Confidence
from relens.prediction.discovery import NewFact
from relens.prediction.ensemble import Ensemble
from relens.prediction.facts import Facts
from relens.prediction.names import AmbiguousNameError, NameIndex, Names, NoSuchNameError
from relens.prediction.opening import ranked_device
from relens.prediction.predictions import Prediction, Predictions, ScorePath, Vote
from relens.prediction.questions import KNOWN, Asked, KnownFacts, Question
from relens.prediction.relations import RelationEvaluation, RelationPrediction, RelationPredictions
from relens.prediction.triples import ScoredTriple

__all__ = [
    "KNOWN",
    "AmbiguousNameError",
    "Asked",
    "ClassificationEvaluation",
    "ClassifiedTriple",
    "Confidence",
    "Ensemble",
    "Facts",
    "KnownFacts",
    "NameIndex",
    "Names",
    "NewFact",
    "NoSuchNameError",
    "Prediction",
    "Predictions",
    "Question",
    "RelationEvaluation",
    "RelationPrediction",
    "RelationPredictions",
    "ScorePath",
    "ScoredTriple",
    "Vote",
    "ranked_device",
]
