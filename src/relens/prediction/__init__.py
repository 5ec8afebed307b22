"""Prediction: what the ensemble of a run says about questions that the graph leaves open."""

from relens.prediction.ensemble import KNOWN, Ensemble, KnownFacts, Question, ranked_device
from relens.prediction.index import NameIndex
from relens.prediction.names import AmbiguousNameError, Names, NoSuchNameError
from relens.prediction.records import Prediction, Predictions, Vote

__all__ = [
    "KNOWN",
    "AmbiguousNameError",
    "Ensemble",
    "KnownFacts",
    "NameIndex",
    "Names",
    "NoSuchNameError",
    "Prediction",
    "Predictions",
    "Question",
    "Vote",
    "ranked_device",
]
