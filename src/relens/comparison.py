"""Comparing methods: each is fitted on validation ranks, all are judged on the same test ranks, once."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from relens.data.grouping import Grouping
from relens.ensemble.baselines import model_mrrs
from relens.ensemble.search import SearchSettings, search
from relens.ensemble.weights import EnsembleWeights
from relens.errors import InputError, MissingExtraError, nearest
from relens.evaluation import Evaluation, NamedRanks, evaluate, evaluate_ranks, model_ranks, relation_spread
from relens.packs.pack import PackedRanks
from relens.packs.store import check_pair
from relens.progress import SILENT, Progress
from relens.records import COMPARISON

DEFAULT_SPECS = (
    "mean",
    "mrr-mean",
    "stacking",
    "greedy",
    "simple:input=rank",
    "dsc:input=rank,regularise=none",
    "simple",
    "dsc",
)
"""The paper's baselines and its methods in the paper's own form, then the same with relens's defaults."""


@dataclass(frozen=True)
class Comparison:
    """Methods and single models side by side.

    Attributes:
        best_single: the model with the best validation MRR, against which every other is tested.
        evaluations: those of the models, then those of the methods, in the order asked for; a method that is called
            like one of the models says that it is the ensemble.
        weights: the fitted weights of each method, by the name of its evaluation.
        spread: how much the models differ relation by relation, see ``relation_spread``.
        notes: methods that could not be run, in words.
        ranks: digests of the validation and test ranks, by split.
    """

    best_single: str
    evaluations: tuple[Evaluation, ...]
    weights: dict[str, EnsembleWeights]
    spread: dict[str, Any]
    notes: tuple[str, ...]
    ranks: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return everything but the per-query ranks as plain JSON values."""
        values = {
            "best_single": self.best_single,
            "evaluations": [evaluation.to_json() for evaluation in self.evaluations],
            "weights": {name: weights.to_json() for name, weights in self.weights.items()},
            "spread": self.spread,
            "notes": list(self.notes),
            "ranks": self.ranks,
        }
        return COMPARISON.stamp(values)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Comparison":
        """Rebuild a comparison from ``to_json``'s result."""
        COMPARISON.check(value, "the comparison")
        return cls(
            best_single=value["best_single"],
            evaluations=tuple(Evaluation.from_json(entry) for entry in value["evaluations"]),
            weights={name: EnsembleWeights.from_json(entry, name) for name, entry in value["weights"].items()},
            spread=value["spread"],
            notes=tuple(value["notes"]),
            ranks=value["ranks"],
        )


def compare(
    valid: PackedRanks,
    test: PackedRanks,
    specs: Sequence[str] = DEFAULT_SPECS,
    *,
    settings: SearchSettings | None = None,
    jobs: int = 1,
    progress: Progress = SILENT,
) -> Comparison:
    """Fit each method on ``valid`` and evaluate it, and every single model, on ``test``.

    Args:
        valid: validation ranks.
        test: test ranks of the same models and data set.
        specs: methods, each with settings of its own if any: ``dsc`` or ``dsc:input=rank,regularise=none``.
        settings: what the specs leave open.
        jobs: workers.
        progress: where to show it.
    """
    check_pair(valid, test)
    settings = settings or SearchSettings()
    wanted = {spec: parse_spec(spec, settings) for spec in specs}
    grouping = Grouping.make(settings.group, test.relations)
    best = valid.models[int(np.argmax(model_mrrs(valid, jobs=jobs)))]
    single = {model: model_ranks(test, model, jobs=jobs) for model in test.models}
    evaluations = [
        evaluate_ranks(
            NamedRanks(model, ranks), test, grouping, seed=settings.seed,
            reference=None if model == best else NamedRanks(best, single[best]),
        )
        for model, ranks in single.items()
    ]  # fmt: skip
    weights: dict[str, EnsembleWeights] = {}
    notes: list[str] = []
    for spec, asked in wanted.items():
        name = f"{spec} (ensemble)" if spec in single else spec
        try:
            weights[name] = search(valid, asked, jobs=jobs, progress=progress)
        except MissingExtraError as error:
            notes.append(f"{spec} left out: {error}")
            continue
        evaluations.append(evaluate(test, weights[name], name=name, reference=best, seed=settings.seed, jobs=jobs))
    ranks = {"valid": valid.digest, "test": test.digest}
    return Comparison(best, tuple(evaluations), weights, relation_spread(single, test), tuple(notes), ranks)


def parse_spec(spec: str, settings: SearchSettings) -> SearchSettings:
    """Return ``settings`` changed as ``METHOD[:key=value,…]`` says."""
    method, _, options = spec.partition(":")
    known = {field.name: field.type for field in fields(SearchSettings) if field.name != "method"}
    changes: dict[str, Any] = {"method": method}
    for option in filter(None, options.split(",")):
        key, equals, value = option.partition("=")
        if key not in known or not equals:
            raise InputError(f"method {spec!r}: found {option!r}, expected key=value; {nearest(key, known)}")
        changes[key] = value
        if known[key] in (int, int | None):
            try:
                changes[key] = int(value)
            except ValueError:
                raise InputError(f"method {spec!r}: {key} is {value!r}, expected a whole number") from None
    return replace(settings, **changes)
