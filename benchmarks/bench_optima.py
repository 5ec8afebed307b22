"""How close to the best weights the sweep ends: its validation MRR of each group against that of many TPE trials.

    python benchmarks/bench_optima.py umls=runs/umls/ranks/valid fb15k-237=valid.npz --output results/optima.json

A source is a store of packed ranks, or a file of reduced ones. Groups of fewer than ``--least-queries`` are left out:
one query more or less moves their MRR by more than the difference that is asked about.
"""

from pathlib import Path
from typing import Any

import click
import numpy as np
from environment import Target, describe, say, say_targets, seconds_of, write

from relens.data.grouping import Grouping
from relens.ensemble.context import split_by_group
from relens.ensemble.search import search
from relens.ensemble.weights import EnsembleWeights
from relens.packs.pack import PackedRanks
from relens.packs.reduced import read_reduced
from relens.packs.store import load_pack

MARGIN = 0.001
"""Difference of MRR that counts."""


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="NAME=PATH…")
@click.option("--inputs", default="rank,log", show_default=True, help="Inputs to search on.")
@click.option("--trials", default=300, show_default=True, help="Trials of TPE in each group.")
@click.option("--least-queries", default=10, show_default=True, help="Queries of the smallest group compared.")
@click.option("--jobs", default=1, show_default=True, help="Workers.")
@click.option("--output", type=click.Path(path_type=Path), help="JSON file to write.  [default: stdout]")
def main(
    sources: tuple[str, ...], inputs: str, trials: int, least_queries: int, jobs: int, output: Path | None
) -> None:
    """Compare the sweep with TPE, group by group."""
    rows = []
    for source in sources:
        name, _, path = source.partition("=")
        packed = read_packed(Path(path), "valid")
        for input in inputs.split(","):
            rows.append({"data": name, "input": input, **compare(packed, input, trials, least_queries, jobs)})
            say("{data}, {input}: {groups} groups, TPE ahead in {tpe_ahead}, at most by {worst:.5f}".format(**rows[-1]))
    targets = [Target("groups where TPE is ahead", sum(row["tpe_ahead"] for row in rows), "at most", 0)]
    settings = {"trials": trials, "least_queries": least_queries, "margin": MARGIN, "jobs": jobs}
    write(
        {
            "benchmark": "optima",
            "settings": settings,
            "environment": describe(),
            "rows": rows,
            "targets": [target.to_json() for target in targets],
        },
        output,
    )
    say_targets(targets)


def read_packed(path: Path, split: str) -> PackedRanks:
    """Return the ranks of a store, or those of a split in a file of reduced ranks."""
    return load_pack(path) if path.is_dir() else read_reduced(path)[split]


def compare(packed: PackedRanks, input: str, trials: int, least_queries: int, jobs: int) -> dict[str, Any]:
    """Search all large groups both ways without shrinkage; return the differences of their validation MRR."""
    group = Grouping.by_relation_and_direction(packed.relations).groups_of(packed.queries)
    large = packed.select_queries(np.flatnonzero(np.bincount(group)[group] >= least_queries))
    found: dict[str, EnsembleWeights] = {}

    def fit(searcher: str) -> None:
        found[searcher] = search(large, searcher=searcher, input=input, regularise="none", trials=trials, jobs=jobs)

    seconds = {searcher: seconds_of(lambda searcher=searcher: fit(searcher)) for searcher in ("sweep", "tpe")}
    reciprocal = {searcher: 1.0 / weights.answer_ranks(large).realistic for searcher, weights in found.items()}
    _, members = split_by_group(group[np.bincount(group)[group] >= least_queries], np.arange(large.n_queries))
    ahead = np.array([(reciprocal["tpe"] - reciprocal["sweep"])[own].mean() for own in members])
    return {
        "queries": large.n_queries,
        "models": list(packed.models),
        "groups": len(ahead),
        "tpe_ahead": int((ahead > MARGIN).sum()),
        "sweep_ahead": int((ahead < -MARGIN).sum()),
        "worst": float(ahead.max(initial=0.0)),
        "mrr": {searcher: float(values.mean()) for searcher, values in reciprocal.items()},
        "seconds": seconds,
    }


if __name__ == "__main__":
    main()
