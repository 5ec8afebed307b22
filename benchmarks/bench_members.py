"""What each member adds to an ensemble, by cross-validation inside validation.

    python benchmarks/bench_members.py out/fb15k-237/reduced.npz --output docs/results/strong/fb15k-237/members.json

Searches weights with all members and without each of them. The figure is the cross-validated MRR of the input and the
shrinkage that cross-validation chooses.
"""

from pathlib import Path
from typing import Any

import click
from bench_optima import read_packed
from environment import describe, say, write

from relens.ensemble.search import search
from relens.packs.pack import PackedRanks

METHODS = ("dsc", "simple")


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--jobs", default=1, show_default=True, help="Workers.")
@click.option("--output", type=click.Path(path_type=Path), help="JSON file to write.  [default: stdout]")
def main(source: Path, jobs: int, output: Path | None) -> None:
    """Leave out the members of SOURCE, one at a time; it is a store of validation ranks, or a file of reduced ranks."""
    packed = read_packed(source, "valid")
    everything, without = cross_validated(packed, jobs), {}
    say(f"all: {everything}")
    for name in packed.models:
        without[name] = cross_validated(packed.select_models([each for each in packed.models if each != name]), jobs)
        say(f"without {name}: {without[name]}")
    report: dict[str, Any] = {"benchmark": "members", "environment": describe()}
    write({**report, "all": everything, "without": without}, output)


def cross_validated(packed: PackedRanks, jobs: int) -> dict[str, float]:
    """Return the cross-validated MRR of each method."""
    return {
        method: max(
            score
            for scores in search(packed, method=method, jobs=jobs).settings["cross_validation"].values()
            for score in scores.values()
        )
        for method in METHODS
    }


if __name__ == "__main__":
    main()
