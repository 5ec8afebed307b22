"""Restrictions: the entities that may answer a relation and direction, in place of all entities.

A restriction is ``observed`` (the entities that train has on that side of the relation), ``types`` (the entities that
share a type with one of those) or a list of entities for all questions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from relens.data.queries import DIRECTIONS, Queries
from relens.errors import DatasetError

if TYPE_CHECKING:
    from relens.data.dataset import Dataset

_JOINED = 2**22
"""Rows of a join of entities with their types that are in memory at once."""
_DIGITS = 8
"""Characters of the digests in names."""


class Lists(NamedTuple):
    """Lists of ids: list i is ``values[offsets[i]:offsets[i + 1]]``; (n + 1,) int64 and (m,) int32."""

    offsets: npt.NDArray[np.int64]
    values: npt.NDArray[np.int32]

    @classmethod
    def from_pairs(cls, lists: npt.NDArray[np.int64], values: npt.NDArray[Any], n_lists: int, n_values: int) -> Self:
        """Build ``n_lists`` lists from pairs (list, value), (m,) each; lists are sorted and have no value twice."""
        keys = np.unique(lists * n_values + values)
        numbers, found = np.divmod(keys, n_values)
        counts = np.bincount(numbers, minlength=n_lists)
        return cls(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), found.astype(np.int32))

    def __getitem__(self, number: Any) -> Any:
        """Return one list."""
        return self.values[self.offsets[number] : self.offsets[number + 1]]

    def of(self, numbers: npt.NDArray[np.integer[Any]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Return the lengths of some lists, (k,), and their values one list after the other."""
        begins = self.offsets[numbers]
        counts = self.offsets[numbers + 1] - begins
        places = np.cumsum(counts) - counts
        return counts, self.values[np.repeat(begins - places, counts) + np.arange(counts.sum())]


