"""What is looked at before training: splits that are needed, and signs that the data is not what it should be."""

from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset
from relens.data.statistics import describe
from relens.errors import DatasetError

PURPOSES = {
    "valid": ("validation", "which choose the best parameters"),
    "test": ("test", "on which models and ensembles are judged"),
}


def check_splits(dataset: Dataset, *splits: str) -> None:
    """Refuse a data set without triples in a split that is needed."""
    for split in splits:
        if not len(dataset.splits[split]):
            kind, purpose = PURPOSES[split]
            raise DatasetError(f"{dataset.name!r} has no {kind} triples, {purpose}: hold some out of train as {split}")


def sampled_validation(dataset: Dataset) -> list[str]:
    """Return a sentence on how models are validated while they are trained, where not all entities compete."""
    candidates = dataset.candidates.get("valid")
    if candidates is None:
        return []
    return [f"validation MRRs are sampled: among {candidates.n_columns:,} candidates per query ({candidates.source})"]


def suspicions(dataset: Dataset) -> list[str]:
    """Return what makes results of a data set doubtful, a sentence for each kind; nothing where all is as it should be.

    Some of it is true of well-known data sets, and none of it is refused.
    """
    facts = describe(dataset)
    found = _header(dataset)
    for split in PURPOSES:
        n, leaked = len(dataset.splits[split]), _shared(dataset.train, dataset.splits[split])
        if leaked:
            found.append(
                f"{leaked:,} of {n:,} {split} triples are in train, too: who learns them by heart looks good on {split}"
            )
    if facts["duplicates"]["within_splits"]:
        found.append(f"{facts['duplicates']['within_splits']:,} triples repeat another one of their split")
    for split in PURPOSES:
        n = len(dataset.splits[split])
        if unseen := facts["unseen_entities"][split]:
            found.append(
                f"{unseen:,} of {n:,} {split} triples have an entity that train does not have: nothing is learnt of it"
            )
        new = [row["relation"] for row in facts["relations"] if row[split] and not row["train"]]
        if new:
            shown = ", ".join(map(repr, new[:3])) + (", …" if len(new) > 3 else "")
            found.append(f"{len(new):,} relations of {split} are not in train, so nothing is learnt of them: {shown}")
    return found


def _header(dataset: Dataset) -> list[str]:
    """Say so where all three files begin with the same line."""
    first = {tuple(triples[0].tolist()) for triples in dataset.splits.values() if len(triples)}
    if len(first) != 1 or not all(map(len, dataset.splits.values())):
        return []
    ((head, relation, tail),) = first
    labels = dataset.entities.labels[head], dataset.relations.labels[relation], dataset.entities.labels[tail]
    return [f"train, valid and test begin with the same line, {' '.join(labels)!r}: remove it if it is a heading"]


def _shared(train: npt.NDArray[Any], triples: npt.NDArray[Any]) -> int:
    """Count the rows of (n, 3) that train, (m, 3), has, too."""
    sizes = np.maximum(train.max(axis=0, initial=0), triples.max(axis=0, initial=0)).astype(np.int64) + 1
    weights = np.array([sizes[1] * sizes[2], sizes[2], 1])
    return int(np.isin(triples @ weights, train @ weights).sum())
