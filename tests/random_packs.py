"""Small packed ranks, and how two of them are compared."""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from relens.data.queries import Queries
from relens.packs.pack import PackedRanks, PackHeader
from relens.packs.packing import pack_scores
from relens.packs.store import assemble
from relens.records import Provenance

ARRAYS = ("answer", "n_candidates", "always_ahead", "offsets", "contested", "gaps", "gap_scales")


def header_of(n_queries: int, models: tuple[str, ...], **changes: Any) -> PackHeader:
    columns = np.arange(5 * n_queries).reshape(5, n_queries) % 2
    provenance = Provenance("toy", "f00d", "valid", filter_splits=("train", "valid", "test"))
    return replace(PackHeader(models, ("likes", "né"), Queries.from_columns(columns), provenance), **changes)


def changed(packed: PackedRanks, **changes: Any) -> PackedRanks:
    """Return a pack with other fields of its header or of its arrays."""
    of_header = {field.name for field in fields(PackHeader)}
    header = {name: value for name, value in changes.items() if name in of_header}
    arrays = {name: value for name, value in changes.items() if name not in of_header}
    return PackedRanks(replace(packed.header, **header), replace(packed.arrays, **arrays))


def scored(seed: int = 0, n_queries: int = 5, models: tuple[str, ...] = ("a", "b", "c")) -> PackedRanks:
    rng = np.random.default_rng(seed)
    scores = [np.round(rng.normal(size=(n_queries, 9)), 1) for _ in models]
    scales = np.linspace(0.001, 0.1, len(models))
    header = header_of(n_queries, models, gap_scales=scales, cardinalities=("1-N", "N-N"))
    return assemble(header, [pack_scores(scores, rng.integers(0, 9, n_queries), gap_scales=scales)])


def assert_same(one: PackedRanks, other: PackedRanks) -> None:
    for name in ARRAYS:
        left, right = getattr(one, name), getattr(other, name)
        if left is None or right is None:
            assert left is right
        else:
            assert left.dtype == right.dtype
            assert np.array_equal(left, right)
    assert np.array_equal(one.queries.columns(), other.queries.columns())
    for name in ("models", "relations", "provenance", "cardinalities"):
        assert getattr(one, name) == getattr(other, name)
