"""Every table and figure of README.md and docs/*.md, by the name in its mark."""

from collections.abc import Callable

from . import performance, propagation, reliability, strong
from .figures import FIGURES
from .paper import (
    claims,
    demo,
    headline,
    leaderboard,
    leaderboard_training,
    own_model,
    relations,
    results,
    significance,
    summary,
    ties,
    training,
)
from .searches import inputs, ogb_curves, searches
from .training import limits, pykeen

__all__ = ["FIGURES", "TABLES"]

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
    **performance.TABLES,
    **propagation.TABLES,
    **strong.TABLES,
    **reliability.TABLES,
    "pykeen": pykeen,
    "limits": limits,
}
"""The functions that fill marks ``<!-- table KIND WORD … -->``, by kind."""
