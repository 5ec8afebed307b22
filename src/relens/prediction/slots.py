"""Slots: the two places of each relation, and the entities that may stand in them.

A slot is a relation with a side: its heads, or its tails. All rules read train only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from relens.errors import InputError, nearest

Rule = Literal["likely", "observed", "all"]
RULES: tuple[Rule, ...] = ("likely", "observed", "all")

SHARE = 0.2
"""Share of the entities of a companion slot that must stand in a slot, too."""


@dataclass(frozen=True, eq=False)
class Slots:
    """Which entities stand in each of S = 2R slots in train. Slot r holds the heads of relation r, slot R + r its tails.

    Attributes:
        n_entities: the number of entities.
        entities: the distinct entities of all slots, sorted within each slot, (M,) int64.
        offsets: those of slot s are ``entities[offsets[s]:offsets[s + 1]]``, (S + 1,) int64.
        slots: the distinct slots of all entities, (M,) int64.
        places: those of entity e are ``slots[places[e]:places[e + 1]]``, (E + 1,) int64.
    """

    n_entities: int
    entities: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    slots: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]

    @classmethod
    def from_train(cls, train: npt.NDArray[np.int32], n_entities: int, n_relations: int) -> Self:
        """Build from rows (head, relation, tail), (n, 3)."""
        heads, relations, tails = train.astype(np.int64).T
        keys = np.unique(np.concatenate([relations, relations + n_relations]) * n_entities + np.append(heads, tails))
        slots, entities = np.divmod(keys, n_entities)
        by_entity = np.argsort(entities, kind="stable")
        return cls(
            n_entities,
            entities,
            np.searchsorted(slots, np.arange(2 * n_relations + 1)).astype(np.int64),
            slots[by_entity],
            np.searchsorted(entities[by_entity], np.arange(n_entities + 1)).astype(np.int64),
        )

    def admitted(self, slot: int, rule: Rule) -> npt.NDArray[np.int64]:
        """Return the entities that a rule admits to a slot, sorted.

        ``all``: all entities. ``observed``: those that stand in the slot in train. ``likely``: also those that stand in
        a companion, which is a slot of whose entities at least ``SHARE`` stand in this slot, too.
        """
        if rule == "all":
            return np.arange(self.n_entities)
        observed = self._in(slot)
        if rule == "observed":
            return observed
        return np.unique(np.concatenate([observed, *map(self._in, self.companions(slot).tolist())]))

    def companions(self, slot: int) -> npt.NDArray[np.int64]:
        """Return the slots of whose entities at least ``SHARE`` stand in this slot, sorted."""
        observed = self._in(slot)
        shared = np.bincount(_joined(self.slots, self.places, observed), minlength=len(self.offsets) - 1)
        return np.flatnonzero((shared > 0) & (shared >= SHARE * np.diff(self.offsets)))

    def _in(self, slot: int) -> npt.NDArray[np.int64]:
        return self.entities[self.offsets[slot] : self.offsets[slot + 1]]


def check_rule(name: str, rules: Sequence[str] = RULES) -> None:
    """Raise an error for an unknown rule."""
    if name not in rules:
        raise InputError(f"unknown `candidates={name}`: expected one of {', '.join(rules)}; {nearest(name, rules)}")


def _joined(
    values: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the values of some rows of a ragged array, one after the other."""
    begins, counts = offsets[rows], offsets[rows + 1] - offsets[rows]
    return values[np.repeat(begins - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())]
