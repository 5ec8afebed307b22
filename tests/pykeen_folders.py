"""A small graph, and models that PyKEEN trained on it and saved."""

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pykeen.pipeline import PipelineResult, pipeline
from pykeen.triples import TriplesFactory

from relens.data.dataset import Dataset
from relens.data.vocabulary import Vocabulary


def ring(name: str, n: int, held_out: list[int]) -> Dataset:
    """Return a graph of n entities in a ring; facts by number are held out, for valid and test in turn."""
    facts = [
        *((f"e{i}", "next", f"e{(i + 1) % n}") for i in range(n)),
        *((f"e{i}", "twice", f"e{(2 * i) % n}") for i in range(n)),
        *((f"e{i}", "of", "e0") for i in range(1, n)),
    ]
    return Dataset.from_labels(
        name,
        train=[fact for i, fact in enumerate(facts) if i not in held_out],
        valid=[facts[i] for i in held_out[::2]],
        test=[facts[i] for i in held_out[1::2]],
    )


DATASET = ring("small", 14, [3, 9, 17, 22, 30, 36])


def other_ids(vocabulary: Vocabulary) -> dict[str, int]:
    """Number labels in another order than relens does."""
    labels = list(vocabulary.labels)
    random.Random(1).shuffle(labels)
    assert labels != list(vocabulary.labels)
    return {label: number for number, label in enumerate(labels)}


def factory(triples: Any, *, inverse: bool = False, dataset: Dataset = DATASET) -> TriplesFactory:
    """Return PyKEEN's view of some triples of a graph, under ids of its own."""
    entities, relations = dataset.entities.labels, dataset.relations.labels
    rows = [(entities[head], relations[relation], entities[tail]) for head, relation, tail in triples.tolist()]
    return TriplesFactory.from_labeled_triples(
        np.array(rows),
        entity_to_id=other_ids(dataset.entities),
        relation_to_id=other_ids(dataset.relations),
        create_inverse_triples=inverse,
    )


def train(model: str, *, inverse: bool = False, dataset: Dataset = DATASET, **options: Any) -> PipelineResult:
    """Train a model for two epochs, on one thread: tensors this small only lose by two."""
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")  # PyKEEN's and torch's, about memory that is not pinned on a CPU
        return pipeline(
            training=factory(dataset.train, inverse=inverse, dataset=dataset),
            testing=factory(dataset.test, dataset=dataset),
            model=model,
            model_kwargs={"embedding_dim": 8, **options},
            training_kwargs={"num_epochs": 2, "batch_size": 16, "use_tqdm": False},
            evaluation_kwargs={"use_tqdm": False, "batch_size": 4},
            random_seed=0,
            device="cpu",
        )


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def save(folder: Path, **models: PipelineResult) -> Path:
    """Save models as PyKEEN does, each in a folder of its name."""
    for name, result in models.items():
        result.save_to_directory(folder / name)
    return folder


def write_graph(folder: Path, dataset: Dataset = DATASET) -> Path:
    """Write a graph as text."""
    folder.mkdir()
    entities, relations = dataset.entities.labels, dataset.relations.labels
    for split, triples in dataset.splits.items():
        rows = (
            f"{entities[head]}\t{relations[relation]}\t{entities[tail]}\n" for head, relation, tail in triples.tolist()
        )
        (folder / f"{split}.txt").write_text("".join(rows))
    return folder
