"""Measure the confidence of predictions on the test split: observed shares beside stated probabilities.

python benchmarks/calibration.py runs/umls --about "relens run umls" --output docs/results/calibration-umls.json
"""

from pathlib import Path

import click
from environment import Target, describe, say_targets, write

from relens.cli.console import TerminalProgress
from relens.cli.options import weights_option
from relens.prediction import Ensemble
from relens.prediction.calibrating import calibrate
from relens.prediction.population import SampleSize
from relens.prediction.reliability import POPULATIONS, measure_reliability
from relens.runs import Run

BOUND = 0.05
"""The expected calibration error to stay below."""


@click.command()
@click.argument("path", metavar="RUN", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--about", default="", help="How the run was made; kept with the result.")
@click.option("--output", type=click.Path(path_type=Path), help="Where to write the JSON.")
@click.option(
    "--size", nargs=3, type=int, default=SampleSize(), show_default=True,
    help="Sampled questions with known answers, without, and the least of each relation and direction.",
)  # fmt: skip
@weights_option
def main(path: Path, about: str, output: Path | None, size: tuple[int, int, int], name: str | None) -> None:
    """Calibrate RUN on its validation split, and compare the confidence with the facts of its test split."""
    run = Run.open(path)
    chosen, progress = run.choose_weights(name), TerminalProgress()
    with run.held():
        confidence = calibrate(Ensemble.open(run, chosen), size=SampleSize(*size), progress=progress)
        confidence.save(run, chosen)
        found = measure_reliability(run, chosen, size=SampleSize(*size), progress=progress)
    assert found is not None
    targets = [
        Target(f"expected calibration error, {POPULATIONS[key]}", each.ece, "at most", BOUND)
        for key, each in found.items()
        if each.bins
    ]
    say_targets(targets)
    report = {
        "benchmark": "calibration",
        "dataset": run.dataset,
        "about": about,
        "models": list(confidence.weights.models),
        "weights": {"name": chosen, "input": confidence.weights.input},
        "size": SampleSize(*size)._asdict(),
        "calibrated_on": dict(confidence.counts),
        "reliability": {key: {"answers": POPULATIONS[key], **each.to_json()} for key, each in found.items()},
        "targets": [target.to_json() for target in targets],
        "environment": describe(),
    }
    write(report, output)


if __name__ == "__main__":
    main()
