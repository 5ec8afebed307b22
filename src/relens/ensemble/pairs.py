"""Pairs: what a search looks at. For some queries, each contested candidate's advantage over the answer per model."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from relens.ensemble.inputs import Input, cost_table
from relens.ranks.packed import PackedRanks


@dataclass(frozen=True)
class Pairs:
    """The (answer, contested candidate) pairs of n queries, K in all.

    Attributes:
        advantage: (N, K) int32, positive where the model puts the candidate ahead of the answer.
        offsets: pairs of query q are ``offsets[q]:offsets[q + 1]``, (n + 1,) int64.
        floor: doubled rank of the answer with no contested candidate ahead, (n,) int64.
        multiplicity: candidates a pair stands for, (K,) int32; all 1 unless the pairs are reduced.
        reduced: whether any query's candidates were thinned out.
    """

    advantage: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    floor: npt.NDArray[np.int64]
    multiplicity: npt.NDArray[np.int32]
    reduced: bool

    @property
    def n_models(self) -> int:
        """N."""
        return len(self.advantage)

    @property
    def n_queries(self) -> int:
        """The number of queries n."""
        return len(self.floor)

    @property
    def n_pairs(self) -> int:
        """K."""
        return int(self.offsets[-1])

    @classmethod
    def lossless(cls, packed: PackedRanks, queries: npt.NDArray[np.int64], name: Input) -> "Pairs":
        """Take every contested candidate of the queries at index ``queries`` (n,)."""
        return cls.reduce(packed, queries, name, keep=np.iinfo(np.int64).max // 2, sample=1)

    @classmethod
    def reduce(
        cls, packed: PackedRanks, queries: npt.NDArray[np.int64], name: Input, *, keep: int, sample: int
    ) -> "Pairs":
        """Take at most ``keep`` + ``sample`` candidates of each query; the sample stands for all the others.

        The ``keep`` candidates with the best rank in any model decide the ranks that matter. The rest only tell a
        poor rank from a hopeless one, so every s-th of them, counted s times, serves as well.
        """
        counts = packed.offsets[queries + 1] - packed.offsets[queries]
        stride = np.maximum(1, -(-(counts - keep) // sample))
        kept = np.where(counts <= keep + sample, counts, keep + -(-(counts - keep) // stride))
        offsets = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
        thinned = np.flatnonzero(kept < counts)
        rows = np.empty(int(kept[thinned].sum()), dtype=np.int64)
        multiplicity = np.ones(offsets[-1], dtype=np.int32)
        if len(thinned):
            _thin(packed.contested, packed.offsets, queries, offsets, stride, thinned, keep, rows, multiplicity)
        advantage = np.empty((packed.n_models, offsets[-1]), dtype=np.int32)
        pairs = cls(advantage, offsets, _floor(packed, queries), multiplicity, bool(len(thinned)))
        pairs._look_up(packed, queries, name, rows)
        return pairs

    def _look_up(
        self, packed: PackedRanks, queries: npt.NDArray[np.int64], name: Input, rows: npt.NDArray[np.int64]
    ) -> None:
        """Fill ``advantage``; ``rows`` lists the candidates of the thinned queries one after the other."""
        if name == "score":
            assert packed.gaps is not None  # check_input has refused this pack otherwise
            zero = np.zeros(len(queries), dtype=np.int32)
            for model, out in enumerate(self.advantage):
                _advantages(packed.gaps[model], zero, packed.offsets, queries, self.offsets, rows, None, out)
            return
        table = cost_table(name, int(packed.n_candidates.max(initial=1)))
        for model, out in enumerate(self.advantage):
            answer = packed.answer[model, queries]
            _advantages(packed.contested[model], answer, packed.offsets, queries, self.offsets, rows, table, out)


def _floor(packed: PackedRanks, queries: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    floor: npt.NDArray[np.int64] = 2 * (1 + packed.always_ahead[queries].astype(np.int64))
    return floor


@njit(cache=True, nogil=True)
def _thin(contested, source, queries, offsets, stride, thinned, keep, rows, multiplicity):  # type: ignore[no-untyped-def]
    """List the best candidates of each thinned query and a systematic sample of the rest; set what they stand for."""
    n_models = contested.shape[0]
    out = 0
    for q in thinned:
        first, count = source[queries[q]], source[queries[q] + 1] - source[queries[q]]
        best = contested[0, first : first + count].astype(np.uint32)
        for i in range(1, n_models):
            row = contested[i, first : first + count]
            for k in range(count):
                best[k] = min(best[k], np.uint32(row[k]))
        last_kept = np.partition(best, keep - 1)[keep - 1]
        # Candidates level with the last one kept fill the remaining places in order of position.
        room = keep - np.sum(best < last_kept)
        skipped = 0
        shift = offsets[q] - out
        for k in range(count):
            if best[k] < last_kept or (best[k] == last_kept and room > 0):
                room -= best[k] == last_kept
                rows[out] = first + k
                out += 1
            else:
                if skipped % stride[q] == 0:
                    rows[out] = first + k
                    multiplicity[out + shift] = min(stride[q], count - keep - skipped)
                    out += 1
                skipped += 1


@njit(cache=True, nogil=True)
def _advantages(values, answer, source, queries, offsets, rows, table, advantage):  # type: ignore[no-untyped-def]
    """Fill one model's advantages: the answer's cost minus the candidate's, or, without a table, the gap itself."""
    listed = 0
    for q in range(len(queries)):
        first, count = source[queries[q]], source[queries[q] + 1] - source[queries[q]]
        mine = advantage[offsets[q] : offsets[q + 1]]
        whole = values[first : first + count]
        if len(mine) == count:
            for k in range(len(mine)):
                mine[k] = whole[k] if table is None else table[answer[q]] - table[whole[k]]
        else:
            for k in range(len(mine)):
                value = values[rows[listed + k]]
                mine[k] = value if table is None else table[answer[q]] - table[value]
            listed += len(mine)
