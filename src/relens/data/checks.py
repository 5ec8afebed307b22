"""What is looked at before training: splits that are needed, and signs that the data is not what it should be."""

from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset
from relens.data.queries import EVALUATED
from relens.data.statistics import distinct_rows
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
        n, leaked = len(dataset.splits[split]), _in_train(dataset, split)
        if leaked:
            found.append(
                f"{leaked:,} of {n:,} {split} triples are in train, too: a model that memorises train will look good "
                f"on {split}"
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


def describe(dataset: Dataset) -> dict[str, Any]:
    """Return what there is to know before training, as plain JSON values.

    ``duplicates`` counts rows repeated within a split and triples shared between splits; ``unseen_entities`` the
    triples of valid and test with an entity that train lacks. Classes of relations are those of train.
    """
    per_split = {
        split: np.bincount(triples[:, 1], minlength=len(dataset.relations)).tolist()
        for split, triples in dataset.splits.items()
    }
    classes = dataset.cardinalities
    relations = [
        {"relation": label, "class": classes[r], **{split: counts[r] for split, counts in per_split.items()}}
        for r, label in enumerate(dataset.relations.labels)
    ]
    return {
        "name": dataset.name,
        "fingerprint": dataset.fingerprint,
        "counts": dataset.counts,
        "duplicates": _duplicates(dataset),
        "unseen_entities": {split: _unseen(dataset, dataset.splits[split]) for split in EVALUATED},
        "relations_absent_from_valid": [row["relation"] for row in relations if not row["valid"]],
        "relations": relations,
    }


def _header(dataset: Dataset) -> list[str]:
    """Say so where all three files begin with the same line."""
    first = {tuple(triples[0].tolist()) for triples in dataset.splits.values() if len(triples)}
    if len(first) != 1 or not all(map(len, dataset.splits.values())):
        return []
    ((head, relation, tail),) = first
    labels = dataset.entities.labels[head], dataset.relations.labels[relation], dataset.entities.labels[tail]
    return [f"train, valid and test begin with the same line, {' '.join(labels)!r}: remove it if it is a heading"]


def _in_train(dataset: Dataset, split: str) -> int:
    """Count the triples of a split that train has, too."""
    return int(np.isin(dataset.triple_keys(dataset.splits[split]), dataset.triple_keys(dataset.train)).sum())


def _duplicates(dataset: Dataset) -> dict[str, int]:
    """Count rows repeated within a split, and triples that occur in more than one split (once per further split)."""
    distinct = [distinct_rows(triples) for triples in dataset.splits.values()]
    rows = sum(len(triples) for triples in dataset.splits.values())
    in_splits = sum(len(triples) for triples in distinct)
    return {
        "within_splits": rows - in_splits,
        "across_splits": in_splits - len(distinct_rows(np.concatenate(distinct))),
    }


def _unseen(dataset: Dataset, triples: npt.NDArray[Any]) -> int:
    """Count the triples with an entity that train lacks."""
    seen = np.zeros(len(dataset.entities), dtype=bool)
    seen[dataset.train[:, [0, 2]]] = True
    return int((~seen[triples[:, [0, 2]]]).any(axis=1).sum())
