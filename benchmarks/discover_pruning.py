"""Pruning of discoveries: what rules for candidates and depths leave out, against a search of all pairs.

Some relations of a run are searched with each rule, as if the facts of the test split were unknown. A fact is
considered if the rule and the depth leave it in; of the held-out facts that is what a discovery can find at all. The
best facts without pruning are those that a search with all candidates and all answers puts first.

    python benchmarks/discover_pruning.py RUN --relations 10 --output out/pruning.json
"""

from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import click
import numpy as np
import torch
from environment import describe, say, write
from page_tables.performance import pruning_table

from relens.prediction.discovery import ALL, LIKELY, Discovery, Wanted
from relens.prediction.ensemble import Ensemble
from relens.prediction.relation_search import RelationSearch

CASES = (("observed", 50), (LIKELY, 10), (LIKELY, 50), (ALL, 50), (ALL, None))


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--relations", default=10, show_default=True, help="Relations that are searched.")
@click.option("--top", default=1000, show_default=True, help="Best facts of a relation that are compared.")
@click.option("--threads", default=1, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="JSON file to write.  [default: stdout]")
def main(run: Path, relations: int, top: int, threads: int, output: Path | None) -> None:
    """Measure what pruning leaves out of the discoveries of a run."""
    torch.set_num_threads(threads)
    ensemble = Ensemble.open(run, device="cpu")
    test, n_entities = ensemble.dataset.test, len(ensemble.dataset.entities)
    ensemble.dataset = replace(ensemble.dataset, test=test[:0])  # its facts count as new
    sizes = np.bincount(test[:, 1], minlength=len(ensemble.dataset.relations))
    ordered = np.argsort(sizes, kind="stable")[-np.count_nonzero(sizes) :]
    chosen = ordered[((np.arange(relations) + 0.5) * len(ordered) / relations).astype(int)].tolist()
    held_out = {r: test[test[:, 1] == r].astype(np.int64) @ [n_entities, 0, 1] for r in chosen}
    found = {case: searched(ensemble, chosen, case[0], case[1] or n_entities, top) for case in CASES}
    best = found[CASES[-1]]["best"]
    report: dict[str, Any] = {
        "benchmark": "discover-pruning",
        "settings": {"run": run.name, "relations": relations, "top": top, "jobs": threads},
        "environment": describe(),
        "graph": {
            **ensemble.dataset.counts,
            "fingerprint": ensemble.dataset.fingerprint,
            "relations_searched": len(chosen),
            "held_out": int(sum(map(len, held_out.values()))),
            "input": ensemble.weights.input,
        },
        "rows": [
            {
                "candidates": rule,
                "depth": depth or n_entities,
                "queries": found[rule, depth]["queries"],
                "cpu_seconds": found[rule, depth]["cpu_seconds"],
                "held_out": share(held_out, found[rule, depth]["considered"]),
                "held_out_in_best": share(held_out, found[rule, depth]["best"]),
                "kept": share({r: keys[:100] for r, keys in best.items()}, found[rule, depth]["considered"]),
            }
            for rule, depth in CASES
        ],
        "targets": [],
    }
    write(report, output)
    if output is not None:
        click.echo(pruning_table(report))


def searched(ensemble: Ensemble, relations: list[int], rule: str, depth: int, top: int) -> dict[str, Any]:
    """Search some relations; return the keys of the facts that were considered and of the best ones, by relation."""
    discovery = Discovery(ensemble, Wanted(top=top, candidates=rule, depth=depth))
    search, n_entities, begun = (
        RelationSearch(ensemble, depth, lambda _: None),
        len(ensemble.dataset.entities),
        process_time(),
    )
    considered, best, queries = {}, {}, 0
    for relation in relations:
        sides = discovery.sides(relation)
        both = search.both_sides(*sides)
        considered[relation] = both[0].keys
        best[relation] = discovery.rows(both)[:, 3:5].astype(np.int64) @ [n_entities, 1]
        queries += sum(len(side.anchors) for side in sides)
    say(f"{rule}, depth {depth}: {process_time() - begun:.0f} s of processor time")
    return {"considered": considered, "best": best, "queries": queries, "cpu_seconds": process_time() - begun}


def share(wanted: dict[int, Any], found: dict[int, Any]) -> float:
    """Return the share of facts that were found, over all relations."""
    hits = sum(np.isin(keys, found[relation]).sum() for relation, keys in wanted.items())
    return float(hits / sum(map(len, wanted.values())))


if __name__ == "__main__":
    main()