@dataclass(frozen=True, eq=False)
class EntityTypes:
    """The types of entities: row i says that an entity has a type; an entity may have several types, or none.

    Attributes:
        labels: the labels of the T types, sorted.
        entity: ids of entities, (n,) int32.
        type: positions in ``labels``, (n,) int32.
    """

    labels: tuple[str, ...]
    entity: npt.NDArray[np.int32]
    type: npt.NDArray[np.int32]

    def rows(self, entities: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield the label of the entity and of the type of each row."""
        for entity, kind in zip(self.entity.tolist(), self.type.tolist(), strict=True):
            yield entities[entity], self.labels[kind]


@dataclass(frozen=True, eq=False)
class Restriction:
    """The entities that may answer each relation and direction: the union of some pools of entities.

    Pools are shared by relations, so memory is linear in the data. There is no table of relations and entities.

    Attributes:
        name: what provenance and tables call it.
        n_entities: the number of entities, E.
        pools_of: the pools of relation r and direction d are list 2r + d.
        pools: the entities of each pool.
    """

    name: str
    n_entities: int
    pools_of: Lists
    pools: Lists

    @classmethod
    def observed(cls, dataset: "Dataset") -> Self:
        """Allow the entities that train has on the missing side of the relation."""
        pools = _seen(dataset)
        n_lists = len(pools.offsets) - 1
        own = Lists(np.arange(n_lists + 1, dtype=np.int64), np.arange(n_lists, dtype=np.int32))
        return cls("observed", len(dataset.entities), own, pools)

    @classmethod
    def of_types(cls, dataset: "Dataset") -> Self:
        """Allow the entities that have a type of an entity that train has on the missing side of the relation."""
        types = dataset.types
        if types is None:
            place = "has no folder" if dataset.folder is None else f"{dataset.folder} has no types.tsv"
            raise DatasetError(
                f"the candidates are restricted to types, but {dataset.name} has none ({place}): expected the file "
                f"types.tsv in its folder, with a line 'entity TAB type' for each type of an entity"
            )
        n_entities, n_types = len(dataset.entities), len(types.labels)
        pools = Lists.from_pairs(types.type.astype(np.int64), types.entity, n_types, n_entities)
        kinds = Lists.from_pairs(types.entity.astype(np.int64), types.type, n_entities, n_types)
        positions = dataset.entities.sorted_positions()
        pairs = np.sort(types.type.astype(np.int64) * n_entities + positions[types.entity])
        digest = _digest("\n".join(types.labels).encode() + np.unique(pairs).astype("<i8").tobytes())
        return cls(f"types {digest}", n_entities, _types_of(_seen(dataset), kinds, n_types), pools)

    @classmethod
    def listed(cls, dataset: "Dataset", entities: npt.NDArray[Any], name: str) -> Self:
        """Allow the entities with some ids, (n,), for every question. ``name`` is the name of the list."""
        labels = sorted(dataset.entities.labels[entity] for entity in np.unique(entities).tolist())
        n_lists = len(DIRECTIONS) * len(dataset.relations)
        pools = Lists.from_pairs(np.zeros(len(entities), dtype=np.int64), entities, 1, len(dataset.entities))
        shared = Lists(np.arange(n_lists + 1, dtype=np.int64), np.zeros(n_lists, dtype=np.int32))
        return cls(f"list {name} {_digest(chr(10).join(labels).encode())}", len(dataset.entities), shared, pools)

    @cached_property
    def shared(self) -> bool:
        """Whether all relations and directions have the same candidates."""
        return len(self.pools.offsets) == 2

    def allowed(self, relation: int, direction: int) -> npt.NDArray[np.int32]:
        """Return the entities that may answer a relation and direction, sorted and distinct, (m,) int32."""
        pools = self.pools_of[2 * relation + direction]
        entities = self.pools.of(pools)[1]
        return entities if len(pools) < 2 else np.unique(entities)

    def mask(self, relation: int, direction: int) -> npt.NDArray[np.bool_]:
        """Say for each entity whether it may answer a relation and direction, (E,)."""
        mask = np.zeros(self.n_entities, dtype=bool)
        mask[self.allowed(relation, direction)] = True
        return mask

    def excluded(
        self, queries: Queries, known: tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the entities that do not compete with the answers of b queries.

        These are all that are not allowed, and the known answers. The answer itself always competes.

        Args:
            queries: the b queries.
            known: their other known answers, as ``KnownAnswers.other_answers`` returns them.

        Returns:
            offsets (b + 1,) and entities; those of query q are ``entities[offsets[q]:offsets[q + 1]]``, sorted.
        """
        keys, row = np.unique(_list_numbers(queries), return_inverse=True)
        out = np.ones((len(keys), self.n_entities), dtype=bool)
        for at, key in enumerate(keys.tolist()):
            out[at, self.allowed(*divmod(key, len(DIRECTIONS)))] = False
        out = out[row]  # (b, E)
        offsets, others = known
        out[np.repeat(np.arange(len(queries)), np.diff(offsets)), others] = True
        out[np.arange(len(queries)), queries.answer] = False
        counts = out.sum(axis=1)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), np.nonzero(out)[1]

    def outside(self, queries: Queries) -> npt.NDArray[np.bool_]:
        """Say for each query whether its answer is not among the entities that may answer it, (Q,)."""
        keys = _list_numbers(queries)
        order = np.argsort(keys, kind="stable")
        found, counts = np.unique(keys, return_counts=True)
        outside = np.zeros(len(queries), dtype=bool)
        for key, end, count in zip(found.tolist(), np.cumsum(counts).tolist(), counts.tolist(), strict=True):
            rows = order[end - count : end]
            outside[rows] = ~np.isin(queries.answer[rows], self.allowed(*divmod(key, len(DIRECTIONS))))
        return outside


def _list_numbers(queries: Queries) -> npt.NDArray[np.int64]:
    """Return the list of each query's relation and direction, (Q,)."""
    return queries.relation.astype(np.int64) * len(DIRECTIONS) + queries.direction


def _seen(dataset: "Dataset") -> Lists:
    """Return the entities that train has on the missing side of each relation and direction."""
    queries = Queries.from_triples(dataset.train)
    n_lists = len(DIRECTIONS) * len(dataset.relations)
    return Lists.from_pairs(_list_numbers(queries), queries.answer, n_lists, len(dataset.entities))


def _types_of(seen: Lists, kinds: Lists, n_types: int) -> Lists:
    """Return the types of the entities in each list of ``seen``, given the types of each entity."""
    n_lists = len(seen.offsets) - 1
    owners = np.repeat(np.arange(n_lists, dtype=np.int64), np.diff(seen.offsets))
    sizes = np.cumsum(np.diff(kinds.offsets)[seen.values])  # rows of the join, up to each entity
    borders = np.searchsorted(sizes, np.arange(_JOINED, int(sizes[-1]) if len(sizes) else 0, _JOINED))
    found = [np.empty(0, dtype=np.int64)]
    for part, owner in zip(np.split(seen.values, borders), np.split(owners, borders), strict=True):
        counts, types = kinds.of(part)
        found.append(np.unique(np.repeat(owner, counts) * n_types + types))
    lists, types = np.divmod(np.concatenate(found), max(1, n_types))
    return Lists.from_pairs(lists, types, n_lists, max(1, n_types))


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:_DIGITS]
