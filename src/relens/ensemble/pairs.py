"""Pairs: what a search looks at. For some queries, each contested candidate's advantage over the answer per model."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from relens.ensemble.inputs import Input, cost_table
from relens.ranks.packed import PackedRanks


@dataclass(frozen=True)
class View:
    """Which contested candidates of each of Q queries a search looks at, K' in all.

    Attributes:
        offsets: the candidates of query q are entries ``offsets[q]:offsets[q + 1]``, (Q + 1,) int64.
        rows: position of each in the pack, (K',) int64; None where all contested candidates are looked at.
        multiplicity: contested candidates each one stands for, (K',) int32; None where each stands for itself.
    """

    offsets: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64] | None = None
    multiplicity: npt.NDArray[np.int32] | None = None

    def n_pairs(self, queries: npt.NDArray[np.int64]) -> int:
        """Return how many candidates of the queries at ``queries`` (n,) are looked at."""
        return int((self.offsets[queries + 1] - self.offsets[queries]).sum())

    @classmethod
    def lossless(cls, packed: PackedRanks) -> "View":
        """Look at every contested candidate."""
        return cls(packed.offsets)

    @classmethod
    def thinned(cls, packed: PackedRanks, *, keep: int, sample: int, jobs: int = 1) -> "View":
        """Look at no more than ``keep`` + ``sample`` candidates of each query; the sample stands for all the others.

        The ``keep`` candidates with the best rank in any model decide the ranks that matter. The rest only tell a
        poor rank from a hopeless one, so every s-th of them, counted s times, serves as well.
        """
        counts = np.diff(packed.offsets)
        stride = np.maximum(1, -(-(counts - keep) // sample))
        kept = np.where(counts <= keep + sample, counts, keep + -(-(counts - keep) // stride))
        offsets = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
        rows = np.empty(offsets[-1], dtype=np.int64)
        multiplicity = np.ones(offsets[-1], dtype=np.int32)
        cuts = np.searchsorted(packed.offsets, np.linspace(0, packed.n_contested, 4 * jobs + 1))
        cuts[-1] = packed.n_queries

        def thin(first: int, last: int) -> None:
            _thin(packed.contested, packed.offsets, offsets, stride, keep, first, last, rows, multiplicity)

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(thin, cuts[:-1], cuts[1:]))
        return cls(offsets, rows, multiplicity)


class Reduction(NamedTuple):
    """How many candidates a thinned query keeps, and the size of the sample that stands for the others."""

    keep: int
    sample: int


WIDE = Reduction(12, 4)
FINE = Reduction(48, 16)


class Views:
    """The views of one pack that searches share, made when first needed.

    ``wide`` is thin enough to try many starts, ``fine`` for the last steps in groups too large to go through whole.
    """

    def __init__(self, packed: PackedRanks, jobs: int = 1) -> None:
        self.packed = packed
        self.jobs = jobs
        self.lossless = View.lossless(packed)

    @cached_property
    def wide(self) -> View:
        """At most 16 candidates a query."""
        return View.thinned(self.packed, keep=WIDE.keep, sample=WIDE.sample, jobs=self.jobs)

    @cached_property
    def fine(self) -> View:
        """At most 64 candidates a query."""
        return View.thinned(self.packed, keep=FINE.keep, sample=FINE.sample, jobs=self.jobs)


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
    def gather(cls, packed: PackedRanks, view: View, queries: npt.NDArray[np.int64], name: Input) -> "Pairs":
        """Take the candidates that ``view`` looks at for the queries at ``queries`` (n,)."""
        counts = view.offsets[queries + 1] - view.offsets[queries]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        multiplicity = np.ones(offsets[-1], dtype=np.int32)
        if view.multiplicity is not None:
            _copy(view.multiplicity, view.offsets, queries, offsets, multiplicity)
        advantage = np.empty((packed.n_models, offsets[-1]), dtype=np.int32)
        if name == "score":
            assert packed.gaps is not None  # check_input has refused this pack otherwise
            # A gap is an advantage already: the answer's own is 0.
            values, answer, sign = packed.gaps, np.zeros((packed.n_models, len(queries)), dtype=np.int32), 1
        else:
            values, answer, sign = packed.contested, np.take(packed.answer, queries, axis=1).astype(np.int32), -1
        table = None if name in ("rank", "score") else cost_table(name, int(packed.n_candidates.max(initial=1)))
        for model, out in enumerate(advantage):
            _advantages(values[model], answer[model], view.offsets, view.rows, queries, offsets, table, sign, out)
        floor = 2 * (1 + packed.always_ahead[queries].astype(np.int64))
        return cls(advantage, offsets, floor, multiplicity)


@njit(cache=True, nogil=True)
def _thin(contested, source, offsets, stride, keep, first, last, rows, multiplicity):  # type: ignore[no-untyped-def]
    """For queries ``first`` to ``last``, list the best candidates and a systematic sample of the others."""
    for q in range(first, last):
        begin, count = source[q], source[q + 1] - source[q]
        out = offsets[q]
        if count == offsets[q + 1] - out:
            for k in range(count):
                rows[out + k] = begin + k
            continue
        best = contested[0, begin : begin + count].astype(np.uint32)
        for i in range(1, contested.shape[0]):
            row = contested[i, begin : begin + count]
            for k in range(count):
                best[k] = min(best[k], np.uint32(row[k]))
        last_kept = np.partition(best, keep - 1)[keep - 1]
        # Candidates level with the last one kept fill the remaining places in order of position.
        room = keep - np.sum(best < last_kept)
        skipped = 0
        for k in range(count):
            if best[k] < last_kept or (best[k] == last_kept and room > 0):
                room -= best[k] == last_kept
                rows[out] = begin + k
                out += 1
            else:
                if skipped % stride[q] == 0:
                    rows[out] = begin + k
                    multiplicity[out] = min(stride[q], count - keep - skipped)
                    out += 1
                skipped += 1


@njit(cache=True, nogil=True)
def _copy(values, source, queries, offsets, out):  # type: ignore[no-untyped-def]
    """Copy the values of the queries, one query after the other."""
    for q in range(len(queries)):
        out[offsets[q] : offsets[q + 1]] = values[source[queries[q]] : source[queries[q] + 1]]


@njit(cache=True, nogil=True)
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
