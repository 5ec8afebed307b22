"""Single figures for sentences. Each function takes the words after the figure's kind and returns the text."""

import math
import shlex
import statistics
from collections.abc import Callable
from functools import wraps
from typing import Any

from reproduction.evidence import EVERY, METRICS, SIX, Leaderboard, load

from .markdown import figure, signed
from .paper import BY_NAME
from .training import tuned


def on_test(dataset: str, name: str, metric: str = "mrr") -> float:
    """Return a test metric of one of the six models, or of a method that combines them."""
    return BY_NAME[dataset].test(name)[metric]


def valid(dataset: str, name: str) -> float:
    """Return the best validation MRR of a model, further members included."""
    best: float = BY_NAME[dataset].members["models"][name]["best_mrr"]
    return best


def members(dataset: str, name: str) -> float:
    """Return the test MRR of a model, or of a method that combines all members."""
    record = BY_NAME[dataset].members
    mrr: float = (record["models"].get(name) or record["methods"][name])["test"]["mrr"]
    return mrr


def paper(dataset: str, name: str, metric: str = "mrr") -> float:
    """Return the paper's figure."""
    value: float = BY_NAME[dataset].paper[name][METRICS.index(metric)]
    return value


def search(dataset: str, split: str, name: str) -> float:
    """Return the MRR of a search on reduced ranks: the mean over its seeds where it has several."""
    found = BY_NAME[dataset].searches
    names = [name] if name in found else [each for each in found if each.startswith(f"{name}, seed")]
    return statistics.mean(found[each][split]["mrr"] for each in names)


def cross_validated(dataset: str, given: str, kappa: str = "best") -> float:
    """Return the cross-validated MRR of an input on reduced ranks, with a shrinkage or the best one."""
    scores: dict[str, float] = BY_NAME[dataset].searches["dsc, sweep, default"]["settings"]["cross_validation"][given]
    return max(scores.values()) if kappa == "best" else scores[kappa]


def relation(dataset: str, label: str, name: str) -> float:
    """Return the test MRR of a model or method on one relation, both directions together."""
    return BY_NAME[dataset].ranks.by_relation(name)[label]


def leaderboard(protocol: str, name: str) -> float:
    """Return the test MRR of one of the leaderboard's models or of their ensembles."""
    record = Leaderboard(protocol).record
    mrr: float = (record["models"].get(name) or record["methods"][name])["test"]["mrr"]
    return mrr


def interval(dataset: str, name: str, end: str) -> str:
    """Return the ``low`` or ``high`` end of the 95 % interval of a test MRR."""
    ends = dict(zip(("low", "high"), BY_NAME[dataset].six["methods"][name]["test_interval"], strict=True))
    return f"{ends[end]:.3f}".removeprefix("0")


def seconds(dataset: str, which: str) -> str:
    """Return the time to train a model, the ``six`` or ``all`` members."""
    evidence = BY_NAME[dataset]
    if which in ("six", "all"):
        return f"{(evidence.six if which == 'six' else evidence.members)['training_seconds']:.0f}"
    return f"{evidence.members['models'][which]['seconds']:.0f}"


def strong(dataset: str, name: str) -> float:
    """Return the test MRR of a method or member of the strong run, seed 0."""
    record = load(f"strong/{dataset}/seed-0")
    mrr: float = (record["models"].get(name) or record["methods"][name])["test"]["mrr"]
    return mrr


def missed(quantity: str, goal: str) -> str:
    """Return by how much a metric is below a goal."""
    return figure(float(goal) - _quantity(quantity))


def shortfall() -> str:
    """Return the largest shortfall of the eighteen models against the paper's test MRR, rounded up to thousandths."""
    worst = max(evidence.paper[name][0] - evidence.test(name)["mrr"] for evidence in EVERY for name in SIX)
    return f"{math.ceil(1000 * worst) / 1000:.3f}".removeprefix("0")


def faster(report: str, than: str) -> str:
    """Return how many times faster the sweep is than ``tpe`` or the ``authors``' procedure."""
    found = load(report)
    slow = found["tpe"]["seconds"] if than == "tpe" else found["authors"]["extrapolated"]["seconds"]
    return f"{slow / found['sweep']['median_seconds']:,.0f}"


def curve_seconds(dataset: str, method: str, trials: str, workers: str) -> str:
    """Return the duration of a learning curve by TPE in seconds."""
    wanted = {"method": method, "searcher": "tpe", "trials": int(trials), "workers": int(workers)}
    (curve,) = (curve for curve in BY_NAME[dataset].curves if wanted.items() <= curve.items())
    return f"{curve['seconds'][-1]:.1f}"


def result(report: str, path: str, spec: str) -> str:
    """Return any value of a report: ``path`` has keys or positions between slashes, ``spec`` is Python's or ``mrr``."""
    value: Any = load(report)
    for key in path.split("/"):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return figure(value) if spec == "mrr" else format(value, spec)


def difference(one: str, other: str) -> str:
    """Return the absolute difference of two MRRs; each is named as in a mark of its own."""
    return figure(abs(_quantity(one) - _quantity(other)))


def gain(one: str, other: str) -> str:
    """Return the first MRR minus the second, with its sign."""
    return signed(_quantity(one) - _quantity(other))


QUANTITIES: dict[str, Callable[..., float]] = {
    "test": on_test,
    "valid": valid,
    "members": members,
    "paper": paper,
    "search": search,
    "cross-validated": cross_validated,
    "relation": relation,
    "leaderboard": leaderboard,
    "tuned": tuned,
    "strong": strong,
}
"""Functions that return a metric; it is written with four digits."""


def _quantity(name: str) -> float:
    kind, *words = shlex.split(name)
    return QUANTITIES[kind](*words)


def _shown(quantity: Callable[..., float]) -> Callable[..., str]:
    @wraps(quantity)
    def shown(*words: str) -> str:
        return figure(quantity(*words))

    return shown


FIGURES: dict[str, Callable[..., str]] = {
    **{kind: _shown(quantity) for kind, quantity in QUANTITIES.items()},
    "interval": interval,
    "seconds": seconds,
    "missed": missed,
    "shortfall": shortfall,
    "faster": faster,
    "curve-seconds": curve_seconds,
    "result": result,
    "difference": difference,
    "gain": gain,
}
"""The functions that fill marks ``<!-- figure KIND WORD … -->``, by kind."""
