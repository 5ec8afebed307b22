"""Two models that PyKEEN trained, packed, searched and compared.

    python examples/pykeen_models.py [RUN]

takes about twenty seconds on one core. RUN is the folder of the run. Saved models can be imported without Python:

    relens ranks from-pykeen saved/transe saved/distmult --dataset patterns --run runs/mine --trust
"""

import logging
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from pykeen.pipeline import PipelineResult, pipeline
from pykeen.triples import TriplesFactory

import relens
from relens.importers import PykeenScorer, pack_scorers
from relens.tables import comparison_table


def factory(dataset: relens.Dataset, split: str, *, inverse: bool = False) -> TriplesFactory:
    """Return a split for PyKEEN, with all entities of the data set, even those that are not in train."""
    heads, relations, tails = dataset.splits[split].T
    entity, relation = np.array(dataset.entities.labels), np.array(dataset.relations.labels)
    return TriplesFactory.from_labeled_triples(
        np.stack([entity[heads], relation[relations], entity[tails]], axis=1),
        entity_to_id={label: number for number, label in enumerate(dataset.entities.labels)},
        relation_to_id={label: number for number, label in enumerate(dataset.relations.labels)},
        create_inverse_triples=inverse,
    )


def train(dataset: relens.Dataset, model: str, *, inverse: bool = False, **options: object) -> PipelineResult:
    """Train a small model for a few epochs."""
    return pipeline(
        training=factory(dataset, "train", inverse=inverse),
        testing=factory(dataset, "valid"),
        model=model,
        training_kwargs={"num_epochs": 10, "batch_size": 256, "use_tqdm": False},
        evaluation_kwargs={"use_tqdm": False, "batch_size": 256},
        random_seed=0,
        device="cpu",
        **options,
    )


def main(run_path: Path) -> None:
    """Train, pack into a run, and compare ensembles of the two models with each model alone."""
    torch.set_num_threads(1)
    dataset = relens.load_dataset("patterns")
    adam = {"optimizer": "Adam", "optimizer_kwargs": {"lr": 0.02}}
    results = {
        "transe": train(dataset, "TransE", model_kwargs={"embedding_dim": 32}, **adam),
        "complex": train(dataset, "ComplEx", inverse=True, model_kwargs={"embedding_dim": 32}, training_loop="lcwa",
                         loss="crossentropy", **adam),
    }  # fmt: skip
    scorers = {
        name: PykeenScorer.from_model(result.model, result.training, dataset) for name, result in results.items()
    }
    with relens.Run.receive_ranks(run_path, dataset) as folder:
        pack_scorers(scorers, dataset, folder)

    run = relens.Run.open(run_path)
    comparison = relens.compare(run.ranks("valid"), run.ranks("test"), ["mean", "simple", "dsc"])
    print(comparison_table(comparison.evaluations).to_text())
    comparison.weights["dsc"].save(run.weights_path("dsc"))


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # PyKEEN's messages do not matter here
    warnings.simplefilter("ignore")
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder) / "run")
