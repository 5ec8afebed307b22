"""Prediction: what the ensemble of a run says about questions that the graph leaves open."""

from relens.prediction.predictor import KNOWN, Known, Predictor, Question
from relens.prediction.records import Prediction, Predictions, Vote

__all__ = ["KNOWN", "Known", "Prediction", "Predictions", "Predictor", "Question", "Vote"]
