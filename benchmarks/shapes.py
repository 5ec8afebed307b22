"""Shapes: simulated rank sets with the sizes, the contested share and the MRRs of well-known data sets.

The numbers of queries, groups and candidates are the real ones (``relation_sizes.json`` has the validation triples of
each relation). What the simulated models look like was tuned until the contested candidates per query and the gains of
the ensembles came close to those of real models; ``real`` holds what was aimed at.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.grouping import Grouping
from relens.ensemble.context import split_by_group
from relens.packs.pack import PackedRanks
from relens.packs.simulation import Simulation
from relens.packs.store import load_pack, save_pack
from relens.seeding import generator

SPLIT = "valid"
DEFAULT_CACHE = Path(__file__).resolve().parent.parent / "out" / "benchmarks"
MODELS = tuple(f"model {letter}" for letter in "abcdef")
WIKIKG2_TRIPLES = 429_456
BIOKG_TRIPLES = 162_886
SIZES = json.loads(Path(__file__).with_name("relation_sizes.json").read_text(encoding="utf-8"))


def stretched(sizes: Sequence[int], n_relations: int, n_triples: int) -> tuple[int, ...]:
    """Return sizes of other relations that fall as ``sizes`` do, from the largest to the smallest; none is 0."""
    known = np.sort(np.array(sizes, dtype=np.float64))[::-1]
    curve = np.interp(np.linspace(0, len(known) - 1, n_relations), np.arange(len(known)), known)
    drawn = 1 + (curve * ((n_triples - n_relations) / curve.sum())).astype(np.int64)
    drawn[0] += n_triples - drawn.sum()
    return tuple(drawn.tolist())


def wikikg2(n_triples: int = WIKIKG2_TRIPLES) -> Simulation:
    """Return ogbl-wikikg2's validation split as the authors have it, with as many triples as asked for (at least 535).

    There are 535 relations r and as many r + 535, each with all the triples of r: 1,070 groups. A triple is asked for
    its head and its tail in both forms, and 501 candidates compete: 1,717,824 queries. Its real sizes of relations
    are not at hand; these fall as FB15k-237's do. The models are about as good as the three in the paper's table.
    """
    sizes = stretched(SIZES["fb15k-237"], 535, max(n_triples, 535))
    return Simulation(
        ("interht", "stargraph", "triplere"), sizes + sizes, 501, level=(4.19, 2.2), skill=0.05, noise=0.25,
        agreement=0.92, handicap=(0.0, 0.01, 0.13),
    )  # fmt: skip


def biokg(n_triples: int = BIOKG_TRIPLES) -> Simulation:
    """Return ogbl-biokg's validation split, with as many triples as asked for (at least 51), 501 candidates a query.

    The sizes of its 51 relations fall as FB15k-237's do. The models are about as good as the three in the paper's
    table, and as different from each other: weights per relation are worth .05 of MRR.
    """
    sizes = stretched(SIZES["fb15k-237"], 51, max(n_triples, 51))
    return Simulation(
        ("autoblm", "complex-rp", "triplere"), sizes, 501, level=(4.9, 1.2), skill=1.2, noise=0.8,
        agreement=0.35, handicap=(-0.4, 0.1, 0.25),
    )  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """A named simulation, and what real models show on the data set it imitates."""

    name: str
    simulation: Simulation
    real: dict[str, float] = field(default_factory=dict)

    def with_seed(self, seed: int) -> "Shape":
        """Return the same shape, drawn anew."""
        return replace(self, simulation=replace(self.simulation, seed=seed))

    def packed(self, cache: Path, jobs: int) -> PackedRanks:
        """Return the packed ranks, memory-mapped from the cache; simulate them first where it has none."""
        parameters = json.dumps(asdict(self.simulation), sort_keys=True)
        path = cache / f"{self.name}-{sha256(parameters.encode()).hexdigest()[:12]}"
        if not path.is_dir():
            cache.mkdir(parents=True, exist_ok=True)
            save_pack(self.simulation.packed(SPLIT, gaps=False, jobs=jobs), path)
        return load_pack(path)


SHAPES = {
    shape.name: shape
    for shape in (
        Shape(
            "fb15k-237",
            Simulation(
                MODELS, tuple(SIZES["fb15k-237"]), 14_541, level=(3.22, 1.27), skill=0.07, noise=0.14, agreement=0.974,
                handicap=(0.0, 0.02, 0.04, 0.06, 0.08, 0.10),
            ),
            {"share": 0.021, "median": 17, "mean": 299, "simple_mrr": 0.361, "dsc_mrr": 0.382},
        ),
        # Two models are under-trained: they know some answers well and have never heard of others.
        Shape(
            "wn18rr",
            Simulation(
                MODELS, tuple(SIZES["wn18rr"]), 40_943, level=(3.9, 4.9), skill=0.1, agreement=0.76,
                noise=(0.4, 0.4, 0.4, 0.4, 2.4, 2.6), handicap=(0.0, 0.1, 0.2, 0.3, 0.5, 0.5),
            ),
            {"share": 0.25, "median": 381, "mean": 10_249, "simple_mrr": 0.482, "dsc_mrr": 0.493},
        ),
        Shape("tiny", Simulation(MODELS[:3], (48, 24, 12, 6, 3, 1, 0), 300, level=(2.2, 1.0), skill=0.1, noise=0.15)),
    )
}  # fmt: skip


def groups_of(packed: PackedRanks) -> tuple[npt.NDArray[np.int64], list[npt.NDArray[np.int64]]]:
    """Return the (relation, direction) groups that have queries, and the positions of each one's queries."""
    group = Grouping.by_relation_and_direction(packed.relations).groups_of(packed.queries)
    return split_by_group(group, np.arange(packed.n_queries))


