"""The report of ``relens ranks`` about the packed ranks of a run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from relens.cli.options import show
from relens.data.grouping import Grouping
from relens.data.queries import EVALUATED
from relens.ensemble.objective import model_mrrs
from relens.errors import RanksError
from relens.packs.pack import PackedRanks
from relens.packs.store import n_bytes
from relens.records import TIE_RULE
from relens.runs import Run
from relens.tables.table import Column, Row, Table

FACTOR, DIFFERENCE = 2.0, 0.1
"""Valid and test MRR of a model that differ by this factor, and by this difference, are worth a note."""


def report(run_path: Path, jobs: int, *, as_json: bool) -> None:
    """Print the packed ranks of a run."""
    run = Run.open(run_path)
    present = [split for split in EVALUATED if run.has_ranks(split)]
    if not present:
        raise RanksError(f"{run_path} has no ranks yet: add them with `relens ranks import` or `relens ranks pack`.")
    splits = {split: _describe(run.ranks(split), run.ranks_path(split), jobs) for split in present}
    notes = _suspicious(splits)
    value = {"run": str(run.path), "name": run.name, "dataset": run.dataset, "splits": splits, "notes": notes}
    show([_size_table(run, splits), _model_table(splits, notes)], "json" if as_json else "text", None, value)


def _describe(packed: PackedRanks, path: Path, jobs: int) -> dict[str, Any]:
    """Describe packed ranks, as plain JSON values."""
    counts = np.diff(packed.offsets)
    grouping = Grouping.by_relation_and_direction(packed.relations)
    return {
        "provenance": packed.provenance.to_json(),
        "tie_rule": TIE_RULE,
        "queries": packed.n_queries,
        "relations": len(packed.relations),
        "groups_with_queries": len(np.unique(grouping.groups_of(packed.queries))),
        "candidates": int(packed.n_candidates.sum(dtype=np.int64)),
        "contested": packed.n_contested,
        "contested_share": packed.n_contested / max(1, int(packed.n_candidates.sum(dtype=np.int64))),
        "contested_per_query": {"median": float(np.median(counts)), "mean": float(counts.mean())},
        "gaps": packed.gaps is not None,
        "bytes": n_bytes(path),
        "mrr": dict(zip(packed.models, model_mrrs(packed, jobs=jobs).tolist(), strict=True)),
    }


def _suspicious(splits: Mapping[str, dict[str, Any]]) -> list[str]:
    """Return a note for each model whose MRR differs so much between the splits that a file may be wrong."""
    notes = []
    first, *others = (facts["mrr"] for facts in splits.values())
    for model, mrr in first.items():
        found = [mrr, *(other[model] for other in others if model in other)]
        if max(found) > FACTOR * min(found) and max(found) - min(found) > DIFFERENCE:
            shown = ", ".join(f"{split} MRR {value:.3f}" for split, value in zip(splits, found, strict=False))
            notes.append(
                f"{model}: {shown}. Splits of one data set rarely differ so much: check that the rows of its arrays "
                f"are in the order of the query files"
            )
    return notes


def _size_table(run: Run, splits: Mapping[str, dict[str, Any]]) -> Table:
    headings = ("queries", "groups", "candidates", "contested", "share", "median", "mean", "MB")
    specs = (",d", ",d", ",d", ",d", ".2%", ",.0f", ",.1f", ",.1f")
    rows = [
        Row(
            (
                split,
                facts["queries"],
                facts["groups_with_queries"],
                facts["candidates"],
                facts["contested"],
                facts["contested_share"],
                *facts["contested_per_query"].values(),
                facts["bytes"] / 1e6,
            )
        )
        for split, facts in splits.items()
    ]
    columns = (Column("split", align="left"), *(Column(h, spec) for h, spec in zip(headings, specs, strict=True)))
    notes = ("groups: pairs of relation and direction that have queries; median and mean: contested per query",)
    return Table(f"packed ranks of {run.path}", columns, tuple(rows), _facts(splits), notes)


def _model_table(splits: Mapping[str, dict[str, Any]], notes: Sequence[str]) -> Table:
    columns = (Column("model", align="left"), *(Column(f"{split} MRR", ".4f", better="higher") for split in splits))
    models = dict.fromkeys(model for facts in splits.values() for model in facts["mrr"])
    rows = tuple(Row((model, *(facts["mrr"].get(model) for facts in splits.values()))) for model in models)
    candidates = next(iter(splits.values()))["provenance"]["candidates"]
    facts = {"tie rule": TIE_RULE, "candidates": candidates}
    return Table("models", columns, rows, facts, tuple(notes), mark_best=True)


def _facts(splits: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    first = next(iter(splits.values()))
    provenance = first["provenance"]
    return {
        "data set": f"{provenance['dataset']} ({provenance['fingerprint']})",
        "relations": str(first["relations"]),
        "candidates": provenance["candidates"],
        "filtered here": ", ".join(provenance["filter_splits"]) or "no",
        "tie rule": TIE_RULE,
        "score gaps": "yes" if first["gaps"] else "no",
    }
