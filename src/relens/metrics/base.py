"""The base class of metrics."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from relens.ranking.answer_ranks import AnswerRanks
from relens.registry import AFTER_OURS

Ranks = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """A number that summarises the ranks of Q answers.

    Attributes:
        name: key in records, and the attribute of ``relens.evaluation.Metrics``.
        description: one line for help texts and the glossary of a report.
        heading: heading of the metric's column in tables.
        order: position in tables and records.
        spec: format specification of the number.
        better: whether higher or lower values are better.
        ties: which rank a tied answer has, see ``AnswerRanks``. Comparisons show the metrics of realistic ranks.
        spare: columns with the lowest number are dropped first on a narrow terminal; 0 is never dropped.
    """

    name: str
    description: str
    heading: str
    order: int = AFTER_OURS
    spec: str = ".4f"
    better: Literal["higher", "lower"] = "higher"
    ties: Literal["realistic", "optimistic", "pessimistic"] = "realistic"
    spare: int = 5

    def measure(self, answer_ranks: AnswerRanks) -> float:
        """Return the metric of the answers' ranks (Q,)."""
        ranks: Ranks = getattr(answer_ranks, self.ties)
        return self.summarise(ranks)

    @abstractmethod
    def summarise(self, ranks: Ranks) -> float:
        """Return the metric of ``ranks`` (Q,), float64; tied answers have the rank that ``ties`` names."""
