"""Tiny packed ranks beside their dense values, arbitrary pairs, contexts of searches, and a recorder of progress."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from relens.data.queries import Queries
from relens.ensemble.context import SearchContext
from relens.ensemble.inputs import INPUTS
from relens.ensemble.pairs import Pairs
from relens.ensemble.searchers import SEARCHERS
from relens.packs.pack import PackedRanks, PackHeader
from relens.packs.packing import MAX_GAP, pack_ranks, pack_scores
from relens.packs.store import assemble
from relens.packs.thinning import ContestedViews
from relens.records import Provenance
from tests import oracles, strategies

NAMES = ("rank", "log", "sqrt", "rrf", "score")


@dataclass(frozen=True)
class Case:
    """Packed ranks and what they were packed from.

    ``dense[q][i]`` maps every candidate of query q to its doubled rank by model i, ``gaps[q][i]`` to its scaled score
    gap; ``answers`` holds the answers' columns.
    """

    packed: PackedRanks
    dense: list[list[dict[int, int]]]
    answers: list[int]
    gaps: list[list[dict[int, int]]] | None = None

    @property
    def everything(self) -> npt.NDArray[np.int64]:
        """The positions of all queries."""
        return np.arange(self.packed.n_queries)


def queries_of(relation: Sequence[int], direction: Sequence[int], answer: Sequence[int]) -> Queries:
    """Return queries with the given columns; neighbours 2i and 2i + 1 come from one triple."""
    n = len(relation)
    return Queries.from_columns(np.array([[0] * n, relation, direction, answer, np.arange(n) // 2]))


def header_of(n_models: int, queries: Queries, n_relations: int, scales: Any = None) -> PackHeader:
    """Return a header with models m0, m1, … and relations r0, r1, …."""
    return PackHeader(
        tuple(f"m{i}" for i in range(n_models)),
        tuple(f"r{r}" for r in range(n_relations)),
        queries,
        Provenance("toy", "f00d", "valid"),
        scales,
    )


def pack(
    values: Sequence[npt.NDArray[Any]],
    answers: Sequence[int],
    *,
    scores: bool = True,
    relation: Sequence[int] | None = None,
    direction: Sequence[int] | None = None,
    n_relations: int | None = None,
    known: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None = None,
    scales: Sequence[float] | None = None,
) -> Case:
    """Pack N arrays (Q, C) of scores, or of ranks; score gaps come in units of ``scales`` (default 1/4)."""
    n = len(answers)
    relation = [0] * n if relation is None else relation
    direction = [q % 2 for q in range(n)] if direction is None else direction
    queries = queries_of(relation, direction, answers)
    n_relations = max(relation) + 1 if n_relations is None else n_relations
    if not scores:
        header = header_of(len(values), queries, n_relations)
        dense = [[{j: 2 * int(r) for j, r in enumerate(model[q])} for model in values] for q in range(n)]
        return Case(assemble(header, [pack_ranks(values, np.array(answers))]), dense, list(answers))
    units = [0.25] * len(values) if scales is None else scales
    header = header_of(len(values), queries, n_relations, np.array(units, dtype=np.float64))
    block = pack_scores(values, np.array(answers), known, header.gap_scales)
    left_out = [
        set() if known is None else {int(j) for j in known[1][known[0][q] : known[0][q + 1]]} - {int(answers[q])}
        for q in range(n)
    ]
    dense = [
        [oracles.doubled_ranks(model[q].tolist(), int(answers[q]), left_out[q]) for model in values] for q in range(n)
    ]
    gaps = [
        [
            {j: unit_gap(float(model[q][j]) - float(model[q][answers[q]]), units[i]) for j in dense[q][i]}
            for i, model in enumerate(values)
        ]
        for q in range(n)
    ]
    return Case(assemble(header, [block]), dense, [int(a) for a in answers], gaps)


def unit_gap(gap: float, unit: float) -> int:
    """Round a score gap to whole units; a difference is never lost and never exceeds the limit."""
    whole = round(Fraction(gap) / Fraction(unit))
    whole = max(-MAX_GAP, min(MAX_GAP, whole))
    return whole if whole else (gap > 0) - (gap < 0)


def random_case(
    seed: int,
    *,
    n_models: int = 3,
    n_queries: int = 12,
    n_candidates: int = 9,
    n_relations: int = 2,
    levels: int | None = 6,
) -> Case:
    """Return scores at random; with few ``levels`` many tie. Queries 2i and 2i + 1 ask both directions of a triple."""
    rng = np.random.default_rng(seed)
    shape = (n_queries, n_candidates)
    values = [
        rng.normal(size=shape) if levels is None else rng.integers(0, levels, shape) / 1.0 for _ in range(n_models)
    ]
    relation = np.repeat(rng.integers(0, n_relations, (n_queries + 1) // 2), 2)[:n_queries]
    answers = rng.integers(0, n_candidates, n_queries)
    return pack(values, answers.tolist(), relation=relation.tolist(), n_relations=n_relations)


def without_gaps(packed: PackedRanks) -> PackedRanks:
    """Return the pack as if only ranks were known."""
    return packed.without_gaps()


def context_of(
    packed: PackedRanks | ContestedViews, input: str = "rank", searcher: str = "sweep", *, jobs: int = 1, **fields: Any
) -> SearchContext:
    """Return the context of a search with an input and a searcher by name."""
    views = packed if isinstance(packed, ContestedViews) else ContestedViews(packed, jobs)
    return SearchContext(views, INPUTS[input], SEARCHERS[searcher], jobs=jobs, **fields)


def group_of(packed: PackedRanks) -> npt.NDArray[np.int32]:
    """Return the group of each query by relation and direction, (Q,)."""
    return (2 * packed.queries.relation + packed.queries.direction).astype(np.int32)


def groups_of(case: Case) -> list[npt.NDArray[np.int64]]:
    """Return the positions of the queries of each (relation, direction) that has any."""
    group = 2 * case.packed.queries.relation + case.packed.queries.direction
    return [np.flatnonzero(group == g) for g in np.unique(group)]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw scores full of ties with known answers left out, and score gaps in several units."""
    block = draw(strategies.score_blocks())
    n = len(block.answer_column)
    relation = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    units = draw(
        st.lists(st.sampled_from([2.0**-20, 0.25, 3.0]), min_size=len(block.values), max_size=len(block.values))
    )
    return pack(block.values, block.answer_column.tolist(), relation=relation, known=block.known, scales=units)


