"""Measure how sure the models of a run are of their answers, for weights that depend on the query.

    python benchmarks/confidence.py runs/fb15k-237 --dataset fb15k-237 --output out/confidence.npz

For every validation query and every model, from the scores of all entities but the other known training
answers: the entropy of their softmax, the gap between the two best, that between the best and the mean, and which
entity is best. Nothing here looks at the answer.
"""

from pathlib import Path

import click
import numpy as np
import torch

from relens.cli.options import run_argument
from relens.data.catalog import load_dataset
from relens.data.known_answers import KnownAnswers
from relens.data.queries import Queries
from relens.files import whole_file
from relens.ranking.scoring import score_queries
from relens.runs import Run

ROWS = 512


@click.command()
@run_argument
@click.option("--dataset", required=True, help="The data set of the run.")
@click.option("--device", default="cuda")
@click.option("--output", required=True, type=click.Path(path_type=Path))
def main(run_path: Path, dataset: str, device: str, output: Path) -> None:
    """Write the features of the validation queries of RUN."""
    run, data = Run.open(run_path), load_dataset(dataset)
    names = run.ranks("valid").models
    models = [run.model(name).load(data, device) for name in names]
    known = KnownAnswers.build([data.train], len(data.entities), len(data.relations))
    queries = Queries.from_triples(data.valid)
    parts = []
    for start in range(0, len(queries), ROWS):
        batch = queries[np.arange(start, min(start + ROWS, len(queries)))]
        offsets, answers = known.other_answers(batch)
        row = torch.as_tensor(np.repeat(np.arange(len(batch)), np.diff(offsets)), device=device)
        column = torch.as_tensor(answers, device=device).long()
        parts.append(torch.stack([features(score_queries(model, batch), row, column) for model in models]))
    found = torch.cat(parts, dim=1).cpu().numpy()  # (M, Q, 4)
    arrays = {
        "models": np.array(names),
        "numbers": found[..., :3].astype(np.float32),
        "best": found[..., 3].astype(np.int32),
    }
    with whole_file(output) as aside, aside.open("wb") as file:
        np.savez_compressed(file, **arrays)


def features(scores: torch.Tensor, row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
    """Return entropy, gap of the best two, gap of the best to the mean, and the best entity, (b, 4) float64."""
    competing = torch.ones_like(scores)
    competing[row, column] = 0
    scores = scores.double().masked_fill(competing == 0, -torch.inf)
    logarithm = scores.log_softmax(dim=1)
    entropy = -(logarithm.exp() * logarithm.where(competing > 0, 0)).sum(dim=1)
    best, place = scores.topk(2, dim=1)
    mean = scores.where(competing > 0, 0).sum(dim=1) / competing.sum(dim=1)
    return torch.stack([entropy, best[:, 0] - best[:, 1], best[:, 0] - mean, place[:, 0].double()], dim=1)


if __name__ == "__main__":
    main()
