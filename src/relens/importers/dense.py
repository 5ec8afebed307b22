"""Dense arrays of ranks or scores, packed a few rows at a time under a memory budget; all values are checked."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from relens.data.candidates import Rows
from relens.errors import RanksError
from relens.files import open_npy
from relens.packs.kernels import within
from relens.packs.pack import PackedBlock, PackedRanks, PackHeader
from relens.packs.packing import (
    fit_gap_scales,
    float_dtype,
    pack_ranks,
    pack_scores,
    rank_dtype,
    rerank,
    scale_rows,
    unsigned_dtype,
)
from relens.packs.store import PackWriter, assemble, load_pack
from relens.progress import SILENT, Advance, Progress
from relens.ranking.competition import Exclusions
from relens.ranking.memory import MEMORY_BUDGET

Kind = Literal["ranks", "scores"]
Fill = Callable[[npt.NDArray[Any]], None]
"""Fills an array (b, C) with the next b rows, in their own type."""

_TILE_BYTES = 2**22  # a thread packs this much at once: it stays in the processor's cache
_READ_BYTES = 2**18  # a thread reads at least this much of one model, however many models share a tile
_TASK_BYTES = 2**26  # a thread reads this much for one block: handing blocks over stays cheap


@dataclass(frozen=True)
class Matrix:
    """The values of one model for Q queries and C candidates, read a few rows at a time.

    Attributes:
        place: the file, or the name that messages show.
        shape: (Q, C).
        dtype: the type of the values.
        file_columns: columns of a row as the user sees it; more than C where a row holds several queries.
        rows: returns the rows begin..end, as a view where possible.
        file: the file that holds the rows one after the other, and their first byte; None where there is no such file.
        pick: returns the rows at some positions (n,), where that costs less than one after the other.
    """

    place: str
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    file_columns: int
    rows: Callable[[int, int], npt.NDArray[Any]]
    file: tuple[Path, int] | None = None
    pick: Callable[[npt.NDArray[np.int64]], npt.NDArray[Any]] | None = None

    @classmethod
    def from_array(cls, place: str, values: npt.NDArray[Any], queries_per_row: int = 1) -> Self:
        """Take an array. A row holds the candidates of one query, or of several side by side."""
        if values.ndim != 2 or values.size == 0 or values.shape[1] % queries_per_row:
            raise RanksError(
                f"{place} has shape {values.shape}, expected (queries, candidates)"
                + (f" with a multiple of {queries_per_row} columns" if queries_per_row > 1 else "")
                + ": one row per query, one column per candidate. Save it again in that shape."
            )
        shape = len(values) * queries_per_row, values.shape[1] // queries_per_row
        return cls(place, shape, values.dtype, values.shape[1], partial(_cut_rows, values, queries_per_row))

    @classmethod
    def open(cls, path: Path, queries_per_row: int = 1) -> Self:
        """Take a ``.npy`` file, which is opened only while rows are read."""
        values = open_npy(path)
        matrix = cls.from_array(str(path), values, queries_per_row)
        if isinstance(values, np.memmap) and values.flags.c_contiguous:
            file = path, int(values.offset)
            matrix = replace(matrix, rows=partial(_read_rows, file, values.dtype, matrix.shape[1]), file=file)
        return matrix

    def reading(self, begin: int, end: int) -> AbstractContextManager[Fill]:
        """Open the rows begin..end. The context yields a function that fills arrays (b, C) with the next b rows."""
        if self.file is None:
            return _cutting(self.rows(begin, end))
        return _reading(self.file, begin * self.row_bytes)

    @property
    def row_bytes(self) -> int:
        """Size of the values of one query."""
        return self.shape[1] * self.dtype.itemsize

    def where(self, row: int, column: int) -> str:
        """Name the place of a value of the (Q, C) array in the user's file."""
        file_row, file_column = divmod(row * self.shape[1] + column, self.file_columns)
        return f"{self.place}, row {file_row}, column {file_column}"


def _cut_rows(values: npt.NDArray[Any], queries_per_row: int, begin: int, end: int) -> npt.NDArray[Any]:
    first, last = begin // queries_per_row, -(-end // queries_per_row)
    rows = values[first:last].reshape((last - first) * queries_per_row, -1)
    return rows[begin - first * queries_per_row : end - first * queries_per_row]


@contextmanager
def _cutting(rows: npt.NDArray[Any]) -> Iterator[Fill]:
    at = 0

    def fill(out: npt.NDArray[Any]) -> None:
        nonlocal at
        out[...] = rows[at : at + len(out)]
        at += len(out)

    yield fill


@contextmanager
def _reading(source: tuple[Path, int], n_before: int) -> Iterator[Fill]:
    # Read, not mapped: copying cached pages is cheaper than mapping each of them.
    path, offset = source
    with path.open("rb", buffering=0) as file:
        file.seek(offset + n_before)

        def fill(out: npt.NDArray[Any]) -> None:
            if file.readinto(out.data) != out.nbytes:
                raise RanksError(f"{path} has become shorter while it was being read. Write it again.")

        yield fill


