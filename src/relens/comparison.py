"""Comparison of methods: each is fitted on validation ranks, and all are evaluated once on the same test ranks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relens.data.grouping import Grouping
from relens.ensemble.methods import METHODS
from relens.ensemble.objective import model_mrrs
from relens.ensemble.search import search
from relens.ensemble.searchers import SEARCHERS
from relens.ensemble.settings import SearchSettings, setting_options
from relens.ensemble.weights import EnsembleWeights
from relens.errors import InputError, MissingExtraError, nearest
from relens.evaluation import (
    Evaluation,
    NamedRanks,
    evaluate,
    evaluate_ranks,
    model_ranks,
    relation_spread,
    spread_from_json,
)
from relens.options import Option
from relens.packs.pack import PackedRanks
from relens.packs.store import check_pair
from relens.progress import SILENT, Progress
from relens.records import COMPARISON, text, texts

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
"""The paper's baselines and its methods in the paper's own form, then its methods with relens's defaults."""


@dataclass(frozen=True)
class Comparison:
    """Methods and single models side by side.

    Attributes:
        best_single: the model with the best validation MRR; every other evaluation is tested against it.
        evaluations: those of the models, then those of the methods in the order of the specs. A method with the name of
            a model is marked as the ensemble.
        weights: the fitted weights of each method, by the name of its evaluation.
        spread: how much the models differ relation by relation, see ``relation_spread``.
        notes: methods that could not be run, and why.
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
    def from_json(cls, value: dict[str, Any], where: str = "the comparison") -> "Comparison":
        """Rebuild a comparison from ``to_json``'s result; ``where`` names it in errors."""
        COMPARISON.check(value, where)
        with COMPARISON.parsing(where):
            evaluations, weights = value["evaluations"], value["weights"].items()
            if not evaluations:
                raise ValueError("it has no evaluations")
            return cls(
                best_single=text(value["best_single"]),
                evaluations=tuple(Evaluation.from_json(entry, where) for entry in evaluations),
                weights={name: EnsembleWeights.from_json(entry, f"{where}, {name}") for name, entry in weights},
                spread=spread_from_json(value["spread"]),
                notes=texts(value["notes"]),
                ranks={split: text(digest) for split, digest in value["ranks"].items()},
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
        specs: methods, each with its own settings if any: ``dsc`` or ``dsc:input=rank,regularise=none``.
        settings: settings that the specs do not give.
        jobs: workers; results do not depend on it.
        progress: where to show progress.
    """
    check_pair(valid, test)
    settings = settings or SearchSettings()
    wanted = {spec: parse_spec(spec, settings) for spec in specs}
    grouping = Grouping.from_spec(settings.group, test.relations)
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
            weights[name] = search(valid, **asked.arguments(), jobs=jobs, progress=progress)
        except MissingExtraError as error:
            notes.append(f"{spec} left out: {error}")
            continue
        evaluations.append(evaluate(test, weights[name], name=name, reference=best, seed=settings.seed, jobs=jobs))
    ranks = {"valid": valid.digest, "test": test.digest}
    return Comparison(best, tuple(evaluations), weights, relation_spread(single, test), tuple(notes), ranks)


def weights_name(method: str) -> str:
    """Return the name of the weights of a compared method: ``dsc:input=rank`` becomes ``dsc+input-rank``."""
    return method.replace(":", "+").replace(",", "+").replace("=", "-").replace(" (ensemble)", "+ensemble")


def parse_spec(spec: str, settings: SearchSettings) -> SearchSettings:
    """Return ``settings`` changed by ``METHOD[:key=value,…]``.

    A key is a field of ``SearchSettings``, or an option that the method or the searcher of the spec declares.
    """
    method, _, text = spec.partition(":")
    given = dict(_key_and_value(spec, part) for part in text.split(",") if part)
    fields = {name: option for name, option in setting_options().items() if name != "method"}
    own = _own_options(method, given.get("searcher", settings.searcher))
    changes: dict[str, Any] = {"method": method}
    options: dict[str, Any] = {}
    for key, value in given.items():
        if key not in fields and key not in own:
            raise _wrong_part(spec, f"{key}={value}", key, [*fields, *own])
        option = (fields | own)[key]
        try:
            (changes if key in fields else options)[key] = option.parse(key, value)
        except InputError as error:
            raise InputError(f"method {spec!r}: {error}") from None
    return replace(settings, **changes, options=options)


def _key_and_value(spec: str, part: str) -> tuple[str, str]:
    key, equals, value = part.partition("=")
    if not equals:
        raise _wrong_part(spec, part, key, setting_options())
    return key, value


def _own_options(method: str, searcher: str) -> dict[str, Option]:
    """Return the options that a method and a searcher declare; none for names that ``SearchSettings`` will reject."""
    entries = [table[name] for table, name in ((SEARCHERS, searcher), (METHODS, method)) if name in table]
    return {name: option for entry in entries for name, option in entry.options.items()}


def _wrong_part(spec: str, part: str, key: str, known: Iterable[str]) -> InputError:
    return InputError(f"method {spec!r}: found {part!r}, expected key=value; {nearest(key, known)}")
