"""The restriction ``likely``: the entities that probably belong on a side of a relation, judged by train alone.

A slot is a side of a relation: its heads, or its tails. Entities of one kind share slots, so a slot goes with others.
"""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from relens.data.restriction import Lists, Restriction

if TYPE_CHECKING:
    from relens.data.dataset import Dataset

SHARE = 0.2
"""Share of the entities of a companion that must be in a slot, too."""


def likely(dataset: "Dataset") -> Restriction:
    """Allow the entities that train has in a slot, and those that it has in a companion of the slot.

    A companion of a slot is another slot of whose entities at least ``SHARE`` are in this slot, too.
    """
    observed = Restriction.observed(dataset).pools
    n_slots, n_entities = len(observed.offsets) - 1, len(dataset.entities)
    owners = np.repeat(np.arange(n_slots, dtype=np.int64), np.diff(observed.offsets))
    slots_of = Lists.from_pairs(observed.values.astype(np.int64), owners, n_entities, n_slots)
    sizes = np.diff(observed.offsets)
    pairs = [np.empty((2, 0), dtype=np.int64)]
    for slot in range(n_slots):
        others, shared = _counted(slots_of.of(observed[slot])[1], n_slots)
        companions = others[shared >= SHARE * sizes[others]]
        pairs.append(np.stack([np.full_like(companions, slot), companions]))
    lists, pools = np.concatenate(pairs, axis=1)
    return Restriction("likely", n_entities, Lists.from_pairs(lists, pools, n_slots, n_slots), observed)


def _counted(slots: npt.NDArray[np.int32], n_slots: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the distinct ones of some slots, ascending, and how often each occurs."""
    if len(slots) < n_slots:  # with many relations, a count of every slot for every slot would be their square
        few, times = np.unique(slots, return_counts=True)
        return few.astype(np.int64), times.astype(np.int64)
    counts = np.bincount(slots, minlength=n_slots)
    found = np.flatnonzero(counts)
    return found, counts[found].astype(np.int64)
