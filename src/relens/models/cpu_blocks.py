"""Distances of projected blocks on a CPU without gradients: the same to the last bit in every batch.

‖v − M·x‖² is ‖v‖² − 2·⟨Mᵀv, x⟩ + ‖M·x‖². The last term does not depend on the query, only on its matrices, and is kept
for those that were used last. Then the cost of a query is about that of a dot product.
"""

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from relens.models import cpu

KEPT = 1 << 29
"""Bytes of the norms that are kept, and of the table in tiles; tables that take more are read in pieces."""

Reals = npt.NDArray[np.float32]


class KeptNorms:
    """The table of a model in tiles, and the norms of its blocks by the matrices that were used last."""

    def __init__(self) -> None:
        self._tiles: Reals | None = None
        self._norms: Reals | None = None
        self._slots: OrderedDict[int, int] = OrderedDict()  # by number of the matrices, the last used one at the end

    def of(self, matrices: Tensor, group: list[int], table: Tensor) -> tuple[Reals, Reals, list[int]]:
        """Return tiles (T, c, K, WIDTH), norms (S, c, T·WIDTH), and the slot of each distinct group among them.

        There are at most ``room`` groups.
        """
        if self._tiles is None or self._norms is None:
            self._tiles = _tiled(table, matrices.shape[1])
            shape = self.room(matrices, len(table)), matrices.shape[1], _padded(len(table))
            self._norms = np.empty(shape, np.float32)
        for number in group:  # those that are needed now are the last to be overwritten
            if number in self._slots:
                self._slots.move_to_end(number)
        missing = [number for number in group if number not in self._slots]
        for number in missing:
            full = len(self._slots) == len(self._norms)
            self._slots[number] = self._slots.popitem(last=False)[1] if full else len(self._slots)
        if missing:
            _square(matrices, missing, self._tiles, self._norms, [self._slots[number] for number in missing])
        return self._tiles, self._norms, [self._slots[number] for number in group]

    def room(self, matrices: Tensor, n_rows: int) -> int:
        """Return the number of groups whose norms are kept, for a table of n rows; 0 if it is read in pieces."""
        tiles = 4 * _padded(n_rows) * matrices.shape[1] * _filled(matrices.shape[2])
        norms = 4 * _padded(n_rows) * matrices.shape[1]
        return 0 if tiles > KEPT else min(len(matrices), KEPT // norms)


def block_distance(
    vector: Tensor,
    matrices: Tensor,
    group: Tensor,
    table: Tensor,
    candidates: Tensor | None,
    kept: KeptNorms | None = None,
) -> Tensor:
    """Return Σᵢ ‖vᵢ − Mᵢ·xᵢ‖, (B, E) or (B, P); see ``relens.models.distance.block_distance``.

    ``kept`` belongs to these matrices and this table.
    """
    if candidates is not None:
        n = len(candidates)
        chunks = zip(vector.chunk(n), group.chunk(n), candidates, strict=True)
        return torch.cat([block_distance(part, matrices, own, table[ids], None) for part, own, ids in chunks])
    distinct, place = torch.unique(group, return_inverse=True)
    queries = _turned(vector, matrices[distinct], place)
    numbers, of_query = distinct.tolist(), cpu.array(place)
    out = np.empty((len(vector), len(table)), np.float32)
    room = kept.room(matrices, len(table)) if kept is not None else 0
    if kept is not None and len(numbers) <= room:
        tiles, norms, slots = kept.of(matrices, numbers, table)
        _compare(queries, norms, np.array(slots)[of_query], tiles, out)
        return torch.from_numpy(out)
    step = max(1, KEPT // (4 * matrices.shape[1] * (_filled(matrices.shape[2]) + len(numbers))))
    for begin in range(0, len(table), step):
        tiles = _tiled(table[begin : begin + step], matrices.shape[1])
        norms = np.empty((len(numbers), matrices.shape[1], len(tiles) * tiles.shape[3]), np.float32)
        _square(matrices, numbers, tiles, norms, range(len(numbers)))
        part = np.empty((len(out), min(step, len(table) - begin)), np.float32)
        _compare(queries, norms, of_query, tiles, part)
        out[:, begin : begin + step] = part
    return torch.from_numpy(out)


def _turned(vector: Tensor, matrices: Tensor, place: Tensor) -> tuple[Reals, Reals]:
    """Return vectors (B, c·k) multiplied with transposed matrices (G, c, k, k), and their squares; see the kernel."""
    from relens.models import cpu_kernels

    n_blocks, k = matrices.shape[1:3]
    turned = np.zeros((n_blocks, _filled(len(vector)), _filled(k)), np.float32)
    squares = np.empty((n_blocks, len(vector)), np.float32)
    blocks = cpu.array(vector).reshape(len(vector), n_blocks, k)
    cpu_kernels.turn(blocks, cpu.array(matrices), cpu.array(place), turned, squares)
    return turned, squares


def _square(matrices: Tensor, numbers: Sequence[int], tiles: Reals, norms: Reals, slots: Sequence[int]) -> None:
    """Fill ``slots`` of ``norms`` (S, c, T·WIDTH) with ‖M·x‖² of all rows, for some of the matrices (G, c, k, k)."""
    from relens.models import cpu_kernels

    missing = tiles.shape[2] - matrices.shape[2]
    forms = torch.nn.functional.pad(torch.stack([_form(matrices[number]) for number in numbers]), (0, missing) * 2)
    work = partial(cpu_kernels.square_blocks, cpu.array(forms), np.array(slots), tiles, norms)
    cpu.in_parts(work, len(tiles), len(numbers) * tiles.size * tiles.shape[2])


def _form(matrices: Tensor) -> Tensor:
    """Return MᵀM of matrices (c, k, k) as the kernel reads it: twice as much above the blocks on the diagonal."""
    from relens.models import cpu_kernels

    block = torch.arange(matrices.shape[1]) // cpu_kernels.STEP
    twice = 1 + (block[:, None] < block).to(matrices.dtype)
    return twice * (matrices.transpose(1, 2) @ matrices)


def _compare(queries: tuple[Reals, Reals], norms: Reals, slot: "npt.NDArray[Any]", tiles: Reals, out: Reals) -> None:
    """Fill ``out`` (B, E) with distances."""
    from relens.models import cpu_kernels

    work = partial(cpu_kernels.compare_blocks, queries, norms, slot, tiles, out)
    cpu.in_parts(work, len(tiles), len(out) * tiles.size)


def _tiled(table: Tensor, n_blocks: int) -> Reals:
    """Return a table (E, c·k) in tiles (T, c, K, WIDTH), filled up with zeros."""
    from relens.models import cpu_kernels

    k = table.shape[1] // n_blocks
    rows = np.pad(cpu.array(table), ((0, _padded(len(table)) - len(table)), (0, 0)))
    tiles = rows.reshape(-1, cpu_kernels.WIDTH, n_blocks, k).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(np.pad(tiles, ((0, 0), (0, 0), (0, _filled(k) - k), (0, 0))))


def _padded(n_rows: int) -> int:
    from relens.models import cpu_kernels

    return n_rows + -n_rows % cpu_kernels.WIDTH


def _filled(n: int) -> int:
    from relens.models import cpu_kernels

    return n + -n % cpu_kernels.STEP
