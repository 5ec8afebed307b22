"""Compare the confidence of predictions at rank 1 with the share of test answers that are at rank 1.

python benchmarks/calibration.py runs/patterns
"""

import json
from pathlib import Path

import click
import numpy as np

from relens.cli.options import weights_option
from relens.data.catalog import load_dataset
from relens.ensemble.weights import EnsembleWeights
from relens.prediction.candidate_ranking import Place
from relens.prediction.confidence import Confidence
from relens.runs import Run


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@weights_option
def main(runs: tuple[Path, ...], name: str | None) -> None:
    """Print, for each of RUNS, the mean confidence at rank 1 and the share of test answers there, in a line of JSON."""
    for path in runs:
        run = Run.open(path)
        said, found = calibration(run, run.weights(name))
        print(json.dumps({"run": str(path), "queries": len(said), "said": said.mean(), "found": found.mean()}))


def calibration(run: Run, weights: EnsembleWeights) -> tuple[np.ndarray, np.ndarray]:
    """Return the confidence at rank 1 of q test queries, and the share of each answer that is at rank 1; (q,) each."""
    n_entities, test = len(load_dataset(run.dataset).entities), run.ranks("test")
    confidence = Confidence.from_valid(run.ranks("valid"), weights, n_entities)
    if confidence is None:
        raise click.ClickException(f"{run.path} was ranked among sampled candidates, for which there is no confidence")
    test = test if test.models == weights.models else test.select_models(weights.models)
    mine = weights.aligned_to(test)
    ranks, groups = mine.answer_ranks(test), mine.grouping.groups_of(test.queries).tolist()
    answered = (test.n_candidates < n_entities).tolist()
    said = [
        confidence.share_at(group, Place(0, 0), answered=other) for group, other in zip(groups, answered, strict=True)
    ]
    at = np.array([value is not None for value in said])
    found = (ranks.ahead == 0) / (ranks.tied + 1)
    return np.array([value for value in said if value is not None]), found[at]


if __name__ == "__main__":
    main()
