"""Labels and their ids."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, repeat
from typing import Self

import numpy as np
import numpy.typing as npt

from relens.data.labels import Labels
from relens.errors import DatasetError, nearest

TABLE_BREAKERS = frozenset("\t\n\r")
MOST_TEXTS = 500_000
"""More labels than this are kept as bytes: texts and a dictionary of them take six times the memory."""
COMPARED = 100_000
"""The most labels that an unknown label is compared with, to suggest similar ones."""


@dataclass(frozen=True)
class Vocabulary:
    """Labels and their ids: the id of a label is its position in ``labels``.

    ``kind`` is ``entity`` or ``relation``; error messages use it. ``labels`` is a tuple, or ``Labels`` where there are
    millions.
    """

    kind: str
    labels: Sequence[str]

    def __post_init__(self) -> None:
        if (twice := self._repeated()) is not None:
            raise DatasetError(f"the {self.kind} {twice!r} occurs twice in a vocabulary: labels must be distinct")
        if (label := self._invalid()) is not None:
            raise DatasetError(
                f"{label!r} is not a valid {self.kind} label: expected text without tabs and line ends. Rename it."
            )

    @classmethod
    def from_labels(cls, kind: str, labels: Iterable[str]) -> Self:
        """Build from labels in any order, with repeats. Ids follow the sorted labels, not the order of a file."""
        return cls(kind, tuple(sorted(set(labels))))

    @classmethod
    def from_bytes(cls, kind: str, labels: Labels) -> Self:
        """Build from labels in the order of their ids; up to ``MOST_TEXTS`` of them become a tuple."""
        return cls(kind, labels if len(labels) > MOST_TEXTS else tuple(labels))

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, label: object) -> bool:
        return label in (self.labels if isinstance(self.labels, Labels) else self._id_of)

    def id_of(self, label: str) -> int:
        """Return the id of a label. The error for an unknown label lists similar ones."""
        return int(self.ids_of([label])[0])

    def ids_of(self, labels: Collection[str]) -> npt.NDArray[np.int32]:
        """Return the ids of n labels, (n,) int32. The error for an unknown label lists similar ones."""
        ids = self.find(labels)
        if len(ids) and ids.min() < 0:
            label = next(islice(labels, int(ids.argmin()), None))
            raise DatasetError(f"unknown {self.kind} {label!r}; {self.similar_to(label)}")
        return ids

    def find(self, labels: Collection[str]) -> npt.NDArray[np.int32]:
        """Return the ids of n labels, (n,) int32; −1 for unknown ones."""
        if isinstance(self.labels, Labels):
            return self.labels.find(labels)
        return np.fromiter(map(self._id_of.get, labels, repeat(-1)), dtype=np.int32, count=len(labels))

    def similar_to(self, label: str) -> str:
        """Return a hint such as ``did you mean 'likes'?`` for an unknown label."""
        if len(self) <= COMPARED:
            return nearest(label, self.labels)
        # A comparison takes microseconds. Labels are nearly always sorted, so that those around begin alike.
        at = bisect_left(self.labels, label)
        return nearest(label, self.labels[max(at - COMPARED // 2, 0) : at + COMPARED // 2])

    def joined(self, *, in_order: bool = False) -> bytes:
        """Return the labels in UTF-8, each followed by a line end; by id, or in sorted order."""
        if isinstance(self.labels, Labels):
            labels = self.labels.taken(self.labels.order()) if in_order else self.labels
            return labels.content.tobytes()
        texts = sorted(self.labels) if in_order else self.labels
        return "".join(f"{label}\n" for label in texts).encode("utf-8")

    def order(self) -> npt.NDArray[np.int64]:
        """Return the ids in the order of the sorted labels, (n,)."""
        if isinstance(self.labels, Labels):
            return self.labels.order()
        return np.array(sorted(range(len(self)), key=self.labels.__getitem__), dtype=np.int64)

    def sorted_positions(self) -> npt.NDArray[np.int32]:
        """Return the position of each id among the sorted labels, (n,) int32."""
        positions = np.empty(len(self), dtype=np.int32)
        positions[self.order()] = np.arange(len(self), dtype=np.int32)
        return positions

    @cached_property
    def _id_of(self) -> dict[str, int]:
        return {label: number for number, label in enumerate(self.labels)}

    def _repeated(self) -> str | None:
        """Return a label that occurs twice, or None."""
        if isinstance(self.labels, Labels):
            return self.labels.repeated
        return None if len(self._id_of) == len(self.labels) else Counter(self.labels).most_common(1)[0][0]

    def _invalid(self) -> str | None:
        """Return the first label that is blank or would break a table, or None."""
        if isinstance(self.labels, Labels):
            return self.labels.invalid
        wrong = (label for label in self.labels if not label.strip() or not TABLE_BREAKERS.isdisjoint(label))
        return next(wrong, None)
