"""Packed ranks: only the candidates that weights can move, for all models of an ensemble at once.

A candidate that is strictly behind the answer in every model can never pass or tie it, and is dropped. A candidate
that is strictly ahead in every model is always ahead, and is counted. The others are *contested*. Ranks, MRR and Hit@k
computed from them are exact for all weights α ≥ 0, α ≠ 0, every subset of the models and every strictly decreasing
transform.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from relens.checksums import array_checksum
from relens.data.dataset import Dataset
from relens.data.queries import Queries
from relens.errors import RanksError, nearest
from relens.records import Provenance


@dataclass(frozen=True)
class PackHeader:
    """The facts about a pack of N models and Q queries that are known before its first block.

    Attributes:
        models: the N model names; the order of every N axis.
        relations: all R relation labels, indexed by ``queries.relation``.
        queries: the Q queries.
        provenance: where the ranks come from.
        gap_scales: raw score difference of one unit of a gap, (N,) float64; None where only ranks are known.
        cardinalities: class of each relation (``1-1``, ``1-N``, ``N-1``, ``N-N``), (R,); empty where unknown.
    """

    models: tuple[str, ...]
    relations: tuple[str, ...]
    queries: Queries
    provenance: Provenance
    gap_scales: npt.NDArray[np.float64] | None = None
    cardinalities: tuple[str, ...] = ()

    @classmethod
    def from_dataset(
        cls,
        dataset: Dataset,
        models: tuple[str, ...],
        split: str,
        gap_scales: npt.NDArray[np.float64] | None = None,
    ) -> Self:
        """Describe the ranks of a split among all entities, or among the candidates that the data set has."""
        provenance = Provenance(dataset.name, dataset.fingerprint, split, tuple(dataset.splits))
        if split in dataset.candidates:
            filtered = dataset.candidates[split].filter_splits
            provenance = replace(provenance, filter_splits=filtered, candidates="sampled")
        elif dataset.restriction is not None:
            outside = int(dataset.restriction.outside(dataset.queries(split)).sum())
            provenance = replace(provenance, candidates=dataset.restriction.name, outside=outside)
        return cls(
            models=models,
            relations=tuple(dataset.relations.labels),
            queries=dataset.queries(split),
            provenance=provenance,
            gap_scales=gap_scales,
            cardinalities=dataset.cardinalities,
        )


@dataclass(frozen=True)
class PackedBlock:
    """Packed ranks of N models for b consecutive queries: those of ``PackArrays``, with counts instead of offsets.

    Attributes:
        answer: doubled rank of the answer, (N, b) uint16 or uint32.
        n_candidates: candidates per query, the answer included, (b,) int32.
        always_ahead: candidates strictly ahead of the answer in every model, (b,) int32.
        counts: contested candidates per query, (b,) int64.
        contested: doubled ranks of the contested candidates, (N, counts.sum()) uint16 or uint32.
        gaps: scaled score differences to the answer, (N, counts.sum()) int32, or None.
    """

    answer: npt.NDArray[Any]
    n_candidates: npt.NDArray[np.int32]
    always_ahead: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]
    contested: npt.NDArray[Any]
    gaps: npt.NDArray[np.int32] | None = None

    @classmethod
    def join(cls, blocks: "Sequence[PackedBlock]") -> Self:
        """Join the blocks of consecutive queries, at least one."""
        gaps = [block.gaps for block in blocks if block.gaps is not None]
        if gaps and len(gaps) != len(blocks):
            raise RanksError(
                "some blocks have score gaps and some have not: expected all or none. Pack all of them with the same "
                "gap_scales."
            )
        return cls(
            answer=np.concatenate([block.answer for block in blocks], axis=1),
            n_candidates=np.concatenate([block.n_candidates for block in blocks]),
            always_ahead=np.concatenate([block.always_ahead for block in blocks]),
            counts=np.concatenate([block.counts for block in blocks]),
            contested=np.concatenate([block.contested for block in blocks], axis=1),
            gaps=np.concatenate(gaps, axis=1) if gaps else None,
        )


@dataclass(frozen=True)
class PackArrays:
    """The packed ranks of N models for Q queries with K contested candidates in total.

    Ranks are stored doubled (2 is best): a tied block shares its mean rank, which may end in a half.

    Attributes:
        n_candidates: candidates per query, the answer included, (Q,) int32.
        answer: doubled rank of the answer, (N, Q) uint16 or uint32.
        always_ahead: candidates strictly ahead of the answer in every model, (Q,) int32.
        offsets: the contested candidates of query q are ``offsets[q]:offsets[q + 1]``, (Q + 1,) int64.
        contested: doubled ranks of the contested candidates, (N, K) uint16 or uint32.
        gaps: score of the candidate minus score of the answer, scaled per model to whole numbers that keep the sign of
            the raw difference, (N, K) int32; None where only ranks are known.
    """

    n_candidates: npt.NDArray[np.int32]
    answer: npt.NDArray[Any]
    always_ahead: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    contested: npt.NDArray[Any]
    gaps: npt.NDArray[np.int32] | None = None

    @classmethod
    def from_block(cls, block: PackedBlock) -> Self:
        """Take the block of all queries; its arrays become read-only."""
        offsets = offsets_from(block.counts)
        arrays = cls(block.n_candidates, block.answer, block.always_ahead, offsets, block.contested, block.gaps)
        for array in (arrays.n_candidates, arrays.answer, arrays.always_ahead, arrays.offsets, arrays.contested):
            array.flags.writeable = False
        if arrays.gaps is not None:
            arrays.gaps.flags.writeable = False
        return arrays

    def to_block(self) -> PackedBlock:
        """Return all queries as one block."""
        counts = np.diff(self.offsets)
        return PackedBlock(self.answer, self.n_candidates, self.always_ahead, counts, self.contested, self.gaps)

    def select_models(self, index: Sequence[int]) -> "PackArrays":
        """Return a copy of the rows of the models at ``index``."""
        return replace(
            self,
            answer=self.answer[index],
            contested=self.contested[index],
            gaps=None if self.gaps is None else self.gaps[index],
        )

    def select_queries(self, index: npt.NDArray[np.integer[Any]]) -> "PackArrays":
        """Return a copy of the queries at ``index`` (n,), in that order."""
        counts = self.offsets[index + 1] - self.offsets[index]
        offsets = offsets_from(counts)
        rows = np.repeat(self.offsets[index] - offsets[:-1], counts) + np.arange(offsets[-1])
        return PackArrays(
            n_candidates=self.n_candidates[index],
            answer=np.take(self.answer, index, axis=1),
            always_ahead=self.always_ahead[index],
            offsets=offsets,
            contested=np.take(self.contested, rows, axis=1),
            gaps=None if self.gaps is None else np.take(self.gaps, rows, axis=1),
        )


@dataclass(frozen=True)
class PackedRanks:
    """Packed ranks of N named models for Q queries.

    The fields of the header and of the arrays can be read from the pack itself.

    Attributes:
        header: models, relations, queries, provenance and scales of the gaps.
        arrays: the ranks.
        source: the store that all of this was loaded from; None for anything else.
        checksums: those of the arrays by name, as far as the store has them.
    """

    header: PackHeader
    arrays: PackArrays
    source: Path | None = None
    checksums: Mapping[str, str] = field(default_factory=dict)

    @property
    def models(self) -> tuple[str, ...]:  # noqa: D102
        return self.header.models

    @property
    def relations(self) -> tuple[str, ...]:  # noqa: D102
        return self.header.relations

    @property
    def queries(self) -> Queries:  # noqa: D102
        return self.header.queries

    @property
    def provenance(self) -> Provenance:  # noqa: D102
        return self.header.provenance

    @property
    def gap_scales(self) -> npt.NDArray[np.float64] | None:  # noqa: D102
        return self.header.gap_scales

    @property
    def cardinalities(self) -> tuple[str, ...]:  # noqa: D102
        return self.header.cardinalities

    @property
    def n_candidates(self) -> npt.NDArray[np.int32]:  # noqa: D102
        return self.arrays.n_candidates

    @property
    def answer(self) -> npt.NDArray[Any]:  # noqa: D102
        return self.arrays.answer

    @property
    def always_ahead(self) -> npt.NDArray[np.int32]:  # noqa: D102
        return self.arrays.always_ahead

    @property
    def offsets(self) -> npt.NDArray[np.int64]:  # noqa: D102
        return self.arrays.offsets

    @property
    def contested(self) -> npt.NDArray[Any]:  # noqa: D102
        return self.arrays.contested

    @property
    def gaps(self) -> npt.NDArray[np.int32] | None:  # noqa: D102
        return self.arrays.gaps

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

    @cached_property
    def digest(self) -> str:
        """The identity of the contents: of all facts in the header, and of every array.

        The checksums of a store are taken from its manifest. Those of ranks in memory are computed at the first use.
        """
        header, scales = self.header, self.gap_scales
        arrays = {"queries": self.queries.columns(), **vars(self.arrays)}
        content = {
            "models": header.models,
            "relations": header.relations,
            "cardinalities": header.cardinalities,
            "provenance": header.provenance.to_json(),
            "gap_scales": None if scales is None else scales.tolist(),
            "arrays": {
                name: self.checksums.get(name) or array_checksum(array)
                for name, array in arrays.items()
                if array is not None
            },
        }
        return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @cached_property
    def digest_of_answers(self) -> str:
        """The digest of an older relens. It leaves out contested ranks, gaps and numbers of candidates."""
        parts = sha256("\n".join([*self.models, self.provenance.fingerprint, self.provenance.split]).encode())
        queries, scales = self.queries, self.gap_scales
        arrays = [queries.anchor, queries.relation, queries.direction, self.answer, self.always_ahead, self.offsets]
        for array in arrays if scales is None else [*arrays, scales]:
            parts.update(np.ascontiguousarray(array).data)
        return parts.hexdigest()[:16]

    def is_named(self, digest: str) -> bool:
        """Say whether a record names these ranks by ``digest``; records of an older relens have the older digest."""
        return digest == self.digest or digest == self.digest_of_answers

    def model_index(self, name: str) -> int:
        """Return the position of a model, or raise an error that lists similar names."""
        try:
            return self.models.index(name)
        except ValueError:
            raise RanksError(f"unknown model {name!r}; {nearest(name, self.models)}") from None

    def without_gaps(self) -> "PackedRanks":
        """Return the same ranks without score gaps."""
        return PackedRanks(replace(self.header, gap_scales=None), replace(self.arrays, gaps=None))

    def select_models(self, names: Sequence[str]) -> "PackedRanks":
        """Return the pack of a subset of the models: a copy of their rows, lossless but maybe not minimal."""
        index = [self.model_index(name) for name in names]
        scales = None if self.gap_scales is None else self.gap_scales[index]
        return PackedRanks(
            replace(self.header, models=tuple(names), gap_scales=scales), self.arrays.select_models(index)
        )

    def select_queries(self, index: npt.NDArray[np.integer[Any]]) -> "PackedRanks":
        """Return the pack of the queries at ``index`` (n,), copied in that order."""
        provenance = replace(self.provenance, outside=None)  # a count over all queries
        header = replace(self.header, queries=self.queries[index], provenance=provenance)
        return PackedRanks(header, self.arrays.select_queries(index))


def offsets_from(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return where each of Q runs of ``counts`` (Q,) entries begins, and where the last one ends, (Q + 1,) int64."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])
