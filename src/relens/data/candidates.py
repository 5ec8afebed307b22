"""Candidates: a fixed list of entities per query that compete with the answer, in place of all entities.

On disk, candidates are one array per split and a record that names the data set they belong to.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.queries import DIRECTIONS, EVALUATED, Queries
from relens.errors import DatasetError
from relens.files import open_npy
from relens.records import CANDIDATES

RECORD = "candidates.json"
PADDING = -1
"""Fills the end of a row with fewer negatives than the longest row."""
Rows = slice | npt.NDArray[np.integer[Any]]
"""A selection of queries: a range, or an array of query numbers."""
_ROWS = 2**14


@dataclass(frozen=True, eq=False)
class Candidates:
    """The negatives of Q queries. The candidates of a query are its answer and its negatives.

    Attributes:
        negatives: distinct entity ids, (Q, c) int32, with ``PADDING`` at the end of shorter rows; memory-mapped if
            they come from a file.
        source: origin of the negatives, as text.
        filter_splits: splits whose known answers are guaranteed not to be among the negatives.
    """

    negatives: npt.NDArray[np.int32]
    source: str
    filter_splits: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.negatives)

    @property
    def digest(self) -> str:
        """A short digest of the negatives."""
        return sha256(np.ascontiguousarray(self.negatives).data).hexdigest()[:16]

    @property
    def per_query(self) -> int:
        """The largest number c of negatives per query."""
        return int(self.negatives.shape[1])

    @property
    def n_columns(self) -> int:
        """The number of columns of ``columns``: one for the answer and one per negative."""
        return self.per_query + 1

    def columns(self, rows: Rows, answer: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return the candidates of the b queries ``rows``, their answers (b,) first, as (b, c + 1) int32.

        The answer replaces padding; ``absent`` returns these places.
        """
        negatives = self.negatives[rows]
        return np.column_stack([answer, np.where(negatives == PADDING, answer[:, None], negatives)])

    def absent(self, rows: Rows) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the columns without a candidate for the b queries ``rows``, as offsets (b + 1,) and columns."""
        padding = self.negatives[rows] == PADDING
        row, column = np.nonzero(padding)
        counts = np.bincount(row, minlength=len(padding))
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), column + 1

    def short_queries(self) -> npt.NDArray[np.int64]:
        """Return the numbers of the queries with fewer negatives than ``per_query``."""
        if not self.per_query:
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(self.negatives[:, -1] == PADDING)


def check_candidates(
    negatives: npt.NDArray[Any], queries: Queries, n_entities: int, where: str, *, keep_repeats: bool = False
) -> None:
    """Raise an error unless negatives (Q, c) can be the candidates of Q queries. The error names the first bad query.

    Args:
        negatives: entity ids.
        queries: the queries with the answers that the negatives compete with.
        n_entities: upper bound of the ids, exclusive.
        where: the name of the negatives in error messages.
        keep_repeats: allow an entity twice in a row, and the answer among the negatives; each occurrence counts.
    """
    if negatives.ndim != 2 or len(negatives) != len(queries):
        raise DatasetError(
            f"{where} has shape {negatives.shape}, expected ({len(queries)}, negatives): a row per query, both "
            f"directions of every triple. Make the candidates for this data set."
        )
    for begin in range(0, len(queries), _ROWS):
        rows = np.asarray(negatives[begin : begin + _ROWS])
        block = queries[begin : begin + _ROWS]
        for fault, at, remedy in _faults(rows, block.answer, n_entities, keep_repeats=keep_repeats):
            query = f"query {begin + at} (triple {block.triple[at]}, {DIRECTIONS[block.direction[at]]})"
            raise DatasetError(f"{where}, {query}: {fault}. {remedy}")


def _faults(
    rows: npt.NDArray[Any], answer: npt.NDArray[np.int32], n_entities: int, *, keep_repeats: bool
) -> Iterator[tuple[str, int, str]]:
    """Yield each fault of negatives (b, c), with its row and a remedy."""
    blank = rows == PADDING
    strange = ~blank & ((rows < 0) | (rows >= n_entities))
    if strange.any():
        at = int(strange.any(axis=1).argmax())
        entity = rows[at][strange[at]][0]
        yield f"found entity {entity}, expected 0 to {n_entities - 1}", at, "They belong to another data set."
    gap = (blank[:, :-1] & ~blank[:, 1:]).any(axis=1)
    if gap.any():
        yield f"found {PADDING} before a negative", int(gap.argmax()), "Pad rows at the end only."
    if keep_repeats:
        return
    remedy = (
        "Remove it; or, for OGB's own files, count it as OGB does with `keep_repeats=True` "
        "(`relens data get NAME --keep-repeats`)."
    )
    own = (rows == answer[:, None]).any(axis=1)
    if own.any():
        at = int(own.argmax())
        yield f"the answer, entity {answer[at]}, is among the negatives", at, remedy
    ordered = np.sort(rows, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != PADDING)
    if twice.any():
        at = int(twice.any(axis=1).argmax())
        entity = ordered[at, 1:][twice[at]][0]
        yield f"entity {entity} occurs more than once among the negatives", at, remedy


def array_file(split: str) -> str:
    """Return the name of the file with the negatives of a split."""
    return f"{split}_candidates.npy"


def write_candidates(candidates: Mapping[str, Candidates], identity: Mapping[str, str], folder: Path) -> None:
    """Write candidates by split into a folder, the record last. ``identity`` is ``Dataset.identity``."""
    for split, chosen in candidates.items():
        np.save(folder / array_file(split), np.asarray(chosen.negatives, dtype="<i4"), allow_pickle=False)
    splits = {
        split: {
            "shape": list(chosen.negatives.shape),
            "source": chosen.source,
            "filter_splits": list(chosen.filter_splits),
        }
        for split, chosen in candidates.items()
    }
    CANDIDATES.write(folder / RECORD, {**identity, "splits": splits})


def read_candidates(
    folder: Path, identity: Mapping[str, str], queries: Mapping[str, Queries], n_entities: int
) -> dict[str, Candidates]:
    """Read the candidates of valid and test from a folder, by split.

    Args:
        folder: a folder that ``write_candidates`` filled.
        identity: ``Dataset.identity`` of the data set; candidates of other data raise an error.
        queries: the queries of valid and test.
        n_entities: number of entities of the data set.
    """
    record = CANDIDATES.read(folder / RECORD)
    for key, expected in identity.items():
        if key != "dataset" and record.get(key) != expected:
            raise DatasetError(
                f"{folder} has candidates for {record.get('dataset')!r} ({key} {record.get(key)}), not for "
                f"{identity['dataset']!r} ({key} {expected}). {CANDIDATES.remedy}"
            )
    with CANDIDATES.parsing(str(folder / RECORD)):
        candidates = {
            split: Candidates(open_npy(folder / array_file(split)), facts["source"], tuple(facts["filter_splits"]))
            for split, facts in record["splits"].items()
        }
        shapes = {split: tuple(facts["shape"]) for split, facts in record["splits"].items()}
    for split in EVALUATED:
        if split not in candidates:
            raise DatasetError(
                f"{folder} has no candidates of {split}: expected candidates of valid and test. {CANDIDATES.remedy}"
            )
    for split, chosen in candidates.items():
        file = folder / array_file(split)
        if chosen.negatives.shape != shapes[split] or chosen.negatives.dtype != np.int32:
            found = f"{chosen.negatives.shape} of {chosen.negatives.dtype}"
            raise DatasetError(
                f"{file} has shape {found}, but its record says {shapes[split]} of int32. {CANDIDATES.remedy}"
            )
        check_candidates(chosen.negatives, queries[split], n_entities, str(file))
    return candidates
