"""Thinning: which contested candidates of a pack a search, or a reduced file, looks at."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from relens.packs.pack import PackedRanks


@dataclass(frozen=True)
class ContestedView:
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
    def lossless(cls, packed: PackedRanks) -> "ContestedView":
        """Look at every contested candidate."""
        return cls(packed.offsets)

    @classmethod
    def thinned(cls, packed: PackedRanks, *, keep: int, sample: int, jobs: int = 1) -> "ContestedView":
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


class ContestedViews:
    """The views of one pack that searches share, made when first needed.

    ``wide`` is thin enough to try many starts, ``fine`` for the last steps in groups too large to go through whole.
    """

    def __init__(self, packed: PackedRanks, jobs: int = 1) -> None:
        self.packed = packed
        self.jobs = jobs
        self.lossless = ContestedView.lossless(packed)

    @cached_property
    def wide(self) -> ContestedView:
        """At most 16 candidates a query."""
        return ContestedView.thinned(self.packed, keep=WIDE.keep, sample=WIDE.sample, jobs=self.jobs)

    @cached_property
    def fine(self) -> ContestedView:
        """At most 64 candidates a query."""
        return ContestedView.thinned(self.packed, keep=FINE.keep, sample=FINE.sample, jobs=self.jobs)


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
