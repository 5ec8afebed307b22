"""Pairs: the data of a search. For some queries, each contested candidate's advantage over the answer, per model."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from relens.compiled import njit
from relens.ensemble.inputs.base import Input
from relens.packs.pack import PackedRanks
from relens.packs.thinning import ContestedView


@dataclass(frozen=True)
class Pairs:
    """The (answer, contested candidate) pairs of n queries, K in all.

    Attributes:
        advantage: (N, K) int32, positive where the model puts the candidate ahead of the answer.
        offsets: pairs of query q are ``offsets[q]:offsets[q + 1]``, (n + 1,) int64.
        floor: doubled rank of the answer with no contested candidate ahead, (n,) int64.
        multiplicity: candidates a pair stands for, (K,) int32.
    """

    advantage: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    floor: npt.NDArray[np.int64]
    multiplicity: npt.NDArray[np.int32]

    @property
    def n_queries(self) -> int:
        """The number of queries n."""
        return len(self.floor)

    @property
    def n_pairs(self) -> int:
        """K."""
        return int(self.offsets[-1])

    @classmethod
    def gather(cls, packed: PackedRanks, view: ContestedView, queries: npt.NDArray[np.int64], input: Input) -> "Pairs":
        """Gather the candidates that ``view`` keeps for the queries at ``queries`` (n,)."""
        counts = view.offsets[queries + 1] - view.offsets[queries]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        multiplicity = np.ones(offsets[-1], dtype=np.int32)
        if view.multiplicity is not None:
            _copy(view.multiplicity, view.offsets, queries, offsets, multiplicity)
        advantage = np.empty((packed.n_models, offsets[-1]), dtype=np.int32)
        values, answers, table, sign = input.operands(packed)
        answer = np.take(answers, queries, axis=1).astype(np.int32)
        for model, out in enumerate(advantage):
            _advantages(values[model], answer[model], view.offsets, view.rows, queries, offsets, table, sign, out)
        floor = 2 * (1 + packed.always_ahead[queries].astype(np.int64))
        return cls(advantage, offsets, floor, multiplicity)


@njit()
def _copy(values, source, queries, offsets, out):  # type: ignore[no-untyped-def]
    """Copy the values of the queries, one query after the other."""
    for q in range(len(queries)):
        out[offsets[q] : offsets[q + 1]] = values[source[queries[q]] : source[queries[q] + 1]]


@njit()
def _advantages(values, answer, source, rows, queries, offsets, table, sign, advantage):  # type: ignore[no-untyped-def]
    """Fill one model's advantages: ``sign`` times (the candidate's value, or cost by ``table``, minus the answer's)."""
    sign = np.int32(sign)
    for q in range(len(queries)):
        begin, end = source[queries[q]], source[queries[q] + 1]
        mine = advantage[offsets[q] : offsets[q + 1]]
        own = answer[q] if table is None else table[answer[q]]
        if rows is None:
            whole = values[begin:end]
            for k in range(len(mine)):
                mine[k] = sign * (np.int32(whole[k] if table is None else table[whole[k]]) - own)
        else:
            listed = rows[begin:end]
            for k in range(len(mine)):
                value = values[listed[k]]
                mine[k] = sign * (np.int32(value if table is None else table[value]) - own)
