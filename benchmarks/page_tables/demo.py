"""Tables of the demo, and of the example with a model of one's own, on the generated graph."""

from collections.abc import Mapping
from typing import Any

from reproduction.evidence import DSC_AS_PUBLISHED, SIMPLE_AS_PUBLISHED, SIX, load

from .markdown import figure, table


def demo() -> str:
    """Return the best single model on validation, and the methods, with seed 0."""
    record = load("demo")
    best = max(record["models"], key=lambda name: record["models"][name]["best_mrr"])
    titles = {
        best: f"{SIX[best]}, the best single model on validation",
        "mean": "mean of all six",
        "stacking": "stacking",
        **{name: f"`{name}`" for name in (SIMPLE_AS_PUBLISHED, DSC_AS_PUBLISHED, "simple", "dsc")},
    }
    return _table(record, titles, {"Hit@1": "hits_at_1", "Hit@10": "hits_at_10"})


def own_model() -> str:
    """Return the models and methods of ``examples/own_model.py``."""
    names = ("frequency", "complex", "mean", "simple", "dsc")
    hits = {"Hit@1": "hits_at_1", "Hit@3": "hits_at_3", "Hit@10": "hits_at_10"}
    return _table(load("own-model"), {name: f"`{name}`" for name in names}, hits)


def _table(record: Mapping[str, Any], titles: Mapping[str, str], hits: Mapping[str, str]) -> str:
    entries = {**record["models"], **record["methods"]}
    rows = []
    for name, title in titles.items():
        test, interval = entries[name]["test"], entries[name]["test_interval"]
        shown = "–".join(map(figure, interval))
        rows.append([title, figure(test["mrr"]), shown, *(figure(test[metric]) for metric in hits.values())])
    return table(["test split", "MRR", "95 % interval", *hits], rows)
