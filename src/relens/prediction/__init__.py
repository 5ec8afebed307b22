"""Prediction: answers of a run's ensemble to questions about its graph."""

from relens.prediction.confidence import Confidence
from relens.prediction.ensemble import Ensemble
from relens.prediction.facts import Facts
from relens.prediction.names import AmbiguousNameError, NameIndex, Names, NoSuchNameError
from relens.prediction.opening import ranked_device
from relens.prediction.predictions import Prediction, Predictions, ScorePath, Vote
from relens.prediction.questions import KNOWN, Asked, KnownFacts, Question

__all__ = [
    "KNOWN",
    "AmbiguousNameError",
    "Asked",
    "Confidence",
    "Ensemble",
    "Facts",
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
