"""Thinning: the contested candidates of a pack that a search looks at, or that a reduced file keeps."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from relens.compiled import njit
from relens.errors import RanksError
from relens.packs.pack import PackedRanks


@dataclass(frozen=True)
class ContestedView:
    """The contested candidates of Q queries that a search looks at, K' in all.

    Attributes:
        offsets: the candidates of query q are entries ``offsets[q]:offsets[q + 1]``, (Q + 1,) int64.
        rows: position of each in the pack, (K',) int64; None for all contested candidates.
        multiplicity: how many contested candidates each represents, (K',) int32; None where each represents itself.
    """

    offsets: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64] | None = None
    multiplicity: npt.NDArray[np.int32] | None = None

    def n_pairs(self, queries: npt.NDArray[np.int64]) -> int:
        """Return the number of candidates in the view of the queries at ``queries`` (n,)."""
        return int((self.offsets[queries + 1] - self.offsets[queries]).sum())

    @classmethod
    def lossless(cls, packed: PackedRanks) -> "ContestedView":
        """Look at every contested candidate."""
        return cls(packed.offsets)

    @classmethod
    def thinned(cls, packed: PackedRanks, *, keep: int, sample: int, jobs: int = 1) -> "ContestedView":
        """Look at up to ``keep`` + ``sample`` candidates of each query; the sample represents all the others.

        The ``keep`` candidates with the best rank in any model decide the good ranks. The rest only tell a poor rank
        from a very poor one, so every s-th of them is kept and counted s times.
        """
        if keep < 1 or sample < 1:
            raise RanksError(f"`keep={keep}`, `sample={sample}`: expected at least 1 of each")
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
    """The number of candidates that a thinned query keeps, and the size of the sample that represents the others."""

    keep: int
    sample: int


WIDE = Reduction(12, 4)
FINE = Reduction(48, 16)


class ContestedViews:
    """The views of one pack that searches share, built when first needed.

    ``wide`` is small enough to try many starts. ``fine`` serves the last steps in groups that are too large for the
    lossless view.
    """

    def __init__(self, packed: PackedRanks, jobs: int = 1) -> None:
        self.packed = packed
        self.jobs = jobs
        self.lossless = ContestedView.lossless(packed)

    @cached_property
    def wide(self) -> ContestedView:
        """Up to 16 candidates per query."""
        return ContestedView.thinned(self.packed, keep=WIDE.keep, sample=WIDE.sample, jobs=self.jobs)

    @cached_property
    def fine(self) -> ContestedView:
        """Up to 64 candidates per query."""
        return ContestedView.thinned(self.packed, keep=FINE.keep, sample=FINE.sample, jobs=self.jobs)


@njit()
def _thin(
    contested: npt.NDArray[Any],
    source: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    stride: npt.NDArray[np.int64],
    keep: int,
    first: int,
    last: int,
    rows: npt.NDArray[np.int64],
    multiplicity: npt.NDArray[np.int32],
) -> None:
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
        # Candidates tied with the last one kept fill the remaining places in order of position.
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
