"""Facts that are given with a question: more edges of the graph, also of entities that no model was trained on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from relens.data.dataset import FIELDS, Dataset
from relens.data.known_answers import StatedAnswers
from relens.data.queries import SPLITS
from relens.data.tsv import read_lines, read_rows
from relens.data.vocabulary import Vocabulary
from relens.errors import DatasetError, InputError, RelensError, counted
from relens.prediction.names import Names

if TYPE_CHECKING:
    import torch

GIVEN = "facts"
"""The split of given facts in answers."""
LISTED = 5
"""Unknown relations that an error names, and new entities that a note names."""

Triple = Sequence[str]
Facts = Path | str | Sequence[Triple]
"""A file of tab-separated triples, or rows (head, relation, tail) of labels."""


@dataclass(frozen=True, eq=False)
class GivenFacts:
    """Facts beside a data set.

    Attributes:
        source: how error messages and notes call them.
        trained: the data set that the models were trained on.
        dataset: the same with the facts in train; new entities have the ids after all others.
        triples: the facts that train does not have, each once, (n, 3) int32.
        repeated: how many of the given facts were left out, because train or an earlier line has them.
    """

    source: str
    trained: Dataset
    dataset: Dataset
    triples: npt.NDArray[np.int32]
    repeated: int

    @classmethod
    def read(cls, facts: Facts, trained: Dataset) -> "GivenFacts":
        """Read and check facts. Relations must be known; an entity with an unknown name is a new one."""
        source, rows, places = read_triples(facts, "fact")
        entities, ids = _entity_ids(rows, places, trained)
        relation = _relation_ids(rows, places, Names(trained), source)
        triples = np.column_stack([ids[0::2], relation, ids[1::2]]).astype(np.int32)
        extended = replace(trained, entities=entities, read_names=lambda: trained.names)
        keys = extended.triple_keys(triples)
        first = np.sort(np.unique(keys, return_index=True)[1])
        fresh = first[~np.isin(keys[first], extended.triple_keys(trained.train))]
        if not len(fresh):
            raise InputError(
                f"{source}: train of {trained.name} has {counted(len(rows), 'fact')} of {len(rows):,} already, and "
                f"there is nothing to add: give new facts, or ask without `facts=…`"
            )
        extended = replace(extended, train=np.concatenate([trained.train, triples[fresh]]))
        return cls(source, trained, extended, triples[fresh], len(rows) - len(fresh))

    @cached_property
    def stated(self) -> StatedAnswers:
        """The answers that the facts state."""
        by_split = {split: self.triples if split == SPLITS[0] else self.triples[:0] for split in SPLITS}
        return StatedAnswers.build(by_split, len(self.dataset.relations))

    @cached_property
    def is_new(self) -> npt.NDArray[np.bool_]:
        """Which entities no model was trained on, (E,)."""
        return np.arange(len(self.dataset.entities)) >= len(self.trained.entities)

    def edges(self) -> "tuple[torch.Tensor, int]":
        """Return train with the facts, (n, 3) int64, and the number of entities, for ``KGEModel.read``."""
        import torch

        return torch.from_numpy(self.dataset.train.astype(np.int64)), len(self.dataset.entities)

    def describe(self) -> str:
        """Return what was added, in one line."""
        new = self.dataset.entities.labels[len(self.trained.entities) :]
        shown = f" ({', '.join(new[:LISTED])}{', …' if len(new) > LISTED else ''})" if new else ""
        text = f"{self.source}: {counted(len(self.triples), 'new fact')}"
        text += f", {counted(len(new), 'new entity', 'new entities')}{shown}"
        if self.repeated:
            text += f"; {counted(self.repeated, 'fact')} left out: train or an earlier line has the same"
        return text


def read_triples(triples: Facts, noun: str) -> tuple[str, list[list[str]], list[str]]:
    """Return the name of the source, its rows of three labels, and how to call each row.

    Args:
        triples: a file, in which a heading is skipped, or rows.
        noun: what errors call a triple; with an s, it is also the name of the argument.
    """
    if isinstance(triples, Path | str):
        path = Path(triples)
        try:
            rows = read_rows(path, FIELDS)
        except OSError as error:
            raise RelensError(f"{path} cannot be read: {error.strerror or error}") from error
        places = [f"{path}, line {number}" for number, line in enumerate(read_lines(path), start=1) if line]
        if rows and tuple(rows[0]) == FIELDS:  # a heading
            rows, places = rows[1:], places[1:]
        source = str(path)
    else:
        rows, source = [list(row) if not isinstance(row, str) else [row] for row in triples], f"`{noun}s=…`"
        places = [f"{source}, number {number}" for number in range(1, len(rows) + 1)]
        for row, place in zip(rows, places, strict=True):
            if len(row) != len(FIELDS) or not all(isinstance(label, str) and label.strip() for label in row):
                raise InputError(f"{place}: found {row!r}, expected three texts: {', '.join(FIELDS)}")
    if not rows:
        raise InputError(
            f"{source} has no {noun}s: expected one line per {noun}, {', '.join(FIELDS)} separated by tabs"
        )
    return source, rows, places


def _relation_ids(rows: list[list[str]], places: list[str], names: Names, source: str) -> list[int]:
    """Return the relation of each row by its label or readable name.

    Unknown ones raise an error that lists the first of them with their places and similar names.
    """
    ids = {label: names.find("relation", label) for label in {row[1] for row in rows}}
    strange: dict[str, str] = {}
    for row, place in zip(rows, places, strict=True):
        if ids[row[1]] is None:
            strange.setdefault(row[1], place)
    if strange:
        listed = []
        for label, place in list(strange.items())[:LISTED]:
            try:
                names.relation(label)
            except DatasetError as error:
                listed.append(f"{place}: {error}")
        more = f"\n… and {len(strange) - LISTED} more in {source}" if len(strange) > LISTED else ""
        raise DatasetError(
            "\n".join(listed) + more + "\nFacts may have new entities, but no new relations: models learnt those of "
            "train. Correct the names, or remove the lines."
        )
    return [found for row in rows if (found := ids[row[1]]) is not None]


def _entity_ids(rows: list[list[str]], places: list[str], trained: Dataset) -> tuple[Vocabulary, list[int]]:
    """Return all entities, and the ids of heads and tails in turn.

    A name means an entity of the data set if it does in a question, regardless of case; otherwise it is a new label.
    """
    names, new = Names(trained), dict[str, int]()
    ids = []
    for row, place in zip(rows, places, strict=True):
        for label in (row[0], row[2]):
            if label in new:
                ids.append(new[label])
            elif label in trained.entities or names.entities.exactly(label):
                try:
                    ids.append(names.entity(label))
                except DatasetError as error:
                    raise type(error)(f"{place}: {error}") from None
            else:
                ids.append(new.setdefault(label, len(trained.entities) + len(new)))
    return Vocabulary("entity", (*trained.entities.labels, *new)), ids
