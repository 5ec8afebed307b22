"""Confidence: the probability that a candidate is a fact, held out of the graph in the way that validation was."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from relens.ensemble.weights import EnsembleWeights
from relens.prediction.calibration import Judged, Regression, Steps, cross_fitted
from relens.prediction.evidence import FEATURES, Candidates, Evidence, evidence_of, in_usual_units
from relens.prediction.judging import PLACES, Judgement, usual_scores
from relens.records import CALIBRATION, mapping, number, whole
from relens.runs import Run
from relens.staleness import made_from

LEAST_QUESTIONS = 5
"""Sampled questions that a group needs to get probabilities."""

LEAST_FACTS = 20
"""Hidden facts that are needed among the judged candidates of a kind of question."""

KINDS = ("unanswered", "answered")
"""Questions without and with known answers, which are calibrated apart."""


class Calibrated(NamedTuple):
    """The calibration for one kind of question.

    Attributes:
        regression: the log odds of a candidate.
        steps: its probability.
        questions: sampled questions of each group, (G,) int64.
        behind: the share of true candidates behind the first ``PLACES`` places.
    """

    regression: Regression
    steps: Steps
    questions: npt.NDArray[np.int64]
    behind: float

    @classmethod
    def fit(cls, judged: Judged, questions: npt.NDArray[np.int64], behind: float) -> Self:
        """Fit to n judged candidates; the other arguments are kept."""
        regression, log_odds = cross_fitted(judged, len(questions))
        return cls(regression, Steps.fit(log_odds, judged.true, judged.weight), questions, behind)

    def probability(self, group: npt.NDArray[np.int64], evidence: Evidence) -> npt.NDArray[np.float64]:
        """Return the probability of k candidates of questions in groups (k,), as (k,); NaN: too few such questions."""
        found = self.steps.at(self.regression.log_odds(evidence.features, group))
        found = np.where(evidence.places > PLACES, min(self.behind, float(self.steps.values[0])), found)
        return np.where(self.questions[group] < LEAST_QUESTIONS, np.nan, found)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        parts = {"regression": self.regression._asdict(), "steps": self.steps._asdict()}
        lists = {name: {key: array.tolist() for key, array in part.items()} for name, part in parts.items()}
        return {**lists, "questions": self.questions.tolist(), "behind": self.behind}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], n_groups: int) -> Self:
        """Rebuild from the result of ``to_json`` for G groups."""
        n = len(FEATURES)
        shapes = dict.fromkeys(("low", "high", "mean", "scale", "coefficients"), n) | {"intercepts": n_groups}
        regression = {name: _floats(mapping(value["regression"])[name], size) for name, size in shapes.items()}
        bounds = _floats(mapping(value["steps"])["bounds"])
        steps = Steps(bounds, _floats(mapping(value["steps"])["values"], len(bounds)))
        questions, behind = [whole(count) for count in value["questions"]], float(number(value["behind"]))
        if len(questions) != n_groups or not len(bounds):
            raise ValueError(f"found {len(questions)} groups and {len(bounds)} steps, expected {n_groups} and some")
        shares = np.append(steps.values, behind)
        if (np.diff(bounds) < 0).any() or (shares < 0).any() or (shares > 1).any():
            raise ValueError("expected ascending steps of probabilities")
        return cls(Regression(**regression), steps, np.array(questions, dtype=np.int64), behind)


@dataclass(frozen=True, eq=False)
class Confidence:
    """The probability of candidates, by the members' scores and some weights of a run.

    Attributes:
        weights: the weights.
        scales: unit of each model's scores, (N,).
        usual: mean and standard deviation of the mean score of known answers, by group, (G, 2).
        parts: the calibrations for ``KINDS``; None where evidence is lacking.
        made_from: digests of weights and models.
        counts: of questions, candidates and facts that it was fitted to, and the number of folds.
    """

    weights: EnsembleWeights
    scales: npt.NDArray[np.float64]
    usual: npt.NDArray[np.float64]
    parts: tuple[Calibrated | None, Calibrated | None]
    made_from: Mapping[str, Any]
    counts: Mapping[str, int] = field(default_factory=dict)

    def probability(self, group: int, asked: Candidates, entities: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the probability that each of some candidates of a query is a fact, (k,) float64.

        NaN says that there is not enough evidence: the group has too few questions like this one, with known answers or
        without, or validation has too few facts. The probability holds for a question drawn from all questions of the
        graph, if as many facts are missing as validation has, and chosen like them. All entities are judged as
        candidates: the caller leaves out known answers, and questions and candidates on which a model abstains.

        Args:
            group: the group of the query in the weights.
            asked: the query's candidates, with the scores of the models that have a weight in the group.
            entities: the ids to judge, (k,).
        """
        if self.parts[int(len(asked.known) > 0)] is None or not len(entities):
            return np.full(len(entities), np.nan)
        evidence = evidence_of(asked, entities, self.scales[self.weights.table[group] > 0])
        return self.of_evidence(group, evidence, np.full(len(entities), len(asked.known) > 0))

    def of_evidence(self, group: int, evidence: Evidence, answered: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        """Return the probability of k candidates of queries in one group, (k,); see ``probability``.

        Args:
            group: the group of the queries.
            evidence: on the candidates.
            answered: whether the query of each candidate has known answers, (k,).
        """
        features = in_usual_units(evidence.features, np.broadcast_to(self.usual[group], (len(answered), 2)))
        found, groups = np.full(len(answered), np.nan), np.full(len(answered), group)
        for part, kind in zip(self.parts, (False, True), strict=True):
            rows = answered == kind
            if part is not None and rows.any():
                found[rows] = part.probability(groups[rows], Evidence(evidence.places[rows], features[rows]))
        return found

    def of_judged(self, judgement: Judgement) -> npt.NDArray[np.float64]:
        """Return the probabilities of n judged candidates, (n,); see ``probability``."""
        group = judgement.group[judgement.question]
        features = in_usual_units(judgement.features, self.usual[group])
        found = np.full(len(features), np.nan)
        for part, answered in zip(self.parts, (False, True), strict=True):
            rows = judgement.answered[judgement.question] == answered
            if part is not None:
                found[rows] = part.probability(group[rows], Evidence(judgement.places[rows], features[rows]))
        return found

    @classmethod
    def fit(
        cls,
        weights: EnsembleWeights,
        scales: npt.NDArray[np.float64],
        judgement: Judgement,
        sample: tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]],
        made_from: Mapping[str, Any],
    ) -> Self:
        """Fit to the judged candidates of q questions.

        Args:
            weights: the weights that will order candidates.
            scales: the unit of each model's scores, (N,).
            judgement: the candidates. Set 0 of weights is ``weights``, set 1 + f those that were fitted without fold f.
            sample: the weight and the fold of each question, (q,) each.
            made_from: what to keep with the record.
        """
        weight, fold = sample
        usual = usual_scores(judgement.sums)
        features = in_usual_units(
            judgement.features, usual[1 + fold[judgement.question], judgement.group[judgement.question]]
        )
        parts: list[Calibrated | None] = []
        for answered in (False, True):
            kind = judgement.answered == answered
            rows = kind[judgement.question]
            question = judgement.question[rows]
            if judgement.true[rows].sum() < LEAST_FACTS:
                parts.append(None)
                continue
            unseen, true = judgement.behind[:, kind] @ weight[kind]
            judged = Judged(
                features[rows],
                judgement.group[question],
                fold[question],
                weight[question] * judgement.share[rows],
                judgement.true[rows],
            )
            questions = np.bincount(judgement.group[kind], minlength=len(weights.grouping))
            parts.append(Calibrated.fit(judged, questions, float(true / max(1.0, unseen))))
        counts = {"questions": len(weight), "candidates": len(judgement.true), "facts": int(judgement.true.sum())}
        return cls(weights, scales, usual[0], (parts[0], parts[1]), made_from, counts)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "made_from": dict(self.made_from),
            "counts": dict(self.counts),
            "features": list(FEATURES),
            "scales": self.scales.tolist(),
            "usual": self.usual.tolist(),
            **{kind: part and part.to_json() for kind, part in zip(KINDS, self.parts, strict=True)},
        }

    @property
    def digest(self) -> str:
        """The identity of the contents."""
        return sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:16]

    def save(self, run: Run, name: str) -> None:
        """Keep this in a run, for the weights of a name."""
        CALIBRATION.write(run.calibration_path(name), self.to_json())

    @classmethod
    def load(cls, run: Run, name: str, weights: EnsembleWeights) -> Self | None:
        """Load what the run keeps for some weights; None if there is nothing, or it is of other weights or models."""
        path = run.calibration_path(name)
        if not path.is_file():
            return None
        record = CALIBRATION.read(path)
        with CALIBRATION.parsing(str(path)):
            if record["made_from"] != made_from(run, weights) or record["features"] != list(FEATURES):
                return None
            n_groups = len(weights.grouping)
            unanswered, answered = (
                None if record[kind] is None else Calibrated.from_json(mapping(record[kind]), n_groups)
                for kind in KINDS
            )
            usual = np.array([_floats(pair, 2) for pair in record["usual"]]).reshape(n_groups, 2)
            scales = _floats(record["scales"], len(weights.models))
            counts = {key: whole(count) for key, count in mapping(record["counts"]).items()}
            return cls(weights, scales, usual, (unanswered, answered), record["made_from"], counts)


def _floats(values: Any, size: int | None = None) -> npt.NDArray[np.float64]:
    found = np.array([number(value) for value in values], dtype=np.float64)
    if size is not None and len(found) != size:
        raise ValueError(f"found {len(found)} numbers, expected {size}")
    return found