def _read_rows(
    source: tuple[Path, int], dtype: np.dtype[Any], n_columns: int, begin: int, end: int
) -> npt.NDArray[Any]:
    rows = np.empty((end - begin, n_columns), dtype=dtype)
    with _reading(source, begin * n_columns * dtype.itemsize) as fill:
        fill(rows)
    return rows


@dataclass(frozen=True)
class Dense:
    """The ranks or scores of a split, before they are packed.

    Attributes:
        header: models, queries and the other facts of the pack.
        kind: whether the values are ranks or scores.
        matrices: one per model of the header.
        answer_column: the column of the answer of each query, (Q,).
        excluded: returns the columns that do not compete for the queries at some rows; None where all columns
            compete, and ranks are taken as they are.
        serial: rows are computed when they are read: read them in order, in one thread.
    """

    header: PackHeader
    kind: Kind
    matrices: Sequence[Matrix]
    answer_column: npt.NDArray[np.integer[Any]]
    excluded: Callable[[Rows], Exclusions] | None = None
    serial: bool = False

    @property
    def n_columns(self) -> int:
        """C."""
        return self.matrices[0].shape[1]


def pack_dense(
    dense: Dense,
    path: Path | None = None,
    *,
    memory_budget: int = MEMORY_BUDGET,
    jobs: int = 2,
    progress: Progress = SILENT,
) -> PackedRanks:
    """Check and pack all queries, into a store at ``path`` if given, else in memory.

    Beyond ``memory_budget`` bytes, packing takes a constant, at least one query per thread and, without ``path``, the
    result.
    """
    check_shapes(dense)
    header = dense.header
    with progress.task(f"packing {header.provenance.split}", len(header.queries)) as advance:
        blocks = _blocks(dense, memory_budget, 1 if dense.serial else jobs, advance)
        if path is None:
            return assemble(header, blocks)
        with PackWriter.open(path, header, dense.n_columns) as writer:
            for block in blocks:
                writer.append(block)
    return load_pack(path)


def fit_scales(dense: Dense) -> npt.NDArray[np.float64]:
    """Return the scales of score gaps, (N,), from an even sample of the queries of valid."""
    check_shapes(dense)
    rows = scale_rows(len(dense.header.queries))
    sample = []
    for matrix in dense.matrices:
        if matrix.pick is None:
            picked = np.concatenate([matrix.rows(row, row + 1) for row in rows.tolist()])
        else:
            picked = matrix.pick(rows)
        for row, values in zip(rows.tolist(), picked, strict=True):
            check_scores(matrix, values[None], row)
        sample.append(picked)
    excluded = None if dense.excluded is None else dense.excluded(rows)
    return fit_gap_scales(sample, dense.answer_column[rows], excluded)


def with_scales(dense: Dense, scales: npt.NDArray[np.float64] | None) -> Dense:
    """Return the same scores, to be packed with gaps of these scales (N,)."""
    return replace(dense, header=replace(dense.header, gap_scales=scales))


def check_shapes(dense: Dense) -> None:
    """Raise an error for matrices that do not fit each other, the models or the queries."""
    n_queries, split = len(dense.header.queries), dense.header.provenance.split
    if not n_queries or not dense.matrices:
        found = f"{len(dense.matrices)} arrays and {n_queries} queries"
        raise RanksError(f"nothing to pack for {split}: found {found}, expected some of each.")
    check_columns(dense.matrices)
    for matrix in dense.matrices:
        if matrix.dtype.kind not in ("iuf" if dense.kind == "ranks" else "f") or matrix.dtype.itemsize > 8:
            expected = "whole numbers" if dense.kind == "ranks" else "float16, float32 or float64"
            remedy = ": use .astype('float32')" if dense.kind == "scores" and matrix.dtype.kind in "iub" else ""
            raise RanksError(f"{matrix.place} holds {matrix.dtype}, expected {dense.kind} as {expected}{remedy}")
        if matrix.shape[0] != n_queries:
            raise RanksError(
                f"{matrix.place} has rows for {matrix.shape[0]} queries, the query list of {split} has "
                f"{n_queries}: expected one row per query, in the same order."
            )
    beyond = np.flatnonzero((dense.answer_column < 0) | (dense.answer_column >= dense.n_columns))
    if len(beyond):
        raise RanksError(
            f"the answer of query {beyond[0]} (counted from 0) is candidate {dense.answer_column[beyond[0]]}, but the "
            f"files have columns 0 to {dense.n_columns - 1}: the query list and the {dense.kind} belong to different "
            f"data sets."
        )


def check_columns(matrices: Sequence[Matrix]) -> None:
    """Raise an error for matrices with different numbers of candidates."""
    first = matrices[0]
    for matrix in matrices:
        if matrix.shape[1] != first.shape[1]:
            raise RanksError(
                f"{matrix.place} has {matrix.file_columns} columns, {first.place} has {first.file_columns}: expected "
                f"the same candidates for every model and split. Export them again from the same data set."
            )


