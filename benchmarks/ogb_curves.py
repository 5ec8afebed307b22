"""Learning curves of the searches at the sizes of ogbl-biokg and ogbl-wikikg2, as in the paper's Figure 5.

    python benchmarks/ogb_curves.py ogbl-biokg --output docs/results/curves-biokg.json --figures docs/images

OGB's files and the leaderboards' models are not at hand: the ranks are simulated, 501 candidates for each query of the
validation split, three models about as good as those in the paper's table. What the curves show is how the searches
get on in this setting and what they cost, not what real models would gain. Weights are per relation, as in the
authors' files.
"""

from pathlib import Path

import click
from environment import describe, say, write
from shapes import biokg, wikikg2

from relens.cli.console import TerminalProgress
from relens.ensemble.learning_curves import curves_to_json, measure_curves
from relens.packs.simulation import Simulation
from relens.reports.figures import draw_curves
from relens.reports.style import figure_style

SIZES = {"ogbl-biokg": biokg, "ogbl-wikikg2": wikikg2}


@click.command()
@click.argument("name", metavar="|".join(SIZES), type=click.Choice(list(SIZES)))
@click.option(
    "--triples", type=int, help="Validation triples, one of each relation at least.  [default: those of the data set]"
)
@click.option("--jobs", default=2, show_default=True, help="Threads that simulate.")
@click.option("--output", type=click.Path(path_type=Path), help="JSON file to write.  [default: stdout]")
@click.option("--figures", type=click.Path(path_type=Path, file_okay=False), help="Folder to draw the curves into.")
def main(name: str, triples: int | None, jobs: int, output: Path | None, figures: Path | None) -> None:
    """Measure the learning curves of the searches at the size of a data set."""
    simulation: Simulation = SIZES[name]() if triples is None else SIZES[name](triples)
    valid = simulation.packed("valid", gaps=False, jobs=jobs, progress=TerminalProgress())
    say(f"{name}: {valid.n_queries:,} queries, {valid.n_contested:,} contested candidates")
    curves = measure_curves(valid, group="relation", progress=TerminalProgress())
    for curve in curves:
        say(f"{curve.label}, Q {curve.trials}: {curve.mrr[-1]:.4f} in {curve.seconds[-1]:.1f} s")
    shape = {"queries": valid.n_queries, "groups": len(valid.relations), "contested": valid.n_contested}
    write({"benchmark": "curves", "dataset": name, "shape": shape, "environment": describe(),
           **curves_to_json(curves, valid)}, output)  # fmt: skip
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
        with figure_style():
            draw_curves(curves, figures)


if __name__ == "__main__":
    main()
