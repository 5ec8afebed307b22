"""Facts of a source: labels become ids while the source is read, block by block."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset
from relens.data.preparation.times import Times
from relens.data.queries import SPLITS
from relens.data.vocabulary import TABLE_BREAKERS, Vocabulary
from relens.errors import DatasetError

ROLES = ("head", "relation", "tail")


class Block(NamedTuple):
    """Some rows of a source, by column.

    Attributes:
        numbers: the number of each row in its source, for error messages.
        columns: heads, relations and tails, and times if there are any.
    """

    numbers: Sequence[int]
    columns: tuple[Sequence[str], ...]


@dataclass(frozen=True)
class Facts:
    """Facts of one source: rows (head, relation, tail) of ids, (n, 3) int32, and their times, (n,) or None."""

    triples: npt.NDArray[np.int32]
    times: npt.NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.triples)

    def __getitem__(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> "Facts":
        return Facts(self.triples[rows], None if self.times is None else self.times[rows])

    def without_repeats(self, *, ordered: bool = False) -> "Facts":
        """Return the distinct facts, the earliest of those that differ in time only.

        With ``ordered``, they are in the order of their ids, whatever the order of the source; otherwise each one stays
        where it occurs first.
        """
        head, relation, tail = self.triples.T
        keys = (tail, relation, head) if self.times is None else (self.times, tail, relation, head)
        order = np.lexsort(keys)
        rows = self.triples[order]
        first = np.ones(len(self), dtype=bool)
        first[1:] = (rows[1:] != rows[:-1]).any(axis=1)
        return self[order[first] if ordered else np.sort(order[first])]


class _RefusedError(Exception):
    """A label that no data set can have."""


class _Labels(dict[str, int]):
    """Ids of labels as they stand in a source, in order of appearance; padded labels share the id of the plain."""

    def __init__(self, *, strip: bool) -> None:
        super().__init__()
        self.strip = strip
        self.ids: dict[str, int] = {}
        self.n_padded = 0

    def __missing__(self, raw: str) -> int:
        label = raw.strip() if self.strip else raw
        if not label.strip() or not TABLE_BREAKERS.isdisjoint(label) or not _is_text(label):
            raise _RefusedError(raw)
        self.n_padded += label != raw
        self[raw] = number = self.ids.setdefault(label, len(self.ids))
        return number


class Encoder:
    """Turn labels of several sources into ids of one vocabulary of entities and one of relations."""

    def __init__(self, *, strip: bool) -> None:
        self._entities, self._relations = _Labels(strip=strip), _Labels(strip=strip)
        self._times = Times()

    @property
    def n_padded(self) -> int:
        """The number of distinct labels that had spaces around them."""
        return self._entities.n_padded + self._relations.n_padded

    def collect(self, source: str, unit: str, blocks: Iterable[Block]) -> Facts:
        """Return the facts in blocks of rows; ``source`` and ``unit`` (line, row) name a bad row in its error."""
        columns, times = tuple(array("i") for _ in ROLES), array("d")
        timed = False
        for block in blocks:
            try:
                for found, texts, labels in zip(columns, block.columns, self._by_role, strict=False):
                    found.extend(map(labels.__getitem__, texts))
                if len(block.columns) > len(ROLES):
                    timed = True
                    times.extend(map(self._times.__getitem__, block.columns[-1]))
            except (_RefusedError, ValueError) as error:
                raise _located(error, source, unit, block) from None
        triples = np.stack([np.array(found, dtype=np.int32) for found in columns], axis=1)
        return Facts(triples, np.array(times, dtype=np.float64) if timed else None)

    def finish(self, parts: Mapping[str, Facts]) -> "Graph":
        """Return the facts by split with the labels that they use, ids in the order of the labels."""
        return _compact(list(self._entities.ids), list(self._relations.ids), parts)

    @property
    def _by_role(self) -> tuple[_Labels, _Labels, _Labels]:
        return self._entities, self._relations, self._entities


@dataclass(frozen=True)
class Graph:
    """Facts by split, and the labels of their ids in ascending order; each label occurs in a fact."""

    entities: tuple[str, ...]
    relations: tuple[str, ...]
    parts: Mapping[str, Facts]

    @classmethod
    def of_dataset(cls, dataset: Dataset) -> "Graph":
        """Return the facts of the splits of a data set that are not empty."""
        parts = {split: Facts(triples) for split, triples in dataset.splits.items() if len(triples)}
        return _compact(dataset.entities.labels, dataset.relations.labels, parts)

    def with_parts(self, parts: Mapping[str, Facts]) -> "Graph":
        """Return other facts with the labels that they use."""
        return _compact(self.entities, self.relations, parts)

    def dataset(self, name: str) -> Dataset:
        """Return a data set; a split without a part is empty."""
        nothing = Facts(np.zeros((0, 3), dtype=np.int32))
        train, valid, test = (self.parts.get(split, nothing).triples for split in SPLITS)
        entities, relations = Vocabulary("entity", self.entities), Vocabulary("relation", self.relations)
        return Dataset(name, entities, relations, train=train, valid=valid, test=test)


def _compact(entities: Sequence[str], relations: Sequence[str], parts: Mapping[str, Facts]) -> Graph:
    """Leave out labels without a fact, and number the others in their order."""
    found = [part.triples for part in parts.values()]
    kept_entities, new_entity = _used(entities, [triples[:, [0, 2]] for triples in found])
    kept_relations, new_relation = _used(relations, [triples[:, 1] for triples in found])
    new = (new_entity, new_relation, new_entity)
    renumbered = {
        split: Facts(np.stack([ids[part.triples[:, i]] for i, ids in enumerate(new)], axis=1), part.times)
        for split, part in parts.items()
    }
    return Graph(kept_entities, kept_relations, renumbered)


def _used(
    labels: Sequence[str], used: Sequence[npt.NDArray[np.int32]]
) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
    """Return the labels whose ids are used, sorted, and the new id of each old one."""
    wanted = np.zeros(len(labels), dtype=bool)
    for ids in used:
        wanted[ids] = True
    order = sorted(np.flatnonzero(wanted).tolist(), key=labels.__getitem__)
    new = np.full(len(labels), -1, dtype=np.int32)
    new[order] = np.arange(len(order), dtype=np.int32)
    return tuple(labels[number] for number in order), new


def _is_text(label: str) -> bool:
    """Say whether a label can be written as UTF-8: frames may hold halves of surrogate pairs."""
    try:
        label.encode()
    except UnicodeEncodeError:
        return False
    return True


def _located(error: Exception, source: str, unit: str, block: Block) -> DatasetError:
    """Return the error about the first row of a block that has the refused text."""
    refused, about_time = error.args[-1], not isinstance(error, _RefusedError)
    columns = list(zip((*ROLES, "time"), block.columns, strict=False))
    found = [(list(texts).index(refused), role) for role, texts in columns
             if (role == "time") == about_time and refused in texts]  # fmt: skip
    row, role = min(found)
    where = f"{source}, {unit} {block.numbers[row]:,}"
    if about_time:
        return DatasetError(f"{where}: {error.args[0]}")
    if not refused.strip():
        return DatasetError(f"{where}: the {role} is empty, expected a label. Fill it in, or remove the {unit}.")
    return DatasetError(
        f"{where}: the {role} {refused!r} has a tab, a line end or half a character inside, which no table of triples "
        f"can hold. Replace it."
    )
