"""Prediction: answers of a run's ensemble to questions about its graph."""

from relens.prediction.ensemble import KNOWN, Ensemble, KnownFacts, Question, ranked_device
from relens.prediction.names import AmbiguousNameError, NameIndex, Names, NoSuchNameError
from relens.prediction.predictions import Prediction, Predictions, Vote

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
