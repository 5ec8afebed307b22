"""The glossary of a report: one line for each word that its reader may not know."""

from relens.ensemble.inputs import INPUTS
from relens.ensemble.methods import METHODS
from relens.evaluation import Metrics
from relens.metrics import METRICS
from relens.reports.material import Material
from relens.reports.numbers import share
from relens.significance import LEVEL

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
