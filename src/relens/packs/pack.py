"""Packed ranks: of all candidates, only those that weights can move, for all models of an ensemble at once.

A candidate strictly behind the answer in every model can never pass or tie it and is dropped; one strictly ahead
in every model is always ahead and is counted. The rest are *contested*. Ranks, MRR and Hit@k computed from them
are exact for every α ≥ 0, α ≠ 0, every subset of the models and every strictly decreasing transform.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.queries import Queries
from relens.errors import RanksError, nearest
from relens.records import Provenance


@dataclass(frozen=True)
class PackedRanks:
    """Packed ranks of N named models for Q queries with K contested candidates in total.

    Ranks are stored doubled (2 is best), because a tied block shares its mean rank, which may be a half.

    Attributes:
        models: the N model names; the order of every N axis.
        relations: all R relation labels, indexed by ``queries.relation``.
        queries: the Q queries.
        n_candidates: candidates per query, the answer included, (Q,) int32.
        answer: doubled rank of the answer, (N, Q) uint16 or uint32.
        always_ahead: candidates strictly ahead of the answer in every model, (Q,) int32.
        offsets: the contested candidates of query q are ``offsets[q]:offsets[q + 1]``, (Q + 1,) int64.
        contested: doubled ranks of the contested candidates, (N, K) uint16 or uint32.
        gaps: score of the candidate minus score of the answer, scaled per model to integers that keep
            the sign of the raw difference, (N, K) int32; None where only ranks are known.
        gap_scales: raw score difference of one unit of ``gaps``, (N,) float64.
        cardinalities: class of each relation (``1-1``, ``1-N``, ``N-1``, ``N-N``), (R,); empty where unknown.
        source: the store that all of this was loaded from; None for anything else.
    """

    models: tuple[str, ...]
    relations: tuple[str, ...]
    queries: Queries
    n_candidates: npt.NDArray[np.int32]
    answer: npt.NDArray[Any]
    always_ahead: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    contested: npt.NDArray[Any]
    provenance: Provenance
    gaps: npt.NDArray[np.int32] | None = None
    gap_scales: npt.NDArray[np.float64] | None = None
    cardinalities: tuple[str, ...] = ()
    source: Path | None = None

    @property
    def n_models(self) -> int:
        """N."""
        return len(self.models)

    @property
    def n_queries(self) -> int:
        """Q."""
        return len(self.queries)

    @property
    def n_contested(self) -> int:
        """K."""
        return int(self.offsets[-1])

    @property
    def digest(self) -> str:
        """The identity of the contents: models, queries, where every model ranks the answers, and the gaps' scales.

        Contested ranks are left out: they may be gigabytes, and do not change without the answers' ranks.
        """
        parts = sha256("\n".join([*self.models, self.provenance.fingerprint, self.provenance.split]).encode())
        queries, scales = self.queries, self.gap_scales
        arrays = [queries.anchor, queries.relation, queries.direction, self.answer, self.always_ahead, self.offsets]
        for array in arrays if scales is None else [*arrays, scales]:
            parts.update(np.ascontiguousarray(array).data)
        return parts.hexdigest()[:16]

    def model_index(self, name: str) -> int:
        """Return the position of a model, or say which names there are."""
        try:
            return self.models.index(name)
        except ValueError:
            raise RanksError(f"unknown model {name!r}; {nearest(name, self.models)}") from None

    def without_gaps(self) -> "PackedRanks":
        """Return the same ranks without score gaps."""
        return replace(self, gaps=None, gap_scales=None, source=None)

    def select_models(self, names: Sequence[str]) -> "PackedRanks":
        """Return the pack of a subset of the models (a copy of their rows; still lossless, maybe not minimal)."""
        index = [self.model_index(name) for name in names]
        return replace(
            self,
            models=tuple(names),
            answer=self.answer[index],
            contested=self.contested[index],
            gaps=None if self.gaps is None else self.gaps[index],
            gap_scales=None if self.gap_scales is None else self.gap_scales[index],
            source=None,
        )

    def select_queries(self, index: npt.NDArray[np.integer[Any]]) -> "PackedRanks":
        """Return the pack of the queries at ``index`` (n,), copied in that order."""
        counts = self.offsets[index + 1] - self.offsets[index]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        rows = np.repeat(self.offsets[index] - offsets[:-1], counts) + np.arange(offsets[-1])
        return replace(
            self,
            queries=self.queries[index],
            n_candidates=self.n_candidates[index],
            answer=np.take(self.answer, index, axis=1),
            always_ahead=self.always_ahead[index],
            offsets=offsets,
            contested=np.take(self.contested, rows, axis=1),
            gaps=None if self.gaps is None else np.take(self.gaps, rows, axis=1),
            source=None,
        )
