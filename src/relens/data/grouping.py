"""Groups of queries that share one weight vector."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from relens.data.queries import DIRECTIONS, Queries
from relens.data.tsv import read_lines
from relens.errors import DatasetError, nearest

Scheme = Literal["relation-direction", "relation", "file"]
SCHEMES: tuple[Scheme, Scheme] = ("relation-direction", "relation")


@dataclass(frozen=True)
class Grouping:
    """A partition of (relation, direction) pairs into G labelled groups.

    ``table`` has shape (R, 2), int32: the group of relation r in direction d (0 tail, 1 head).
    """

    scheme: Scheme
    labels: tuple[str, ...]
    table: npt.NDArray[np.int32]

    @classmethod
    def by_relation_and_direction(cls, relations: Sequence[str]) -> Self:
        """Make one group per relation and direction, as the paper's authors do on most data sets; row 2r + d."""
        labels = tuple(f"{relation} [{direction}]" for relation in relations for direction in DIRECTIONS)
        table = np.arange(2 * len(relations), dtype=np.int32).reshape(-1, 2)
        return cls("relation-direction", labels, table)

    @classmethod
    def by_relation(cls, relations: Sequence[str]) -> Self:
        """Make one group per relation, both directions together."""
        ids = np.arange(len(relations), dtype=np.int32)
        return cls("relation", tuple(relations), np.stack([ids, ids], axis=1))

    @classmethod
    def from_file(cls, path: Path, relations: Sequence[str]) -> Self:
        """Read lines ``relation TAB group``. Each relation that is not listed becomes its own group."""
        group_of = _read_groups(path, relations)
        both = sorted((set(relations) - set(group_of)) & set(group_of.values()))
        if both:
            raise DatasetError(
                f"{path}: {both[0]!r} is the name of a group and of a relation that is not listed. Add a line for that "
                f"relation, or rename the group."
            )
        names = [group_of.get(relation, relation) for relation in relations]
        id_of = {name: number for number, name in enumerate(dict.fromkeys(names))}
        ids = np.array([id_of[name] for name in names], dtype=np.int32)
        return cls("file", tuple(id_of), np.stack([ids, ids], axis=1))

    @classmethod
    def from_spec(cls, spec: str, relations: Sequence[str]) -> Self:
        """Build a grouping from ``relation-direction``, ``relation``, or the path of a file."""
        if spec == "relation-direction":
            return cls.by_relation_and_direction(relations)
        if spec == "relation":
            return cls.by_relation(relations)
        if Path(spec).is_file():
            return cls.from_file(Path(spec), relations)
        raise DatasetError(
            f"unknown grouping {spec!r}: expected 'relation-direction', 'relation', or a file of "
            f"'relation TAB group' lines; {nearest(spec, SCHEMES)}"
        )

    def __len__(self) -> int:
        return len(self.labels)

    def groups_of(self, queries: Queries) -> npt.NDArray[np.int32]:
        """Return the group of each query, shape (Q,), int32."""
        return self.table[queries.relation, queries.direction]


def _read_groups(path: Path, relations: Sequence[str]) -> dict[str, str]:
    """Return the group of each relation that a file lists. Errors name the line."""
    known = set(relations)
    group_of: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        parts = line.split("\t")
        if len(parts) != 2 or not parts[1].strip():
            raise DatasetError(f"{path}, line {number}: expected 'relation TAB group', found {line!r}")
        relation, group = parts[0], parts[1].strip()
        if relation not in known:
            hint = nearest(relation, relations)
            raise DatasetError(f"{path}, line {number}: unknown relation {relation!r}; {hint}")
        if group_of.setdefault(relation, group) != group:
            raise DatasetError(f"{path}, line {number}: relation {relation!r} has two groups; keep one line")
    return group_of
