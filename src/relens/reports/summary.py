"""The sentences of a report: the value of the ensemble, the main numbers, and a glossary."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from relens.ensemble.inputs import INPUTS
from relens.ensemble.methods import METHODS
from relens.ensemble.weights import EnsembleWeights
from relens.evaluation import Metrics, model_ranks
from relens.metrics import METRICS
from relens.reports.material import Material
from relens.reports.relations import ALPHA, RelationRow
from relens.reports.style import method_label, minus, mrr, p_equals, share, signed
from relens.significance import LEVEL, PairedTest, paired_test

REFERENCE = "the single model with the best MRR on the validation split; every gain is measured against it"
GAPS = "a candidate's score minus the answer's score, in units that make the models comparable"
KAPPA = (
    "strength of the shrinkage of a relation's weights towards those of all relations: with 0 each relation keeps its "
    "own weights, with ∞ all have the same"
)
CONTESTED = (
    "a candidate that is neither behind the answer in every model nor ahead of it in every model, so that the weights "
    "decide its place"
)
INTERVAL = f"the range of the MRR in {share(LEVEL)} of the bootstrap resamples of the test triples"
P = "the probability of a difference at least as large if both were equally good"


def glossary(material: Material) -> dict[str, str]:
    """Return the words of a report with their descriptions: methods, inputs, terms, metrics."""
    weights = material.comparison.weights.values()
    methods = dict.fromkeys(str(each.settings.get("method", "")) for each in weights)
    inputs = dict.fromkeys(each.input for each in weights)
    metrics: Metrics = material.evaluation(material.ensemble).overall
    return {
        f"{material.comparison.best_single}, best single model": REFERENCE,
        **{name: METHODS[name].description for name in methods if name in METHODS},
        **{f"input {name}": INPUTS[name].description for name in inputs if name in INPUTS},
        **({"score gap": GAPS} if any(INPUTS[name].needs_gaps for name in inputs if name in INPUTS) else {}),
        **({"κ (kappa)": KAPPA} if any("kappa" in each.settings for each in weights) else {}),
        "contested": CONTESTED,
        **{METRICS[name].heading: METRICS[name].description for name in metrics if name in METRICS},
        "interval": INTERVAL,
        "p": P,
    }


def input_name(name: str) -> str:
    """Return a short name of an input for sentences, such as ``score gaps``."""
    return INPUTS[name].label


def input_phrase(name: str) -> str:
    """Return the name of an input with the unit of its values."""
    unit = ", each model's in units of its own" if INPUTS[name].needs_gaps else ""
    return f"{INPUTS[name].label}{unit}"


def headline(material: Material) -> str:
    """Return one sentence: the MRR of the ensemble, its interval, and the difference to the best single model."""
    ours, best = material.evaluation(material.ensemble), material.evaluation(material.comparison.best_single)
    low, high = ours.interval
    text = (
        f"On the {ours.provenance.split} split of {ours.provenance.dataset} the ensemble {method_label(ours.name)} "
        f"reaches an MRR of {mrr(ours.overall.mrr)} ({share(LEVEL)} interval {mrr(low)} to {mrr(high)})"
    )
    if ours.paired is None:
        return f"{text}."
    difference, p = ours.paired.difference, ours.paired.p_value
    than = f"{best.name}, the best single model"
    if p >= ALPHA:
        return f"{text}, which cannot be told apart from {than} with {mrr(best.overall.mrr)} ({p_equals(p)})."
    word = "above" if difference > 0 else "below"
    return f"{text}, {mrr(abs(difference))} {word} {than} ({p_equals(p)})."


@dataclass(frozen=True)
class Highest:
    """A row of the comparison with a higher MRR than the ensemble.

    Attributes:
        name: the model or method.
        mrr: its test MRR.
        paired: its paired test against the ensemble.
    """

    name: str
    mrr: float
    paired: PairedTest


def highest_row(material: Material) -> Highest | None:
    """Return the row with the highest test MRR, the first of equals; None if it is the ensemble."""
    ours = material.evaluation(material.ensemble)
    best = max(material.comparison.evaluations, key=lambda evaluation: evaluation.overall.mrr)
    if best.overall.mrr <= ours.overall.mrr:
        return None
    paired = paired_test(
        _reciprocal_ranks(material, best.name),
        _reciprocal_ranks(material, ours.name),
        material.test.queries.triple,
        reference=ours.name,
        seed=ours.seed,
        resamples=ours.resamples,
    )
    return Highest(best.name, best.overall.mrr, paired)


def _reciprocal_ranks(material: Material, name: str) -> npt.NDArray[np.float64]:
    """Return 1 / rank of every test answer by a method or a single model, (Q,)."""
    weights = material.comparison.weights.get(name)
    ranks = model_ranks(material.test, name) if weights is None else weights.answer_ranks(material.test)
    return 1 / ranks.realistic


def highest_sentence(found: Highest | None, ensemble: str) -> str:
    """Return a sentence about the row with the highest MRR if it is not the ensemble, with its paired test."""
    if found is None:
        return ""
    difference, p = found.paired.difference, found.paired.p_value
    more = mrr(difference) if difference >= 0.00005 else "less than 0.0001"
    verdict = (
        f"a paired test cannot tell the two apart ({p_equals(p)})"
        if p >= ALPHA
        else f"a paired test tells the two apart ({p_equals(p)}), but the row was picked on the queries it is tested on"
    )
    name = method_label(found.name)
    return f"The highest MRR in the table is that of {name}: {mrr(found.mrr)}, {more} above {ensemble}; {verdict}."


def key_numbers(material: Material, rows: Sequence[RelationRow]) -> list[tuple[str, str]]:
    """Return the numbers at the top of the page, each with its label."""
    ours, best = material.evaluation(material.ensemble), material.evaluation(material.comparison.best_single)
    shared, tested = material.shared_weights(), [row for row in rows if row.paired is not None]
    numbers = [(mrr(ours.overall.mrr), f"test MRR of {method_label(ours.name)}")]
    if ours.paired is not None:
        relative = minus(f"{ours.paired.difference / best.overall.mrr:+z.1%}".replace("%", "\N{NO-BREAK SPACE}%"))
        numbers.append((signed(ours.paired.difference), f"over {best.name} ({relative})"))
    if shared is not None and shared[0] != ours.name:
        over = ours.overall.mrr - material.evaluation(shared[0]).overall.mrr
        numbers.append((signed(over), f"over {method_label(shared[0])}: {_describe_shared(material, shared[1])}"))
    if tested:
        better = sum(row.significant and row.gain > 0 for row in tested)
        worse = sum(row.significant and row.gain < 0 for row in tested)
        numbers.append((f"{better} : {worse}", f"of {len(tested)} relations × directions clearly better : worse"))
    return numbers


def _describe_shared(material: Material, shared: EnsembleWeights) -> str:
    """Describe weights that all groups share, and their input if that differs from the input of the ensemble."""
    ours, theirs = material.comparison.weights[material.ensemble].input, shared.input
    also = (
        ""
        if ours == theirs
        else f", on {input_name(theirs)} where {method_label(material.ensemble)} has {input_name(ours)}"
    )
    return f"one weight vector for all relations{also}"
