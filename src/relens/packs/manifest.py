"""The manifest of a packed store: what its arrays are and where its ranks come from."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset
from relens.data.queries import Queries
from relens.errors import RanksError
from relens.records import PACK, TIE_RULE, Provenance

MANIFEST = "manifest.json"

Layout = dict[str, tuple[np.dtype[Any], tuple[int, ...]]]
"""Type and shape of each array file, by name."""


@dataclass(frozen=True)
class PackHeader:
    """What is known of a pack before its first block: the fields of ``PackedRanks`` of the same names."""

    models: tuple[str, ...]
    relations: tuple[str, ...]
    queries: Queries
    provenance: Provenance
    gap_scales: npt.NDArray[np.float64] | None = None
    cardinalities: tuple[str, ...] = ()


def pack_header(
    dataset: Dataset, models: tuple[str, ...], split: str, gap_scales: npt.NDArray[np.float64] | None = None
) -> PackHeader:
    """Return what the pack of a split says beside its ranks.

    All entities compete but the known answers; where the data set has candidates for the split, those alone.
    """
    provenance = Provenance(dataset.name, dataset.fingerprint, split, tuple(dataset.splits))
    if split in dataset.candidates:
        filtered = dataset.candidates[split].filter_splits
        provenance = replace(provenance, filter_splits=filtered, candidates="sampled")
    return PackHeader(
        models=models,
        relations=dataset.relations.labels,
        queries=dataset.queries(split),
        provenance=provenance,
        gap_scales=gap_scales,
        cardinalities=dataset.cardinalities,
    )


def describe(header: PackHeader, layout: Layout) -> dict[str, Any]:
    """Return the manifest of a store as a JSON object."""
    scales = header.gap_scales
    return PACK.stamp(
        {
            **header.provenance.to_json(),
            "tie_rule": TIE_RULE,
            "models": list(header.models),
            "n_queries": len(header.queries),
            "queries_fingerprint": header.queries.fingerprint(),
            "n_contested": layout["contested"][1][1],
            "rank_dtype": layout["contested"][0].name,
            "gap_scales": None if scales is None else scales.tolist(),
            "arrays": {
                name: {"dtype": dtype.str, "shape": list(shape), "bytes": array_bytes(dtype, shape)}
                for name, (dtype, shape) in layout.items()
            },
            "relations": list(header.relations),
            "cardinalities": list(header.cardinalities),
        }
    )


def read_manifest(path: Path) -> dict[str, Any]:
    """Read the manifest of the store at ``path``, refusing other folders, format versions and tie rules."""
    if not (path / MANIFEST).is_file():
        raise RanksError(f"{path} is not a packed store: it has no {MANIFEST}. Make one with `relens ranks import`.")
    manifest = PACK.read(path / MANIFEST)
    if manifest.get("tie_rule") != TIE_RULE:
        raise RanksError(
            f"{path} was packed with the tie rule {manifest.get('tie_rule')!r}, expected {TIE_RULE!r}. {PACK.remedy}"
        )
    return manifest


def array_layout(header: PackHeader, n_contested: int, dtype: np.dtype[Any]) -> Layout:
    """Return the array files of a store whose ranks have type ``dtype``."""
    n_models, n_queries = len(header.models), len(header.queries)
    layout: Layout = {
        "queries": (np.dtype("<i4"), (5, n_queries)),
        "n_candidates": (np.dtype("<i4"), (n_queries,)),
        "answer": (dtype.newbyteorder("<"), (n_models, n_queries)),
        "always_ahead": (np.dtype("<i4"), (n_queries,)),
        "offsets": (np.dtype("<i8"), (n_queries + 1,)),
        "contested": (dtype.newbyteorder("<"), (n_models, n_contested)),
    }
    if header.gap_scales is not None:
        layout["gaps"] = (np.dtype("<i4"), (n_models, n_contested))
    return layout


def array_bytes(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    """Return the size of an array file."""
    return math.prod(shape) * dtype.itemsize