@st.composite
def rank_cases(draw: st.DrawFn) -> Case:
    """Draw ranks taken as they are, repeats allowed."""
    block = draw(strategies.rank_blocks())
    return pack(block.values, block.answer_column.tolist(), scores=False)


def problem(
    advantage: Sequence[Sequence[int]], counts: Sequence[int], floor: Sequence[int], multiplicity: Sequence[int]
) -> Pairs:
    """Return pairs with the given advantages (N, K), ``counts[q]`` of them for query q."""
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Pairs(
        np.array(advantage, dtype=np.int32).reshape(len(advantage), offsets[-1]),
        offsets,
        np.array(floor, dtype=np.int64),
        np.array(multiplicity, dtype=np.int32),
    )


SMALL = st.integers(-5, 5)
HUGE = st.sampled_from([-(2**26), -(2**26) + 1, -(2**25) - 1, -1, 0, 1, 3, 2**25 - 1, 2**26 - 1, 2**26])


@st.composite
def problems(draw: st.DrawFn, elements: st.SearchStrategy[int] = SMALL, min_models: int = 1) -> Pairs:
    """Draw pairs as no packing would leave them, too: any signs, any multiplicity, queries without pairs."""
    n_models, n_queries = draw(st.integers(min_models, 4)), draw(st.integers(1, 4))
    counts = draw(st.lists(st.integers(0, 6), min_size=n_queries, max_size=n_queries))
    k = sum(counts)
    advantage = [draw(st.lists(elements, min_size=k, max_size=k)) for _ in range(n_models)]
    floor = [2 * f for f in draw(st.lists(st.integers(1, 3), min_size=n_queries, max_size=n_queries))]
    return problem(advantage, counts, floor, draw(st.lists(st.integers(1, 3), min_size=k, max_size=k)))


class Recorder:
    """A progress display that remembers what it was told."""

    def __init__(self) -> None:
        self.tasks: list[tuple[str, float, list[float]]] = []

    @contextmanager
    def task(self, description: str, total: float) -> Iterator[Callable[[float], None]]:
        """Remember a task and what it advances by."""
        done: list[float] = []
        self.tasks.append((description, total, done))
        yield done.append
