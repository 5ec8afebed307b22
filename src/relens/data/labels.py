"""Millions of labels as bytes: a sequence of texts that takes little more memory than a file of them."""

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any, Self, overload

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
_NEWLINE = ord("\n")


class Labels(Sequence[str]):
    """Labels without line ends; equal to a tuple of the same texts.

    Attributes:
        content: the labels in UTF-8, each followed by a line end, (m,) uint8.
        offsets: label i is ``content[offsets[i]:offsets[i + 1] - 1]``, (n + 1,) int64.
    """

    def __init__(self, content: Bytes, offsets: Offsets) -> None:
        self.content, self.offsets = content, offsets

    @classmethod
    def from_content(cls, content: bytes | Bytes) -> Self:
        """Build from labels in UTF-8, each followed by a line end."""
        array = np.frombuffer(content, dtype=np.uint8) if isinstance(content, bytes) else content
        ends = np.flatnonzero(array == _NEWLINE)
        return cls(array, np.concatenate([[0], ends + 1]).astype(np.int64))

    @classmethod
    def from_texts(cls, labels: Collection[str]) -> Self:
        """Build from texts without line ends."""
        return cls.from_content(b"".join(label.encode("utf-8", "surrogatepass") + b"\n" for label in labels))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        """Return a label, or a tuple of labels."""
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        if not -len(self) <= index < len(self):
            raise IndexError(f"label {index} of {len(self)}")
        at = index % len(self)
        return bytes(self.content[self.offsets[at] : self.offsets[at + 1] - 1].data).decode("utf-8")

    def __iter__(self) -> Iterator[str]:
        return iter(self.content.tobytes().decode("utf-8").split("\n")[:-1])

    def __contains__(self, label: object) -> bool:
        return isinstance(label, str) and int(self.find([label])[0]) >= 0

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Labels):
            return bool(np.array_equal(self.content, other.content))
        return tuple(self) == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return Labels, (self.content, self.offsets)  # without the look-up, which is made again where it is needed

    def find(self, labels: Collection[str]) -> npt.NDArray[np.int32]:
        """Return the places of n labels, (n,) int32; −1 for labels that are not here."""
        from relens.data.label_kernels import find_labels

        asked = Labels.from_texts([label if "\n" not in label else "\t" for label in labels])
        ids = np.empty(len(asked), dtype=np.int32)
        find_labels(self._slots[0], self.content, self.offsets, asked.content, asked.offsets, ids)
        return ids

    @property
    def repeated(self) -> str | None:
        """The first label that occurred before; None if all differ."""
        place = self._slots[1]
        return None if place < 0 else self[place]

    @property
    def invalid(self) -> str | None:
        """The first label that is blank, or has a tab or a carriage return; None if there is none."""
        from relens.data.label_kernels import first_invalid

        place = int(first_invalid(self.content, self.offsets))
        return None if place < 0 else self[place]

    @cached_property
    def _slots(self) -> tuple[npt.NDArray[np.int64], int]:
        """A hash table of the labels, and the place of the first one that occurred before, or −1."""
        return hash_slots(self.content, self.offsets, len(self))

    def order(self) -> npt.NDArray[np.int64]:
        """Return the places of the labels in sorted order, (n,). Bytes of UTF-8 sort as texts do."""
        from relens.data.label_kernels import WORD, sort_keys

        order = np.arange(len(self))
        open_places = order.copy()  # places in the order that are not decided yet
        part = np.zeros(len(self), dtype=np.int64)  # labels of one part begin alike
        skip = 0
        while len(open_places):
            labels = order[open_places]
            keys = np.empty(len(labels), dtype=np.int64)
            sort_keys(self.content, self.offsets, labels, skip, keys)
            skip += WORD
            if keys.min() == keys.max() and (keys[0] & WORD) == WORD:
                continue  # they all go on alike
            sorting = np.lexsort((keys, part)) if part[-1] else np.argsort(keys, kind="stable")
            order[open_places] = labels[sorting]
            keys, part = keys[sorting], part[sorting]
            new = np.append(True, (keys[1:] != keys[:-1]) | (part[1:] != part[:-1]))
            alone = new & np.append(new[1:], True)
            part = np.cumsum(new)[~alone]
            open_places = open_places[~alone]
        return order

    def taken(self, places: npt.NDArray[np.int64]) -> "Labels":
        """Return the labels at some places, in their order."""
        from relens.data.label_kernels import gather_labels

        lengths = np.diff(self.offsets)[places]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        content = np.empty(offsets[-1], dtype=np.uint8)
        gather_labels(self.content, self.offsets, places, content)
        return Labels(content, offsets)


def hash_slots(content: Bytes, offsets: Offsets, count: int, n_slots: int = 2**12) -> tuple[npt.NDArray[np.int64], int]:
    """Enter ``count`` labels into a hash table with ``n_slots`` slots, or as many more as they need.

    Returns:
        the slots, see ``relens.data.label_kernels``, and the first label that occurred before, or −1.
    """
    from relens.data.label_kernels import EMPTY, fill_slots, is_full

    while is_full(count, n_slots):
        n_slots *= 2
    slots = np.full(n_slots, EMPTY, dtype=np.int64)
    return slots, int(fill_slots(slots, content, offsets, count))
