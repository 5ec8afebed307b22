"""What a data set is like: sizes, repetitions, unseen entities, and how many answers a relation has."""

from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset

MANY = 1.5
"""Mean answers per anchor above which a side counts as many (Bordes et al. 2013)."""


def cardinality_classes(triples: npt.NDArray[Any], n_relations: int) -> tuple[str, ...]:
    """Class each relation as ``1-1``, ``1-N``, ``N-1`` or ``N-N`` from its distinct triples, (n, 3).

    The head side comes first: ``1-N`` means one head per tail and many tails per head. A relation without
    triples is unknown and gets the empty string.
    """
    heads, relations, tails = _distinct(triples).T
    pairs = np.bincount(relations, minlength=n_relations)  # (R,)
    distinct_heads = _count_distinct(relations, heads, n_relations)
    distinct_tails = _count_distinct(relations, tails, n_relations)
    many_tails = pairs > MANY * distinct_heads
    many_heads = pairs > MANY * distinct_tails
    sides = np.array(["1", "N"])
    classes = zip(sides[many_heads.astype(int)], sides[many_tails.astype(int)], pairs, strict=True)
    return tuple(f"{head}-{tail}" if count else "" for head, tail, count in classes)


def describe(dataset: Dataset) -> dict[str, Any]:
    """Return what there is to know before training, as plain JSON values.

    ``duplicates`` counts rows repeated within a split and triples shared between splits; ``unseen_entities`` the
    triples of valid and test with an entity that train lacks. Classes of relations are those of train.
    """
    per_split = {
        split: np.bincount(triples[:, 1], minlength=len(dataset.relations)).tolist()
        for split, triples in dataset.splits.items()
    }
    classes = cardinality_classes(dataset.train, len(dataset.relations))
    relations = [
        {"relation": label, "class": classes[r], **{split: counts[r] for split, counts in per_split.items()}}
        for r, label in enumerate(dataset.relations.labels)
    ]
    return {
        "name": dataset.name,
        "fingerprint": dataset.fingerprint,
        "counts": dataset.counts,
        "duplicates": _duplicates(dataset),
        "unseen_entities": {split: _unseen(dataset, dataset.splits[split]) for split in ("valid", "test")},
        "relations_absent_from_valid": [row["relation"] for row in relations if not row["valid"]],
        "relations": relations,
    }


def _distinct(triples: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the distinct rows of (n, 3), sorted."""
    rows = triples[np.lexsort(triples.T)]
    fresh = np.ones(len(rows), dtype=bool)
    fresh[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return rows[fresh]


def _count_distinct(relations: npt.NDArray[Any], entities: npt.NDArray[Any], n_relations: int) -> npt.NDArray[np.int64]:
    """Count the distinct entities that occur with each relation, (R,)."""
    pairs = np.unique(relations + n_relations * entities.astype(np.int64))
    return np.bincount(pairs % n_relations, minlength=n_relations)


def _duplicates(dataset: Dataset) -> dict[str, int]:
    """Count rows repeated within a split, and triples that occur in more than one split (once per further split)."""
    distinct = [_distinct(triples) for triples in dataset.splits.values()]
    rows = sum(len(triples) for triples in dataset.splits.values())
    in_splits = sum(len(triples) for triples in distinct)
    return {"within_splits": rows - in_splits, "across_splits": in_splits - len(_distinct(np.concatenate(distinct)))}


def _unseen(dataset: Dataset, triples: npt.NDArray[Any]) -> int:
    """Count the triples with an entity that train lacks."""
    seen = np.zeros(len(dataset.entities), dtype=bool)
    seen[dataset.train[:, [0, 2]]] = True
    return int((~seen[triples[:, [0, 2]]]).any(axis=1).sum())
