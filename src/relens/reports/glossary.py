"""The glossary of a report: one line for each word that its reader may not know."""

from relens.evaluation import Metrics
from relens.metrics import METRICS
from relens.reports.material import Material
from relens.reports.numbers import share
from relens.significance import LEVEL

METHODS = {
    "mean": "baseline: all models have the same weight",
    "mrr-mean": "baseline: weights in proportion to the validation MRR of the models",
    "stacking": "baseline: weights of a logistic regression that separates answers from other candidates",
    "best-single": "baseline: all weight on the model with the best validation MRR",
    "greedy": "baseline: each step adds the model, new or again, that raises the validation MRR most",
    "simple": "one weight vector for all relations, searched on the validation split",
    "basic": "weights per relation, searched for all relations at once",
    "dsc": "weights per relation and direction, each searched on its own: divide, search, combine",
    "imported": "weights that were read from a file",
}
"""Descriptions of the methods by name."""
INPUTS = {
    "rank": "the weights are applied to ranks, as in the paper",
    "log": "the weights are applied to ranks on a logarithmic scale",
    "sqrt": "the weights are applied to ranks on a square-root scale",
    "rrf": "the weights are applied to reciprocal ranks, as in reciprocal rank fusion",
    "score": "the weights are applied to score gaps",
}
"""Descriptions of the inputs by name."""

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
        **{name: METHODS[name] for name in methods if name in METHODS},
        **{f"input {name}": INPUTS[name] for name in inputs if name in INPUTS},
        **({"score gap": GAPS} if "score" in inputs else {}),
        **({"κ (kappa)": KAPPA} if any("kappa" in each.settings for each in weights) else {}),
        "contested": CONTESTED,
        **{METRICS[name].heading: METRICS[name].description for name in metrics if name in METRICS},
        "interval": INTERVAL,
        "p": P,
    }


def input_name(name: str) -> str:
    """Return a short name of an input for sentences, such as ``score gaps``."""
    names = {"rank": "ranks", "score": "score gaps"}
    return names.get(name, f"ranks on the scale {name}")


def input_phrase(name: str) -> str:
    """Return the name of an input with the unit of its values."""
    return "score gaps, each model's in units of its own" if name == "score" else input_name(name)
