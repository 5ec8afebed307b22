"""Headings: first lines that name columns instead of stating a fact."""

import shlex
from collections.abc import Sequence

import numpy as np

from relens.data.dataset import Dataset

ROLES = {
    "head": frozenset({
        "head", "h", "subject", "subj", "sub", "s", "source", "src", "from", "start", "head_id", "subject_id",
        "source_id", "from_id", "start_id", "head_entity", "x_id", "x_name", "node1", "entity1", "e1",
    }),
    "relation": frozenset({
        "relation", "rel", "r", "predicate", "pred", "p", "property", "prop", "edge", "edge_type", "edge_label", "type",
        "relation_id", "relation_type", "rel_type", "relationship", "label", "predicate_id", "interaction", "verb",
    }),
    "tail": frozenset({
        "tail", "t", "object", "obj", "o", "target", "dst", "dest", "destination", "to", "end", "tail_id", "object_id",
        "target_id", "to_id", "end_id", "tail_entity", "y_id", "y_name", "node2", "entity2", "e2",
    }),
}  # fmt: skip
"""Names of columns that people use, by role."""
FEWEST = 20
"""Triples below which a first line without any repeated label is no sign of a heading."""


def role_of(name: str) -> str | None:
    """Return head, relation or tail if a column's name says so, or None."""
    plain = name.strip().lstrip("#").strip(':"').lower().replace(" ", "_").replace("-", "_")
    return next((role for role, names in ROLES.items() if plain in names), None)


def are_column_names(fields: Sequence[str]) -> bool:
    """Say whether fields name at least two of head, relation and tail, each role once."""
    roles = [role for role in map(role_of, fields) if role is not None]
    return len(roles) >= 2 and len(roles) == len(set(roles))


def source_words(dataset: Dataset) -> str:
    """Return how a command names a data set: its folder, or its name."""
    return shlex.quote(dataset.name if dataset.folder is None else str(dataset.folder))


def is_number(text: str) -> bool:
    """Say whether a text is a number; no column is called so."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def first_lines_like_headings(dataset: Dataset) -> list[str]:
    """Return a warning about first triples that look like headings.

    A first triple looks like one if its labels are known names of columns, if all three splits begin with it, or if its
    labels occur nowhere else in a graph that is not tiny.
    """
    begin = {split: tuple(triples[0].tolist()) for split, triples in dataset.splits.items() if len(triples)}
    found: dict[tuple[int, ...], list[str]] = {}
    for split, first in begin.items():
        found.setdefault(first, []).append(split)
    texts = []
    for first, splits in found.items():
        labels = [dataset.entities.labels[first[0]], dataset.relations.labels[first[1]],
                  dataset.entities.labels[first[2]]]  # fmt: skip
        shared = len(splits) == len(dataset.splits)
        named = are_column_names(labels) and _only_there(dataset, first, len(splits), entities=False)
        n = sum(map(len, dataset.splits.values()))
        words = not any(map(is_number, labels))
        if shared or named or (n >= FEWEST and words and _only_there(dataset, first, len(splits), entities=True)):
            *others, last = splits
            where = f"{', '.join(others)} and {last}" if others else last
            same = "the same line" if others else "the line"
            verb = "begin" if others else "begins"
            texts.append(
                f"{where} {verb} with {same}, {' '.join(labels)!r}, which is read as a triple. If it is a heading, "
                f"remove it, or let `relens data prepare {source_words(dataset)} NEW_FOLDER --header` do so"
            )
    return texts


def _only_there(dataset: Dataset, first: tuple[int, ...], times: int, *, entities: bool) -> bool:
    """Say whether the relation of a triple, and its entities if asked for, occur this many times in all splits."""
    head, relation, tail = first
    splits = dataset.splits.values()
    if sum(int(np.count_nonzero(triples[:, 1] == relation)) for triples in splits) != times:
        return False
    if not entities:
        return True
    ends = [triples[:, [0, 2]] for triples in splits]
    return all(sum(int(np.count_nonzero(found == entity)) for found in ends) == times * (1 + (head == tail))
               for entity in (head, tail))  # fmt: skip
