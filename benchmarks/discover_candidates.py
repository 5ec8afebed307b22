"""Candidates of discoveries: how many pairs each rule leaves in real graphs, and how many held-out facts it keeps.

python benchmarks/discover_candidates.py --output docs/results/discover-candidates.json
"""

from pathlib import Path
from typing import Any

import click
import numpy as np
from environment import describe, write
from page_tables.performance import candidates_table

from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset
from relens.data.queries import HEAD, TAIL
from relens.data.restriction import Restriction
from relens.prediction.likely import SHARE, likely


@click.command()
@click.option("--datasets", default="fb15k-237,wn18rr,umls", show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="JSON file to write.  [default: stdout]")
def main(datasets: str, output: Path | None) -> None:
    """Count what the rules for candidates leave, in graphs by name."""
    graphs = [load_dataset(name) for name in datasets.split(",")]
    report: dict[str, Any] = {
        "benchmark": "discover-candidates",
        "settings": {"datasets": datasets, "share": SHARE},
        "environment": describe(),
        "rows": [
            {"dataset": graph.name, **counted(graph, restriction)}
            for graph in graphs
            for restriction in (Restriction.observed(graph), likely(graph))
        ],
        "targets": [],
    }
    write(report, output)
    if output is not None:
        click.echo(candidates_table(report))


def counted(graph: Dataset, restriction: Restriction) -> dict[str, Any]:
    """Return the pairs and queries that a restriction leaves, and the share of held-out facts whose ends it allows."""
    n_entities, n_relations = len(graph.entities), len(graph.relations)
    pairs, kept, queries = 0, dict.fromkeys(("valid", "test"), 0), 0
    for relation in range(n_relations):
        tails, heads = restriction.mask(relation, TAIL), restriction.mask(relation, HEAD)
        pairs += int(tails.sum()) * int(heads.sum())
        queries += int(tails.sum() + heads.sum())
        for split in kept:
            facts = graph.splits[split][graph.splits[split][:, 1] == relation]
            kept[split] += int(np.sum(heads[facts[:, 0]] & tails[facts[:, 2]]))
    return {
        "candidates": restriction.name,
        "pairs": pairs,
        "share_of_pairs": pairs / (n_relations * n_entities**2),
        "queries": queries,
        **{split: kept[split] / len(graph.splits[split]) for split in kept},
    }


if __name__ == "__main__":
    main()
