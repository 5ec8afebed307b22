"""Checks before training: required splits, statistics of a data set, and warnings about likely mistakes."""

from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset, distinct_rows
from relens.data.queries import EVALUATED
from relens.errors import DatasetError

PURPOSES = {
    "valid": ("validation", "which select the best parameters"),
    "test": ("test", "for the evaluation"),
}
MOSTLY = 0.5
"""Share of reversed triples above which a split is likely to leak through inverse relations."""


def check_splits(dataset: Dataset, *splits: str) -> None:
    """Raise an error if one of ``splits`` has no triples."""
    for split in splits:
        if not len(dataset.splits[split]):
            kind, purpose = PURPOSES[split]
            raise DatasetError(
                f"{dataset.name!r} has no {kind} triples, {purpose}: move some triples from train to {split}"
            )


def sampled_validation(dataset: Dataset) -> list[str]:
    """Return a sentence about the candidates of validation during training, or nothing if all entities compete."""
    candidates = dataset.candidates.get("valid")
    if candidates is None:
        return []
    return [f"validation MRRs are sampled: among {candidates.n_columns:,} candidates per query ({candidates.source})"]


def suspicions(dataset: Dataset) -> list[str]:
    """Return one sentence for each property of a data set that makes its results doubtful.

    Some of these hold for well-known data sets. None of them raises an error.
    """
    facts = describe(dataset)
    found = [*_heading(dataset), *_padded_labels(dataset)]
    for split in EVALUATED:
        n, leaked = len(dataset.splits[split]), _in_train(dataset, split)
        if leaked:
            found.append(
                f"train has {leaked:,} of the {_count(n, f'{split} triple')}, too: a model that memorises train will "
                f"look good on {split}"
            )
        reversed_ = _reversed_in_train(dataset, split)
        if reversed_ > MOSTLY * n:
            found.append(
                f"train links the two entities of {reversed_:,} of the {_count(n, f'{split} triple')} the other way "
                f"round: a model that finds pairs of inverse relations will look good on {split}"
            )
    if repeated := facts["duplicates"]["within_splits"]:
        verb = "repeats" if repeated == 1 else "repeat"
        found.append(f"{_count(repeated, 'triple')} {verb} another triple of the same split")
    for split in EVALUATED:
        n = len(dataset.splits[split])
        if unseen := facts["unseen_entities"][split]:
            found.append(
                f"train lacks an entity of {unseen:,} of the {_count(n, f'{split} triple')}: models learn nothing "
                f"about it"
            )
        new = [row["relation"] for row in facts["relations"] if row[split] and not row["train"]]
        if new:
            found.append(f"train lacks {_count(len(new), 'relation')} of {split}: {_some(new)}")
    return found


def describe(dataset: Dataset) -> dict[str, Any]:
    """Return the statistics of a data set as plain JSON values.

    ``duplicates`` counts rows repeated within a split and triples shared between splits. ``unseen_entities`` counts
    the triples of valid and test with an entity that train lacks. Relation classes are computed on train.
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


def _count(number: int, noun: str) -> str:
    """Return a number with its noun in the right form, such as ``1 triple`` or ``2 triples``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _some(labels: list[str]) -> str:
    """Return up to three labels for a message."""
    return ", ".join(map(repr, labels[:3])) + (", …" if len(labels) > 3 else "")


def _heading(dataset: Dataset) -> list[str]:
    """Return a warning if all three files begin with the same line."""
    first = {tuple(triples[0].tolist()) for triples in dataset.splits.values() if len(triples)}
    if len(first) != 1 or not all(map(len, dataset.splits.values())):
        return []
    ((head, relation, tail),) = first
    labels = dataset.entities.labels[head], dataset.relations.labels[relation], dataset.entities.labels[tail]
    return [f"train, valid and test begin with the same line, {' '.join(labels)!r}: remove it if it is a heading"]


def _padded_labels(dataset: Dataset) -> list[str]:
    """Return a warning if labels begin or end with spaces: ``' a'`` and ``'a'`` are two entities."""
    labels = (*dataset.entities.labels, *dataset.relations.labels)
    padded = [label for label in labels if label != label.strip()]
    if not padded:
        return []
    verb = "begins or ends" if len(padded) == 1 else "begin or end"
    return [f"{_count(len(padded), 'label')} {verb} with a space: {_some(padded)}. Remove the spaces if they are noise"]


def _in_train(dataset: Dataset, split: str) -> int:
    """Count the triples of a split that train has, too."""
    return int(np.isin(dataset.triple_keys(dataset.splits[split]), dataset.triple_keys(dataset.train)).sum())


def _reversed_in_train(dataset: Dataset, split: str) -> int:
    """Count the triples (h, r, t) of a split with h ≠ t for which train has (t, r', h) with any relation r'."""
    head, _, tail = dataset.splits[split].astype(np.int64).T
    train_head, _, train_tail = dataset.train.astype(np.int64).T
    n = len(dataset.entities)
    return int((np.isin(tail * n + head, train_head * n + train_tail) & (head != tail)).sum())


def _duplicates(dataset: Dataset) -> dict[str, int]:
    """Count rows repeated within a split, and triples in more than one split (once per further split)."""
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
