"""Every table and figure of README.md and docs/*.md, by the name in its mark."""

from collections.abc import Callable

from reproduction.evidence import load

from .demo import demo, own_model
from .figures import FIGURES
from .paper import (
    claims,
    headline,
    leaderboard,
    leaderboard_training,
    relations,
    results,
    significance,
    summary,
    ties,
    training,
)
from .performance import (
    growth_table,
    machine_table,
    methods_table,
    models_table,
    ogb_table,
    pack_table,
    scale_table,
    search_table,
    targets_table,
)
from .searches import inputs, ogb_curves, searches
from .training import limits, pykeen

__all__ = ["FIGURES", "TABLES"]

SEARCHES = ("search-fb15k-237", "search-wn18rr")
MEASURED = (*SEARCHES, "pack", "scale-wikikg2", "models-fb15k-237", "ogb-reading")

TABLES: dict[str, Callable[..., str]] = {
    "headline": headline,
    "demo": demo,
    "own-model": own_model,
    "summary": summary,
    "results": results,
    "training": training,
    "relations": relations,
    "significance": significance,
    "searches": searches,
    "inputs": inputs,
    "claims": claims,
    "ties": ties,
    "leaderboard": leaderboard,
    "leaderboard-training": leaderboard_training,
    "curves": ogb_curves,
    "machine": lambda report: machine_table(load(report)),
    "search": lambda: search_table([load(name) for name in SEARCHES]),
    "methods": lambda: methods_table([load(name) for name in SEARCHES]),
    "pack": lambda: pack_table(load("pack")),
    "scale": lambda: scale_table(load("scale-wikikg2")),
    "models": lambda: models_table(load("models-fb15k-237")),
    "growth": lambda report: growth_table(load(report)),
    "ogb-reading": lambda: ogb_table(load("ogb-reading")),
    "targets": lambda: targets_table([load(name) for name in MEASURED]),
    "pykeen": pykeen,
    "limits": limits,
}
"""The functions that fill marks ``<!-- table KIND WORD … -->``, by kind."""
