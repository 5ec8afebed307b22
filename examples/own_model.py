"""Your own model beside one of relens: packed, searched and evaluated together.

    python examples/own_model.py [RUN]

takes about ten seconds on one core. RUN is the folder of the run.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import relens
from relens.importers import pack_scorers
from relens.ranking import Competition, ModelScorer, mean_reciprocal_rank
from relens.tables import comparison_table
from relens.training import new_model, optimise, resolve_settings


class Frequency:
    """Scores an entity by how often it answers the same relation, in the same direction, in train."""

    def __init__(self, dataset: relens.Dataset) -> None:
        asked = dataset.queries("train")
        counts = np.zeros((len(dataset.relations), 2, len(dataset.entities)), dtype=np.float32)
        np.add.at(counts, (asked.relation, asked.direction, asked.answer), 1)
        self.counts = counts

    def score(self, queries: relens.Queries) -> np.ndarray:
        """Return a score for every entity, (queries, entities)."""
        return self.counts[queries.relation, queries.direction]


def train_complex(dataset: relens.Dataset) -> ModelScorer:
    """Train one of relens's own models for a few steps."""
    settings = resolve_settings(dataset.name, "complex", "demo", ["steps=300", "validate_every=300"])
    model = new_model(settings, dataset.train, len(dataset.entities), len(dataset.relations))
    valid = Competition.from_dataset(dataset, "valid")
    optimise(model, dataset.train, settings, validate=lambda model: mean_reciprocal_rank(model, valid))
    return ModelScorer(model)


def main(run_path: Path) -> None:
    """Pack both models into a run, then compare ensembles of them with each model alone."""
    torch.set_num_threads(1)
    dataset = relens.load_dataset("patterns")
    scorers = {"frequency": Frequency(dataset), "complex": train_complex(dataset)}
    with relens.Run.receive_ranks(run_path, dataset) as folder:
        pack_scorers(scorers, dataset, folder)

    run = relens.Run.open(run_path)
    comparison = relens.compare(run.ranks("valid"), run.ranks("test"), ["mean", "simple", "dsc"])
    print(comparison_table(comparison.evaluations).to_text())
    comparison.weights["dsc"].save(run.weights_path("dsc"))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder) / "run")
