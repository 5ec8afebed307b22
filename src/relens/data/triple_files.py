"""Read large files of triples: number their labels block by block, without a Python object per line or label."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.labels import Labels, hash_slots
from relens.data.tsv import check_line, read_blocks

Triples = npt.NDArray[np.int32]
_FIRST_SLOTS = 2**12


class Numbering:
    """Labels in the order in which they first occur, and a hash table of them that grows.

    Attributes:
        slots, content, offsets: as in ``relens.data.label_kernels``, with room for more labels.
    """

    def __init__(self) -> None:
        self.content = np.empty(0, dtype=np.uint8)
        self.offsets = np.zeros(1, dtype=np.int64)
        self.slots = np.empty(0, dtype=np.int64)

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """Slots, content and offsets."""
        return self.slots, self.content, self.offsets

    def make_room(self, count: int, n_bytes: int) -> None:
        """Make room for labels of ``n_bytes``, line ends included, after the first ``count`` ones."""
        from relens.data.label_kernels import is_full

        if is_full(count, len(self.slots)):
            self.slots, _ = hash_slots(self.content, self.offsets, count, max(_FIRST_SLOTS, 2 * len(self.slots)))
            more = np.zeros(len(self.slots) - count, dtype=np.int64)
            self.offsets = np.concatenate([self.offsets[: count + 1], more])
        used = int(self.offsets[count])
        if used + n_bytes > len(self.content):
            larger = np.empty(2 * used + n_bytes, dtype=np.uint8)
            larger[:used] = self.content[:used]
            self.content = larger

    def sorted(self, count: int) -> tuple[Labels, npt.NDArray[np.int32]]:
        """Return the labels in sorted order, and the place of each number among them, (count,) int32."""
        labels = Labels(self.content[: self.offsets[count]], self.offsets[: count + 1])
        order = labels.order()
        places = np.empty(count, dtype=np.int32)
        places[order] = np.arange(count, dtype=np.int32)
        return labels.taken(order), places


def read_triples(files: Mapping[str, Path], fields: tuple[str, ...]) -> tuple[Labels, Labels, dict[str, Triples]]:
    """Return the sorted labels of entities and relations, and the triples of each file by id, (n, 3) int32.

    The result, and the error for a file that is not in order, are those of ``relens.data.tsv.read_rows``.

    Args:
        files: files of lines ``head TAB relation TAB tail``, by split.
        fields: the names of the three columns in errors.
    """
    counts, numberings = np.zeros(2, dtype=np.int64), (Numbering(), Numbering())
    parts = {split: _read_file(file, fields, counts, numberings) for split, file in files.items()}
    (entities, entity), (relations, relation) = (
        numbering.sorted(int(count)) for numbering, count in zip(numberings, counts, strict=True)
    )
    places = entity, relation, entity
    triples = {}
    for split in files:
        rows = np.empty((sum(map(len, parts[split])), 3), dtype=np.int32)
        begin = 0
        for part in parts[split]:
            for column, place in enumerate(places):
                rows[begin : begin + len(part), column] = place[part[:, column]]
            begin += len(part)
        triples[split] = rows
    return entities, relations, triples


def _read_file(
    file: Path, fields: tuple[str, ...], counts: npt.NDArray[np.int64], numberings: tuple[Numbering, Numbering]
) -> list[Triples]:
    """Return the triples of a file in parts, with the numbers of their labels; add new labels to the numberings."""
    parts, blocks = [], read_blocks(file)
    for first_line, block in blocks:
        triples, end = _number_block(block, counts, numberings)
        if end < len(block):
            text, line_feed, _ = block[end:].partition(b"\n")
            line = (text.removesuffix(b"\r") if line_feed else text).decode()
            for _ in blocks:  # errors of the encoding, anywhere in a file, come first
                pass
            check_line(file, first_line + block.count(b"\n", 0, end), line, fields)
            raise AssertionError(f"{file}: the compiled reader refuses the line {line!r}, which is in order")
        parts.append(triples)
    return parts


def _number_block(
    block: bytes, counts: npt.NDArray[np.int64], numberings: tuple[Numbering, Numbering]
) -> tuple[Triples, int]:
    """Return the triples of some lines, and where a line begins that is none, or the length of the block."""
    from relens.data.label_kernels import FULL, number_triples

    text = np.frombuffer(block, dtype=np.uint8)
    triples = np.empty((block.count(b"\n") + 1, 3), dtype=np.int32)
    at, row, ended = 0, 0, FULL
    while ended == FULL:
        for numbering, count in zip(numberings, counts.tolist(), strict=True):
            numbering.make_room(count, len(block) + 1)
        entities, relations = (numbering.arrays for numbering in numberings)
        at, row, ended = number_triples(text, at, triples, row, counts, entities, relations)
    return triples[:row], min(at, len(block))
