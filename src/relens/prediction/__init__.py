"""Prediction: what the ensemble of a run says about questions that the graph leaves open."""

from relens.prediction.names import AmbiguousNameError, Names, NoSuchNameError
from relens.prediction.predictor import KNOWN, Known, Predictor, Question
from relens.prediction.records import Prediction, Predictions, Vote

__all__ = [
    "KNOWN",
    "AmbiguousNameError",
    "Known",
    "Names",
    "NoSuchNameError",
    "Prediction",
    "Predictions",
    "Predictor",
    "Question",
    "Vote",
]
