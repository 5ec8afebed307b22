"""Data sets: triples in three splits, with one vocabulary of entities and one of relations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from relens.data.candidates import Candidates, read_candidates
from relens.data.known_answers import KnownAnswers, StatedAnswers
from relens.data.queries import EVALUATED, SPLITS, Queries, triple_key
from relens.data.restriction import EntityTypes, Restriction
from relens.data.triple_files import read_triples
from relens.data.tsv import read_rows, write_rows
from relens.data.vocabulary import Vocabulary
from relens.errors import DatasetError, counted, nearest

MANY = 1.5
"""A side counts as "many" above this mean number of answers per anchor (Bordes et al. 2013)."""

FIELDS = ("head", "relation", "tail")
ENDINGS = (".txt", ".txt.gz", ".tsv", ".tsv.gz")
NAMES_ENDINGS = (".tsv", ".tsv.gz")
OPTIONAL = {
    "labels": NAMES_ENDINGS,
    "relation_labels": NAMES_ENDINGS,
    "types": NAMES_ENDINGS,
    "valid_negatives": ENDINGS,
    "test_negatives": ENDINGS,
}
"""The files that a folder of a data set may have beside its splits, and how their names end."""
COMPILED_BYTES = 2**20
"""Larger folders are read by compiled loops; for smaller ones, loading these would take longer than reading."""
LISTED = 5
"""Unknown entities that an error names."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A knowledge graph in three splits.

    Attributes:
        name: its name in tables and files.
        entities: all entities, including those of valid and test; each one is a candidate.
        relations: all relations.
        train: rows (head, relation, tail) of ids, (n, 3) int32, read-only.
        valid: validation triples in the same form.
        test: test triples in the same form.
        folder: the folder it was read from; None for a data set made in memory.
        candidates: the entities that compete with the answers of ``queries(split)``, by split. In a split without an
            entry, all entities compete except known answers.
        restriction: the entities that may compete, by relation and direction; None for all.
        read_names: returns readable names by entity label; None to look for ``labels.tsv`` in the folder.
    """

    name: str
    entities: Vocabulary
    relations: Vocabulary
    train: npt.NDArray[np.int32]
    valid: npt.NDArray[np.int32]
    test: npt.NDArray[np.int32]
    folder: Path | None = None
    candidates: Mapping[str, Candidates] = field(default_factory=dict)
    restriction: Restriction | None = None
    read_names: Callable[[], dict[str, str]] | None = None

    def __post_init__(self) -> None:
        sizes = np.array([len(self.entities), len(self.relations), len(self.entities)])
        for split in SPLITS:
            triples = np.array(getattr(self, split), dtype=np.int32).reshape(-1, 3)
            if ((triples < 0) | (triples >= sizes)).any():
                raise DatasetError(
                    f"{split} of {self.name} has ids from {triples.min(axis=0)} to {triples.max(axis=0)} (head, "
                    f"relation, tail), expected 0 to {sizes - 1}: the triples belong to another vocabulary"
                )
            triples.setflags(write=False)
            object.__setattr__(self, split, triples)
        for split, candidates in self.candidates.items():
            expected = 2 * len(self.splits.get(split, ()))
            if len(candidates) != expected:
                raise DatasetError(
                    f"{self.name} has candidates for {len(candidates)} queries of {split}, expected {expected}: both "
                    f"directions of every triple. Make the candidates for this data set."
                )

    @classmethod
    def from_labels(
        cls,
        name: str,
        *,
        train: Sequence[Sequence[str]],
        valid: Sequence[Sequence[str]] = (),
        test: Sequence[Sequence[str]] = (),
        folder: Path | None = None,
    ) -> Self:
        """Build from rows (head, relation, tail) of labels; ids follow the sorted labels."""
        columns = [list(zip(*rows, strict=True)) or [(), (), ()] for rows in (train, valid, test)]
        entities = Vocabulary.from_labels(
            "entity", (label for heads, _, tails in columns for label in (*heads, *tails))
        )
        relations = Vocabulary.from_labels("relation", (label for _, labels, _ in columns for label in labels))
        ids = [
            np.stack([entities.ids_of(heads), relations.ids_of(labels), entities.ids_of(tails)], axis=1)
            for heads, labels, tails in columns
        ]
        return cls(name, entities, relations, train=ids[0], valid=ids[1], test=ids[2], folder=folder)

    @property
    def splits(self) -> dict[str, npt.NDArray[np.int32]]:
        """The triples by split, in the order train, valid, test."""
        return {split: getattr(self, split) for split in SPLITS}

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of entities, relations and triples per split."""
        triples = {split: len(triples) for split, triples in self.splits.items()}
        return {"entities": len(self.entities), "relations": len(self.relations), **triples}

    def queries(self, split: str) -> Queries:
        """Return the queries of a split: row i of its triples gives queries 2i (tail) and 2i + 1 (head)."""
        if split not in SPLITS:
            raise DatasetError(f"unknown split {split!r}; {nearest(split, SPLITS)}")
        return Queries.from_triples(self.splits[split])

    @cached_property
    def known_answers(self) -> KnownAnswers:
        """The known answers of all splits, for filtering."""
        return KnownAnswers.build(self.splits.values(), len(self.entities), len(self.relations))

    @cached_property
    def stated_answers(self) -> StatedAnswers:
        """All answers in the data set, each with its split."""
        return StatedAnswers.build(self.splits, len(self.relations))

    @cached_property
    def cardinalities(self) -> tuple[str, ...]:
        """The cardinality class of each relation in train, see ``cardinality_classes``."""
        return cardinality_classes(self.train, len(self.relations))

    def triple_keys(self, triples: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return one integer key per triple (n, 3) of this data set's ids, (n,) int64, for membership tests."""
        head, relation, tail = triples.astype(np.int64).T
        keys: npt.NDArray[np.int64] = triple_key(head, relation, tail, len(self.entities), len(self.relations))
        return keys

    def n_candidates(self, split: str) -> int:
        """Return the largest number of candidates of a query in a split, including the answer."""
        candidates = self.candidates.get(split)
        return len(self.entities) if candidates is None else candidates.n_columns

    @property
    def identity(self) -> dict[str, str]:
        """Name, fingerprint and a digest of the entity numbering; candidates fit data sets with the same identity."""
        numbering = sha256(self.entities.joined()[:-1]).hexdigest()[:16]
        return {"dataset": self.name, "fingerprint": self.fingerprint, "entity_numbering": numbering}

    def with_candidates(self, folder: Path) -> Self:
        """Return this data set with the candidates in a folder. Candidates of other data raise an error."""
        queries = {split: self.queries(split) for split in EVALUATED}
        candidates = read_candidates(folder, self.identity, queries, len(self.entities))
        return replace(self, candidates=candidates, restriction=None)

    def restricted(self, restriction: Restriction) -> Self:
        """Return this data set with restricted candidates; they replace candidates of its own."""
        return replace(self, candidates={}, restriction=restriction)

    @cached_property
    def names(self) -> dict[str, str]:
        """Readable names by entity label, from ``read_names`` or ``labels.tsv``; empty if there are none."""
        if self.read_names is not None:
            return self.read_names()
        return self._table("labels", ("entity", "name"))

    @cached_property
    def relation_names(self) -> dict[str, str]:
        """Readable names by relation label, from ``relation_labels.tsv``; empty if there are none."""
        return self._table("relation_labels", ("relation", "name"))

    @cached_property
    def types(self) -> EntityTypes | None:
        """The types of entities, from ``types.tsv``; None if there is no such file."""
        file = None if self.folder is None else _find_file(self.folder, "types", NAMES_ENDINGS)
        return None if file is None else _read_types(file, self.entities)

    def _table(self, stem: str, fields: tuple[str, str]) -> dict[str, str]:
        """Read a table of two columns in the folder; it is empty if there is no such file."""
        file = None if self.folder is None else _find_file(self.folder, stem, NAMES_ENDINGS)
        return {} if file is None else dict(read_rows(file, fields))

    @cached_property
    def negatives(self) -> dict[str, npt.NDArray[np.int32]]:
        """False triples by split, (n, 3) each, from ``valid_negatives`` and ``test_negatives`` in the folder."""
        if self.folder is None:
            return {}
        files = {split: _find_file(self.folder, f"{split}_negatives", ENDINGS) for split in EVALUATED}
        return {split: self._read_negatives(file) for split, file in files.items() if file is not None}

    def _read_negatives(self, file: Path) -> npt.NDArray[np.int32]:
        """Read a file of false triples; a heading is skipped."""
        rows = read_rows(file, FIELDS)
        if rows and tuple(rows[0]) == FIELDS:
            rows = rows[1:]
        heads, relations, tails = list(zip(*rows, strict=True)) or [(), (), ()]
        try:
            columns = self.entities.ids_of(heads), self.relations.ids_of(relations), self.entities.ids_of(tails)
        except DatasetError as error:
            raise DatasetError(f"{file}: {error} False triples have entities and relations of the graph.") from None
        triples = np.stack(columns, axis=1)
        facts = np.concatenate(list(self.splits.values()))
        true = np.flatnonzero(np.isin(self.triple_keys(triples), self.triple_keys(facts)))
        if len(true):
            raise DatasetError(
                f"{file}: found {len(true):,} facts of the data set among {len(triples):,} triples, the first one is "
                f"({', '.join(rows[true[0]])}): expected false triples only. Remove the facts."
            )
        return triples

    @cached_property
    def fingerprint(self) -> str:
        """Short digest of labels and triples, independent of the file format and of the numbering of ids.

        The order of valid and test matters, because query numbers follow it. The order of train does not, because
        the same facts are published in different orders.
        """
        digest = sha256()
        for vocabulary in (self.entities, self.relations):
            digest.update(vocabulary.joined(in_order=True) + b"\n")
        entity, relation = self.entities.sorted_positions(), self.relations.sorted_positions()
        for split, triples in self.splits.items():
            heads, relations, tails = triples.T
            rows = np.stack([entity[heads], relation[relations], entity[tails]], axis=1)
            if split == "train":
                rows = sorted_rows(rows)
            digest.update(f"{split} {len(rows)}\n".encode())
            digest.update(np.ascontiguousarray(rows, dtype="<i4").data)
        return digest.hexdigest()[:16]


def read_folder(folder: Path | str, name: str | None = None) -> Dataset:
    """Read a folder with ``train``, ``valid`` and ``test`` as ``.txt`` or ``.tsv``, plain or ``.gz``.

    Each file is UTF-8, one triple per line, head, relation and tail separated by tabs. Empty valid and test files
    give empty splits. More files are optional and read when first needed: ``labels.tsv`` (entity TAB readable name),
    ``relation_labels.tsv`` (relation TAB readable name), ``types.tsv`` (entity TAB type), and false triples in
    ``valid_negatives.txt`` and ``test_negatives.txt``.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DatasetError(f"{folder} is not a folder; expected one with train.txt, valid.txt and test.txt")
    files, name = {split: _split_file(folder, split) for split in SPLITS}, name or folder.resolve().name
    if sum(file.stat().st_size for file in files.values()) < COMPILED_BYTES:
        rows = {split: read_rows(file, FIELDS) for split, file in files.items()}
        _check_train(files["train"], len(rows["train"]))
        return Dataset.from_labels(name, **rows, folder=folder)
    entities, relations, triples = read_triples(files, FIELDS)
    _check_train(files["train"], len(triples["train"]))
    vocabularies = Vocabulary.from_bytes("entity", entities), Vocabulary.from_bytes("relation", relations)
    train, valid, test = (triples[split] for split in SPLITS)
    return Dataset(name, *vocabularies, train=train, valid=valid, test=test, folder=folder)


def _check_train(file: Path, n_triples: int) -> None:
    if not n_triples:
        raise DatasetError(f"{file} is empty: expected at least one line head TAB relation TAB tail")


def write_folder(dataset: Dataset, folder: Path) -> None:
    """Write the splits, and any readable names, types and false triples, as ``.gz`` files for ``read_folder``."""
    entities, relations = dataset.entities.labels, dataset.relations.labels
    false = {f"{split}_negatives": triples for split, triples in dataset.negatives.items()}
    for name, triples in (dataset.splits | false).items():
        rows = [(entities[head], relations[relation], entities[tail]) for head, relation, tail in triples.tolist()]
        write_rows(folder / f"{name}.txt.gz", rows)
    for stem, names in (("labels", dataset.names), ("relation_labels", dataset.relation_names)):
        if names:
            write_rows(folder / f"{stem}.tsv.gz", names.items())
    if dataset.types is not None:
        write_rows(folder / "types.tsv.gz", dataset.types.rows(entities))


def _read_types(file: Path, entities: Vocabulary) -> EntityTypes:
    """Read rows (entity, type). Unknown entities raise an error that lists the first of them with similar labels."""
    rows = read_rows(file, ("entity", "type"))
    if not rows:
        raise DatasetError(f"{file} is empty: expected a line 'entity TAB type' for each type of an entity. Remove it.")
    found = entities.find([entity for entity, _ in rows]).tolist()
    unknown = list(dict.fromkeys(entity for (entity, _), number in zip(rows, found, strict=True) if number < 0))
    if unknown:
        listed = [f"unknown entity {label!r}; {entities.similar_to(label)}" for label in unknown[:LISTED]]
        more = [f"… and {len(unknown) - LISTED:,} more"] if len(unknown) > LISTED else []
        count = f"{file} has types of {counted(len(unknown), 'entity', 'entities')} that no triple has:"
        raise DatasetError("\n".join([count, *listed, *more, "Correct the labels, or remove the lines."]))
    kinds = Vocabulary.from_labels("type", (kind for _, kind in rows))
    ids = [vocabulary.ids_of([row[i] for row in rows]) for i, vocabulary in enumerate((entities, kinds))]
    return EntityTypes(tuple(kinds.labels), *ids)


def optional_files(folder: Path) -> dict[str, Path]:
    """Return the optional files in the folder of a data set, by the stems of ``OPTIONAL``."""
    found = {stem: _find_file(folder, stem, endings) for stem, endings in OPTIONAL.items()}
    return {stem: file for stem, file in found.items() if file is not None}


def _split_file(folder: Path, split: str) -> Path:
    """Return the file of a split. The error for a missing file lists the accepted names."""
    file = _find_file(folder, split, ENDINGS)
    if file is None:
        present = sorted(entry.name for entry in folder.iterdir())
        raise DatasetError(
            f"{folder} has no file for {split}: expected one of {', '.join(split + ending for ending in ENDINGS)}; "
            f"the folder holds {', '.join(present[:12]) or 'nothing'}. Add the file, or let "
            f"`relens data prepare` make a folder of files in other formats."
        )
    return file


def _find_file(folder: Path, stem: str, endings: tuple[str, ...]) -> Path | None:
    """Return the file ``stem`` + ending in a folder, or None. More than one raises an error."""
    found = [folder / (stem + ending) for ending in endings if (folder / (stem + ending)).is_file()]
    if len(found) > 1:
        raise DatasetError(
            f"{folder} has {' and '.join(file.name for file in found)}: expected one file for {stem}. "
            f"Remove or rename the others."
        )
    return found[0] if found else None


def cardinality_classes(triples: npt.NDArray[Any], n_relations: int) -> tuple[str, ...]:
    """Return the class ``1-1``, ``1-N``, ``N-1`` or ``N-N`` of each relation, from its distinct triples (n, 3).

    The head side comes first: ``1-N`` means one head per tail and many tails per head. The class of a relation
    without triples is the empty string.
    """
    heads, relations, tails = distinct_rows(triples).T
    pairs = np.bincount(relations, minlength=n_relations)  # (R,)
    distinct_heads = _count_distinct(relations, heads, n_relations)
    distinct_tails = _count_distinct(relations, tails, n_relations)
    many_tails = pairs > MANY * distinct_heads
    many_heads = pairs > MANY * distinct_tails
    sides = np.array(["1", "N"])
    classes = zip(sides[many_heads.astype(int)], sides[many_tails.astype(int)], pairs, strict=True)
    return tuple(f"{head}-{tail}" if count else "" for head, tail, count in classes)


def distinct_rows(triples: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the distinct rows of (n, 3), sorted."""
    rows = sorted_rows(triples)
    first = np.ones(len(rows), dtype=bool)
    first[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return rows[first]


def sorted_rows(triples: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return rows (n, 3) of ids, sorted by their last column, then by the second and the first one."""
    if not len(triples):
        return triples
    sizes = [int(size) + 1 for size in triples.max(axis=0)]
    if prod(sizes) > np.iinfo(np.int64).max:
        return triples[np.lexsort(triples.T)]
    first, second, third = triples.astype(np.int64).T
    keys = np.sort((third * sizes[1] + second) * sizes[0] + first)  # far faster than sorting by three columns
    ordered = np.empty_like(triples)
    for column in (0, 1):
        keys, ordered[:, column] = np.divmod(keys, sizes[column])
    ordered[:, 2] = keys
    return ordered


def _count_distinct(relations: npt.NDArray[Any], entities: npt.NDArray[Any], n_relations: int) -> npt.NDArray[np.int64]:
    """Return the number of distinct entities that occur with each relation, (R,)."""
    size = int(entities.max(initial=0)) + 1
    pairs = np.sort(relations * np.int64(size) + entities)  # far faster than ``np.unique``
    first = np.append(True, pairs[1:] != pairs[:-1])[: len(pairs)]
    return np.bincount(pairs[first] // size, minlength=n_relations)
