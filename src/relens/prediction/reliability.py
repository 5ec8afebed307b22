"""Reliability: how often answers are true, beside the probability that was stated, on the test split."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from relens.data.queries import SPLITS
from relens.errors import DamagedError
from relens.prediction.confidence import Confidence
from relens.prediction.ensemble import Ensemble
from relens.prediction.judging import Hidden, Panel, judge
from relens.prediction.population import SIZE, Population, SampleSize
from relens.progress import SILENT, Progress
from relens.records import RELIABILITY, mapping, number, whole
from relens.runs import Run

EDGES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""The bins of stated probabilities; each begins at its edge, and 1 belongs to the last."""

SHOWN = 10
"""Places of the answers that are compared: those that a prediction shows."""

LIKELY = 0.1
"""The least probability of an answer that is not almost certainly wrong, as most are."""

POPULATIONS = {
    "all": f"the first {SHOWN} places of all questions",
    "first": "the first place of all questions",
    "likely": f"those of the first {SHOWN} places that got {LIKELY:.0%} or more",
    "missing": f"the first {SHOWN} places of the questions that test answers",
}
"""Answers that are compared, by name. Someone who asks does not know whether an answer is missing."""


class Bin(NamedTuple):
    """Answers with similar probabilities.

    Attributes:
        low, high: the edges of the bin.
        answers: judged answers in the sample.
        weight: answers of the graph that they stand for.
        stated: the mean stated probability.
        observed: the share of facts of the test split.
    """

    low: float
    high: float
    answers: int
    weight: float
    stated: float
    observed: float

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Rebuild from a mapping of the fields."""
        values = {name: number(value[name]) for name in cls._fields if name != "answers"}
        return cls(answers=whole(value["answers"]), **values)


@dataclass(frozen=True)
class Reliability:
    """Stated probabilities beside observed shares.

    Attributes:
        bins: those that are not empty.
        without: the share of answers that got no number.
        ece: expected calibration error: the mean difference of stated and observed over the bins, weighted by answers.
    """

    bins: tuple[Bin, ...]
    without: float
    ece: float

    @classmethod
    def measure(
        cls, stated: npt.NDArray[np.float64], true: npt.NDArray[np.bool_], weight: npt.NDArray[np.float64]
    ) -> Self:
        """Compare n answers: probabilities, NaN for no number; whether they are true; and how many each stands for."""
        given = ~np.isnan(stated)
        place = np.clip(np.searchsorted(EDGES, stated, side="right") - 1, 0, len(EDGES) - 2)
        bins = []
        for number_of, (low, high) in enumerate(pairwise(EDGES)):
            rows = given & (place == number_of)
            total = float(weight[rows].sum())
            if total > 0:
                means = [float(weight[rows] @ values[rows] / total) for values in (stated, true)]
                bins.append(Bin(low, high, int(rows.sum()), total, *means))
        all_ = float(weight.sum())
        judged = sum(each.weight for each in bins)
        error = sum(each.weight * abs(each.stated - each.observed) for each in bins) / judged if judged else np.nan
        return cls(tuple(bins), 1 - judged / all_ if all_ else 1.0, float(error))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; an error that is not defined is None."""
        ece = None if np.isnan(self.ece) else self.ece
        return {"ece": ece, "without": self.without, "bins": [each._asdict() for each in self.bins]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Rebuild from the result of ``to_json``."""
        bins = tuple(Bin.from_json(each) for each in value["bins"])
        return cls(bins, number(value["without"]), np.nan if value["ece"] is None else number(value["ece"]))


def measure_reliability(
    run: Run,
    name: str,
    device: str = "auto",
    *,
    seed: int = 0,
    size: SampleSize = SIZE,
    progress: Progress = SILENT,
) -> dict[str, Reliability] | None:
    """Measure the probabilities of the weights of a name on the test split, by ``POPULATIONS``, and keep the result.

    Return what the run keeps already for the same calibration; None if the run has no calibration of these weights.
    Answers in train and validation are known, and the answers in test are to be found, in a sample of all questions.
    """
    confidence = Confidence.load(run, name, run.weights(name))
    if confidence is None:
        return None
    path = run.reliability_path(name)
    made_from = [confidence.digest, run.ranks("test").digest, seed, *size]
    with suppress(DamagedError):  # it is measured again
        if path.is_file() and (record := RELIABILITY.read(path)).get("made_from") == made_from:
            with RELIABILITY.parsing(str(path)):
                return {key: Reliability.from_json(mapping(record[key])) for key in POPULATIONS}
    ensemble = Ensemble.open(run, name, device)
    population = Population.sample(ensemble.dataset, SPLITS[:2], SPLITS[2], seed, size)
    found = _measured(ensemble, confidence, population, progress)
    RELIABILITY.write(path, {"made_from": made_from, **{key: each.to_json() for key, each in found.items()}})
    return found


def _measured(
    ensemble: Ensemble, confidence: Confidence, population: Population, progress: Progress
) -> dict[str, Reliability]:
    panel = Panel(ensemble.models, ensemble.dataset, ensemble.voting.groups, confidence.scales, [ensemble.weights])
    judgement = judge(panel, population, Hidden(SPLITS[:2], SPLITS[2]), progress=progress)
    stated = confidence.of_judged(judgement)
    weight = population.weight[judgement.question] * judgement.share
    asked = np.zeros(len(population), dtype=bool)
    asked[judgement.question[judgement.true]] = True
    asked[judgement.behind[1] > 0] = True
    shown = judgement.places <= SHOWN
    chosen = {
        "all": shown,
        "first": judgement.places < 2,  # a tied block shares its mean place
        "likely": shown & (stated >= LIKELY),
        "missing": shown & asked[judgement.question],
    }
    return {key: Reliability.measure(stated[rows], judgement.true[rows], weight[rows]) for key, rows in chosen.items()}
