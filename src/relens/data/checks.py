"""Checks before training: required splits, leakage between splits, statistics, and warnings about likely mistakes."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset, distinct_rows
from relens.data.headings import first_lines_like_headings, source_words
from relens.data.leakage import Given, Rules, dataset_rules, given_away
from relens.data.queries import EVALUATED
from relens.errors import DatasetError, counted
from relens.progress import SILENT, Progress

PURPOSES = {
    "valid": ("validation", "which select the best parameters"),
    "test": ("test", "for the evaluation"),
}
ALARM = 0.2
"""Share of a split's triples that relations of one kind must give away before a warning is due."""
MOSTLY = 0.5
"""The same for triples whose entities train links the other way round by any relation."""
KINDS = ("repeated", "inverse", "duplicate", "symmetric", "linked")
"""How train gives a triple away, see ``leakage.Given``."""
_PREPARE = "`relens data prepare"


@dataclass(frozen=True, eq=False)
class DataCheck:
    """The checks of a data set.

    Attributes:
        dataset: the data set.
        rules: the relations that are inverses, near-duplicates or symmetric, among the facts of all splits.
        given: which triples of valid and of test train gives away.
        warnings: one sentence for each property that makes results doubtful; empty if there is none.
    """

    dataset: Dataset
    rules: Rules
    given: dict[str, Given]

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The statistics of the data set, see ``describe``."""
        return describe(self.dataset)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """One sentence for each property of the data set that makes its results doubtful."""
        return tuple(_warnings(self))

    def shares(self) -> dict[str, dict[str, int]]:
        """Return how many triples of valid and of test train gives away, by kind."""
        return {split: {kind: int(getattr(given, kind).sum()) for kind in KINDS} for split, given in self.given.items()}

    def relations(self) -> list[dict[str, Any]]:
        """Return the rules with labels, those with most facts first: ``kind`` is inverse, duplicate or symmetric."""
        labels, rules = self.dataset.relations.labels, self.rules
        return [
            {
                "relation": labels[rules.source[k]],
                "counterpart": labels[rules.target[k]],
                "kind": _kind(rules, k),
                "facts": int(rules.counterparts[k]),
                "share": float(rules.share[k]),
            }
            for k in np.argsort(-rules.counterparts, kind="stable").tolist()
        ]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        facts = {key: value for key, value in self.facts.items() if key != "relations"}
        folder = None if self.dataset.folder is None else str(self.dataset.folder)
        return {
            "folder": folder,
            **facts,
            "given_away": self.shares(),
            "relation_pairs": self.relations(),
            "warnings": list(self.warnings),
        }


def check_data(dataset: Dataset | str | Path, *, offline: bool = False, progress: Progress = SILENT) -> DataCheck:
    """Check a data set for leakage between its splits, and for other likely mistakes, before anything is trained.

    Args:
        dataset: a data set, a name from `relens data list`, or a folder with train, valid and test files.
        offline: never download the data set.
        progress: receives progress.

    Returns:
        The check. ``warnings`` says what is doubtful and what that means for the figures, ``relations()`` lists
        inverse, duplicate and symmetric relations, ``shares()`` counts the triples that train gives away.

    For example::

        check = relens.check_data("patterns")
        print(*check.warnings, sep="\\n")
    """
    if not isinstance(dataset, Dataset):
        dataset = load_dataset(dataset, offline=offline, progress=progress)
    rules = dataset_rules(dataset)
    held_out = np.concatenate([dataset.splits[split] for split in EVALUATED])
    given = given_away(held_out, dataset.train, rules)
    n_valid = len(dataset.valid)
    return DataCheck(dataset, rules, {"valid": given[:n_valid], "test": given[n_valid:]})


def suspicions(dataset: Dataset) -> list[str]:
    """Return one sentence for each property of a data set that makes its results doubtful.

    Some of these hold for well-known data sets. None of them raises an error.
    """
    return list(check_data(dataset).warnings)


def check_splits(dataset: Dataset, *splits: str) -> None:
    """Raise an error if one of ``splits`` has no triples."""
    for split in splits:
        if not len(dataset.splits[split]):
            kind, purpose = PURPOSES[split]
            raise DatasetError(
                f"{dataset.name!r} has no {kind} triples, {purpose}: move some triples from train to {split}, or let "
                f"{_PREPARE} SOURCE FOLDER` split them"
            )


def sampled_validation(dataset: Dataset) -> list[str]:
    """Return a sentence about the candidates of validation during training, or nothing if all entities compete."""
    candidates = dataset.candidates.get("valid")
    if candidates is None:
        return []
    return [f"validation MRRs are sampled: among {candidates.n_columns:,} candidates per query ({candidates.source})"]


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


def _warnings(check: DataCheck) -> list[str]:
    dataset, facts = check.dataset, check.facts
    found = [*first_lines_like_headings(dataset), *_padded_labels(dataset)]
    for split in EVALUATED:
        found += _repeated(check, split)
        found += _leaks(check, split)
    if repeated := facts["duplicates"]["within_splits"]:
        verb = "repeats" if repeated == 1 else "repeat"
        found.append(f"{counted(repeated, 'triple')} {verb} another triple of the same split")
    for split in EVALUATED:
        n = len(dataset.splits[split])
        if unseen := facts["unseen_entities"][split]:
            found.append(
                f"train lacks an entity of {unseen:,} of the {counted(n, f'{split} triple')}: models learn nothing "
                f"about it"
            )
        new = [row["relation"] for row in facts["relations"] if row[split] and not row["train"]]
        if new:
            found.append(f"train lacks {counted(len(new), 'relation')} of {split}: {_some(new)}")
    return [*found, *_without_validation(check)]


def _repeated(check: DataCheck, split: str) -> list[str]:
    """Return warnings about triples of a split that an earlier split has, too."""
    dataset = check.dataset
    triples, found = dataset.splits[split], []
    if in_train := int(check.given[split].repeated.sum()):
        found.append(
            f"train has {in_train:,} of the {counted(len(triples), f'{split} triple')}, too: a model that memorises "
            f"train will look good on {split}"
        )
    if split == "test":
        in_valid = int(np.isin(dataset.triple_keys(triples), dataset.triple_keys(dataset.valid)).sum())
        if in_valid:
            found.append(
                f"valid has {in_valid:,} of the {counted(len(triples), 'test triple')}, too: weights that are fitted "
                f"on validation will look good on test"
            )
    return found


def _leaks(check: DataCheck, split: str) -> list[str]:
    """Return warnings about inverse, duplicate and symmetric relations that give many triples of a split away."""
    given, labels = check.given[split], check.dataset.relations.labels
    rules, n = check.rules, len(check.dataset.splits[split])
    of_all = counted(n, f"{split} triple")
    mend = f"{_PREPARE} {source_words(check.dataset)} NEW_FOLDER --drop-leaks`"
    found = []
    if (leaked := int(given.by_pairs.sum())) and leaked >= ALARM * n:
        pairs = _relation_pairs(rules)
        (one, other, kind), *_ = pairs
        found.append(
            f"train has the inverse or a duplicate of {leaked:,} of the {of_all} ({leaked / n:.0%}), by "
            f"{counted(len(pairs), 'pair')} of relations such as {labels[one]!r} and {labels[other]!r} ({kind}): a "
            f"model that copies them will look good on {split}, and its figures say little about facts that the graph "
            f"does not state already. {mend} keeps one relation of each pair"
        )
    if (leaked := int(given.symmetric.sum())) and leaked >= ALARM * n:
        symmetric = rules.source[rules.symmetric]
        (example, *_) = symmetric[np.argsort(-rules.counterparts[rules.symmetric], kind="stable")].tolist()
        found.append(
            f"train has the mirror image of {leaked:,} of the {of_all} ({leaked / n:.0%}), by "
            f"{counted(len(symmetric), 'symmetric relation')} such as {labels[example]!r}: a model that learns the "
            f"symmetry will look good on {split}; read its figures by relation. {mend} removes these triples from "
            f"valid and test"
        )
    reversed_ = _reversed_in_train(check.dataset, split)
    explained = int((given.by_pairs | given.symmetric).sum())
    if reversed_ > MOSTLY * n >= explained:
        found.append(
            f"train links the two entities of {reversed_:,} of the {of_all} the other way round: a model that learns "
            f"which entities are linked will look good on {split}"
        )
    return found


def _without_validation(check: DataCheck) -> list[str]:
    """Return a warning if test has relations that validation lacks: they have no weights of their own."""
    dataset, facts = check.dataset, check.facts
    lacking = [row for row in facts["relations"] if row["test"] and not row["valid"]]
    if not lacking or not len(dataset.valid):
        return []
    triples = sum(row["test"] for row in lacking)
    return [
        f"valid lacks {counted(len(lacking), 'relation')} of test, with {triples:,} of the "
        f"{counted(len(dataset.test), 'test triple')}: {_some([row['relation'] for row in lacking])}. Ensembles use "
        f"weights fitted on all relations for them"
    ]


def _relation_pairs(rules: Rules) -> list[tuple[int, int, str]]:
    """Return the distinct pairs of two relations that rules are about, those with most facts first."""
    order = np.argsort(-rules.counterparts, kind="stable")
    found = {
        frozenset((int(rules.source[k]), int(rules.target[k]))): (
            int(rules.source[k]), int(rules.target[k]), _kind(rules, k)
        )
        for k in reversed(order.tolist()) if rules.source[k] != rules.target[k]
    }  # fmt: skip
    return list(reversed(found.values()))


def _kind(rules: Rules, k: int) -> str:
    if rules.source[k] == rules.target[k]:
        return "symmetric"
    return "inverse" if rules.inverse[k] else "duplicate"


def _some(labels: list[str]) -> str:
    """Return up to three labels for a message."""
    return ", ".join(map(repr, labels[:3])) + (", …" if len(labels) > 3 else "")


def _padded_labels(dataset: Dataset) -> list[str]:
    """Return a warning if labels begin or end with spaces: ``' a'`` and ``'a'`` are two entities."""
    labels = (*dataset.entities.labels, *dataset.relations.labels)
    padded = [label for label in labels if label != label.strip()]
    if not padded:
        return []
    verb = "begins or ends" if len(padded) == 1 else "begin or end"
    known = {label for label in labels if label == label.strip()}
    twins = sum(label.strip() in known for label in padded)
    both = f", and {twins:,} of them {'occurs' if twins == 1 else 'occur'} without spaces, too" if twins else ""
    return [
        f"{counted(len(padded), 'label')} {verb} with a space{both}: {_some(padded)}. "
        f"{_PREPARE} {source_words(dataset)} NEW_FOLDER` removes the spaces"
    ]


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
