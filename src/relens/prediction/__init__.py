"""Prediction: answers of a run's ensemble to questions about its graph."""

from relens.prediction.ensemble import KNOWN, Asked, Ensemble, KnownFacts, Question, ranked_device
from relens.prediction.names import AmbiguousNameError, NameIndex, Names, NoSuchNameError
from relens.prediction.predictions import Prediction, Predictions, ScorePath, Vote

__all__ = [
    "KNOWN",
    "AmbiguousNameError",
    "Asked",
    "Ensemble",
    "KnownFacts",
    "NameIndex",
    "Names",
    "NoSuchNameError",
    "Prediction",
    "Predictions",
    "Question",
    "ScorePath",
    "Vote",
    "ranked_device",
]