def _blocks(dense: Dense, memory_budget: int, jobs: int, advance: Advance) -> Iterator[PackedBlock]:
    """Pack in tasks of consecutive rows, in order, as many at a time as the budget allows."""
    n_queries = len(dense.header.queries)
    at_once = 2 * jobs
    size = _task_rows(dense, memory_budget // at_once)
    with ThreadPoolExecutor(jobs) as pool:
        tasks = (
            pool.submit(_pack_rows, dense, begin, min(begin + size, n_queries)) for begin in range(0, n_queries, size)
        )
        # One fewer than fit: a block is handed over while the next ones are being packed.
        waiting = deque(islice(tasks, at_once - 1))
        while waiting:
            block = waiting.popleft().result()
            waiting.extend(islice(tasks, 1))
            yield block
            advance(len(block.counts))


def _task_rows(dense: Dense, n_bytes: int) -> int:
    """Return how many rows a task may hold: their values, and twice (for joining) all contested ranks they can have."""
    row_read = sum(matrix.row_bytes for matrix in dense.matrices)
    stored = rank_dtype(dense.n_columns).itemsize + (0 if dense.header.gap_scales is None else 4)
    row_held = row_read + 2 * stored * len(dense.matrices) * dense.n_columns
    return max(1, min(n_bytes // row_held, _TASK_BYTES // row_read))


def _pack_rows(dense: Dense, begin: int, end: int) -> PackedBlock:
    """Pack the queries begin..end, a tile at a time."""
    return PackedBlock.join([_pack_tile(dense, tile, rows) for rows, tile in _tiles(dense, begin, end)])


def _tiles(dense: Dense, begin: int, end: int) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
    """Yield the checked values of the queries begin..end, (N, b, C), a few at a time, in memory that is reused."""
    matrices, n_columns = dense.matrices, dense.n_columns
    ranks = dense.kind == "ranks"
    dtype = unsigned_dtype(n_columns) if ranks else float_dtype(matrix.dtype for matrix in matrices)
    bytes_of = [matrix.row_bytes for matrix in matrices]
    size = min(end - begin, max(1, _TILE_BYTES // sum(bytes_of), _READ_BYTES // max(bytes_of)))
    room = np.empty(len(matrices) * size * n_columns, dtype=dtype)
    with ExitStack() as stack:
        fills = [stack.enter_context(matrix.reading(begin, end)) for matrix in matrices]
        for first in range(begin, end, size):
            last = min(first + size, end)
            tile = room[: len(matrices) * (last - first) * n_columns].reshape(len(matrices), last - first, n_columns)
            for matrix, fill, out in zip(matrices, fills, tile, strict=True):
                values = out if matrix.dtype == dtype else np.empty(out.shape, dtype=matrix.dtype)
                fill(values)
                _CHECKS[dense.kind](matrix, values, first)
                if values is not out:
                    np.copyto(out, values, casting="unsafe")
            yield slice(first, last), tile


def _pack_tile(dense: Dense, tile: npt.NDArray[Any], rows: slice) -> PackedBlock:
    answer_column = dense.answer_column[rows]
    excluded = None if dense.excluded is None else dense.excluded(rows)
    if dense.kind == "scores":
        return pack_scores(tile, answer_column, excluded, dense.header.gap_scales)
    return pack_ranks(tile, answer_column) if excluded is None else rerank(tile, answer_column, excluded)


def check_ranks(matrix: Matrix, values: npt.NDArray[Any], first_row: int) -> None:
    """Raise an error for values (b, C) that are not whole numbers from 1 to C."""
    most = values.shape[1]
    if values.dtype in (np.uint16, np.uint32):
        fine = within(values, most)
    else:
        # The extremes need no memory, and NaN is both extremes of its array.
        fine = values.min() >= 1 and values.max() <= most
        fine = fine and (values.dtype.kind != "f" or (np.rint(values) == values).all())
    if fine:
        return
    bad = ~((values >= 1) & (values <= most) & (np.rint(values) == values))
    row, column = np.argwhere(bad)[0].tolist()
    value = values[row, column]
    remedy = "Export the ranks again."
    if value == 0:
        remedy = "Ranks count from 1: add 1 if these count from 0."
    elif value > most:
        remedy = "Ranks and candidates must come from the same data set."
    elif values.dtype.kind == "f":
        remedy = "If these are scores, import them as scores."
    raise RanksError(
        f"{matrix.where(first_row + row, column)}: found rank {value}, expected a whole number from 1 to {most}. "
        f"{remedy}"
    )


def check_scores(matrix: Matrix, values: npt.NDArray[Any], first_row: int) -> None:
    """Raise an error for values (b, C) that are not finite."""
    if np.isfinite(values.min()) and np.isfinite(values.max()):
        return
    row, column = np.argwhere(~np.isfinite(values))[0].tolist()
    raise RanksError(
        f"{matrix.where(first_row + row, column)}: found score {values[row, column]}, expected a finite number. "
        f"Let relens filter known answers instead of masking their scores, and check that training did not diverge."
    )


_CHECKS: dict[Kind, Callable[[Matrix, npt.NDArray[Any], int], None]] = {"ranks": check_ranks, "scores": check_scores}
