"""Stale results in a run: weights of earlier ranks, and results of earlier weights.

Weights name the ranks that they were fitted on, a comparison holds its weights and names its ranks, the page of a
report names the comparison that it shows, and what was fitted for some weights names them, their ranks and models.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from relens.checksums import file_checksum
from relens.comparison import Comparison, weights_name
from relens.data.queries import EVALUATED
from relens.ensemble.weights import EnsembleWeights
from relens.errors import InputError
from relens.files import read_json
from relens.packs.pack import PackedRanks
from relens.records import COMPARISON

if TYPE_CHECKING:
    from relens.runs import Run

_SHOWN = re.compile(r'<meta name="comparison" content="([0-9a-f]{16})">')
SCALE_RECORD = "scale.json"
"""The record of a scale of relations, in its folder."""
_HEAD = 2_000
"""The first characters of a page, which name the comparison that it shows."""


def stale_results(run: "Run") -> tuple[str, ...]:
    """Return a sentence for everything in a run that no longer belongs to its ranks or weights, with the remedy.

    Damaged files are left out: they say so where they are used.
    """
    found: list[str] = []
    if weights := stale_weights(run):
        found.append(
            f"weights of earlier validation ranks: {', '.join(weights)}; search again with `relens search {run.path}`"
        )
    with suppress(InputError):
        comparison = kept_comparison(run)
        if comparison is not None:
            found.extend(_stale_comparison(run, comparison))
    for name in stale_calibrations(run):
        found.append(
            f"what was calibrated for the weights {name} is of earlier ones, or of other models: calibrate again with "
            f"`relens calibrate {run.path} --weights {name}`"
        )
    return tuple(found)


def _stale_comparison(run: "Run", comparison: Comparison) -> Iterator[str]:
    """Yield what the comparison and the report of a run show, if it is not what the run has now."""
    page, remedy = page_comparison(run), f"make them again with `relens report {run.path}`"
    shown = "the comparison still shows" if page is None else "the comparison and the report still show"
    if not is_of_ranks(comparison, run):
        yield f"{shown} earlier ranks: {remedy}"
        return
    if changed := changed_methods(comparison, run):
        yield f"{shown} earlier weights of {', '.join(changed)}: {remedy}"
    elif page not in (None, "", file_checksum(run.comparison_path)):
        yield f"the report still shows an earlier comparison: {remedy}"
    if others := _of_other_models(comparison, run):
        yield (
            f"{shown} weights of {', '.join(others)} for {', '.join(comparison.spread['models'])}, but the run now has "
            f"weights of that name for other models: give those a name of their own with `relens search --name`"
        )


def stale_weights(run: "Run") -> list[str]:
    """Return the names of the weights that were fitted on other validation ranks than the run has now."""
    with suppress(InputError):  # no ranks, or damaged ones
        valid = run.ranks("valid")
        return [name for name, weights in _kept_weights(run).items() if not fits(weights, valid)]
    return []


def stale_calibrations(run: "Run") -> list[str]:
    """Return the names of the weights for which the run keeps something that was fitted with others, or other models.

    This is the confidence, the thresholds of verdicts, and the scale of relations.
    """
    found = []
    for name, weights in _kept_weights(run).items():
        scale = run.relation_scale_path(name) / SCALE_RECORD
        origin = made_from(run, weights)
        for path in (run.calibration_path(name), run.thresholds_path(name), scale):
            with suppress(InputError):
                kept = read_json(path, "calibration").get("made_from") if path.is_file() else None
                if isinstance(kept, dict) and {key: kept.get(key) for key in origin} != origin:
                    found.append(name)
                    break
    return found


def made_from(run: "Run", weights: EnsembleWeights) -> dict[str, Any]:
    """Return the digests of weights, of the ranks they were fitted on, and of the models of a run that have one."""
    content = {
        "models": weights.models, "groups": weights.grouping.labels, "table": weights.table.tolist(),
        "input": weights.input, "scales": None if weights.gap_scales is None else weights.gap_scales.tolist(),
    }  # fmt: skip
    digest = sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
    models = (run.made_by() or {}).get("models", {})
    return {
        "weights": digest,
        "ranks": weights.fitted_on,
        "models": {model: models[model] for model in weights.models if model in models},
    }


def fits(weights: EnsembleWeights, valid: PackedRanks) -> bool:
    """Say whether weights were fitted on these validation ranks, or on those of some models; yes if it is unknown."""
    return not weights.fitted_on or of_models(valid, weights.models).is_named(weights.fitted_on)


def is_of_ranks(comparison: Comparison, run: "Run") -> bool:
    """Say whether a comparison was made from the ranks that a run has now, or from those of some of its models."""
    if not all(map(run.has_ranks, EVALUATED)):
        return False
    packs = {split: of_models(run.ranks(split), comparison.spread["models"]) for split in EVALUATED}
    same_data = all(evaluation.provenance == packs["test"].provenance for evaluation in comparison.evaluations)
    return same_data and all(packed.is_named(str(comparison.ranks.get(split))) for split, packed in packs.items())


def changed_methods(comparison: Comparison, run: "Run") -> dict[str, EnsembleWeights]:
    """Return the weights of the run that replaced those of a comparison, by the name of the method.

    Weights of other models, and weights that do not fit the ranks of the run, are left out.
    """
    found = {}
    for method, weights in _by_method(comparison, run).items():
        compared = comparison.weights[method]
        if set(weights.models) == set(compared.models) and weights.to_json() != compared.to_json():
            found[method] = weights
    return found


def _of_other_models(comparison: Comparison, run: "Run") -> list[str]:
    """Return the methods of a comparison whose weights in the run combine other models."""
    kept = _by_method(comparison, run)
    return [method for method in kept if set(kept[method].models) != set(comparison.weights[method].models)]


def _by_method(comparison: Comparison, run: "Run") -> dict[str, EnsembleWeights]:
    """Return the weights of a run that have the names of compared methods and fit the ranks of the run, by method."""
    valid, kept = run.ranks("valid"), _kept_weights(run)
    named = {method: kept.get(weights_name(method)) for method in comparison.weights}
    return {method: weights for method, weights in named.items() if weights is not None and fits(weights, valid)}


def kept_comparison(run: "Run") -> Comparison | None:
    """Return the comparison in a run; None if there is none, or one that this relens cannot read."""
    if not run.comparison_path.is_file():
        return None
    record = read_json(run.comparison_path, "comparison", COMPARISON.remedy)
    try:
        comparison = Comparison.from_json(record, str(run.comparison_path))
        return comparison if comparison.weights and comparison.spread["models"] else None
    except (InputError, KeyError, TypeError, AttributeError):
        return None  # written by another version


def page_comparison(run: "Run") -> str | None:
    """Return the checksum of the comparison that the report of a run shows; None without a report, empty if unknown."""
    page = run.report_path / "index.html"
    if not page.is_file():
        return None
    with page.open(encoding="utf-8", errors="replace") as file:
        found = _SHOWN.search(file.read(_HEAD))
    return found[1] if found else ""


def of_models(packed: PackedRanks, models: Sequence[str]) -> PackedRanks:
    """Return the ranks of these models in this order; ``packed`` itself if it has exactly these, or not all of them."""
    same = packed.models == tuple(models) or not set(models) <= set(packed.models)
    return packed if same else packed.select_models(models)


def _kept_weights(run: "Run") -> dict[str, EnsembleWeights]:
    """Return the weights of a run by name, without damaged ones, which say so where they are used."""
    found = {}
    for name in run.weights_names:
        with suppress(InputError):
            found[name] = run.weights(name)
    return found