def statistics(packed: PackedRanks) -> dict[str, Any]:
    """Return the counts and the contested candidates of a pack, and its size against dense ranks."""
    counts = np.diff(packed.offsets)
    arrays = (packed.n_candidates, packed.answer, packed.always_ahead, packed.offsets, packed.contested)
    # Ranks 1..C without halves: 16 bits hold those of every shape here.
    dense_bytes = 2 * packed.n_models * int(packed.n_candidates.sum())
    packed_bytes = sum(array.nbytes for array in arrays) + packed.queries.columns().nbytes
    return {
        "models": packed.n_models,
        "queries": packed.n_queries,
        "groups": 2 * len(packed.relations),
        "groups_with_queries": len(groups_of(packed)[0]),
        "candidates": int(packed.n_candidates.max()),
        "contested": packed.n_contested,
        "contested_share": packed.n_contested / int(packed.n_candidates.sum()),
        "contested_median": float(np.median(counts)),
        "contested_mean": float(counts.mean()),
        "rank_bits": 8 * packed.contested.itemsize,
        "packed_bytes": packed_bytes,
        "dense_uint16_bytes": dense_bytes,
        "packed_over_dense": packed_bytes / dense_bytes,
    }


def subset(packed: PackedRanks, fraction: float, seed: int) -> PackedRanks:
    """Return the queries of a random share of the triples, in their order."""
    n = int(packed.queries.triple.max()) + 1
    chosen = np.zeros(n, dtype=bool)
    chosen[generator(seed, "subset").permutation(n)[: max(1, round(min(fraction, 1.0) * n))]] = True
    return packed.select_queries(np.flatnonzero(chosen[packed.queries.triple]))


def as_stored(packed: PackedRanks) -> PackedRanks:
    """Return the pack with its arrays as a memory-mapped store has them: kernels are compiled for each kind of array.

    That is model-major and read-only.
    """
    arrays = {field.name: getattr(packed, field.name) for field in fields(packed)}
    stored = {name: np.ascontiguousarray(array) for name, array in arrays.items() if isinstance(array, np.ndarray)}
    for array in stored.values():
        array.flags.writeable = False
    return replace(packed, **stored)
