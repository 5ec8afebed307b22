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

from relens.data.dataset import Dataset, Vocabulary

N = 14
_FACTS = [
    *((f"e{i}", "next", f"e{(i + 1) % N}") for i in range(N)),
    *((f"e{i}", "twice", f"e{(2 * i) % N}") for i in range(N)),
    *((f"e{i}", "of", "e0") for i in range(1, N)),
]
_HELD_OUT = [3, 9, 17, 22, 30, 36]
DATASET = Dataset.from_labels(
    "small",
    train=[fact for i, fact in enumerate(_FACTS) if i not in _HELD_OUT],
    valid=[_FACTS[i] for i in _HELD_OUT[::2]],
    test=[_FACTS[i] for i in _HELD_OUT[1::2]],
)


def other_ids(vocabulary: Vocabulary) -> dict[str, int]:
    """Number labels in another order than relens does."""
    labels = list(vocabulary.labels)
    random.Random(1).shuffle(labels)
    assert labels != list(vocabulary.labels)
    return {label: number for number, label in enumerate(labels)}


def factory(triples: Any, *, inverse: bool = False) -> TriplesFactory:
    """Return PyKEEN's view of some triples of the small graph, under ids of its own."""
    entities, relations = DATASET.entities.labels, DATASET.relations.labels
    rows = [(entities[head], relations[relation], entities[tail]) for head, relation, tail in triples.tolist()]
    return TriplesFactory.from_labeled_triples(
        np.array(rows),
        entity_to_id=other_ids(DATASET.entities),
        relation_to_id=other_ids(DATASET.relations),
        create_inverse_triples=inverse,
    )


def train(model: str, *, inverse: bool = False, **options: Any) -> PipelineResult:
    """Train a model for two epochs, on one thread: tensors this small only lose by two."""
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")  # PyKEEN's and torch's, about memory that is not pinned on a CPU
        return pipeline(
            training=factory(DATASET.train, inverse=inverse),
            testing=factory(DATASET.test),
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


def write_graph(folder: Path) -> Path:
    """Write the small graph as text."""
    folder.mkdir()
    entities, relations = DATASET.entities.labels, DATASET.relations.labels
    for split, triples in DATASET.splits.items():
        rows = (
            f"{entities[head]}\t{relations[relation]}\t{entities[tail]}\n" for head, relation, tail in triples.tolist()
        )
        (folder / f"{split}.txt").write_text("".join(rows))
    return folder
