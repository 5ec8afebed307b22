"""Strategies for Hypothesis: small matrices full of ties, and ranks of answers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from relens.ranking.answer_ranks import AnswerRanks


@dataclass(frozen=True)
class Block:
    """The values of N models for b queries and C candidates, the answers' columns and known answers as CSR."""

    values: list[npt.NDArray[Any]]
    answer_column: npt.NDArray[np.int64]
    known: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]

    def known_of(self, query: int) -> set[int]:
        """Return the known answers of one query."""
        offsets, columns = self.known
        return {int(column) for column in columns[offsets[query] : offsets[query + 1]]}


@st.composite
def blocks(draw: st.DrawFn, elements: st.SearchStrategy[Any] | None, dtypes: tuple[str, ...]) -> Block:
    """Draw 1-4 models, 1-5 queries and 1-8 candidates; without ``elements`` the values are ranks 1..candidates."""
    n_models, n_queries, n_columns = draw(st.integers(1, 4)), draw(st.integers(1, 5)), draw(st.integers(1, 8))
    if elements is None:
        elements = st.integers(1, n_columns)
    matrices = st.sampled_from(dtypes).flatmap(lambda t: hnp.arrays(t, (n_queries, n_columns), elements=elements))
    values = [draw(matrices) for _ in range(n_models)]
    columns = st.integers(0, n_columns - 1)
    answer_column = np.array(draw(st.lists(columns, min_size=n_queries, max_size=n_queries)), dtype=np.int64)
    known = [draw(st.lists(columns, max_size=n_columns)) for _ in range(n_queries)]
    offsets = np.cumsum([0] + [len(row) for row in known])
    flat = np.array([column for row in known for column in row], dtype=np.int64)
    return Block(values, answer_column, (offsets, flat))


def rank_blocks() -> st.SearchStrategy[Block]:
    """Draw ranks as other programs write them: whole numbers of several types, with repeats."""
    return blocks(None, ("u2", ">i4", "i8", "f2", "f4"))


def score_blocks() -> st.SearchStrategy[Block]:
    """Draw scores from a handful of values, so that most candidates tie."""
    few = st.sampled_from([-2.0, -0.5, -0.0, 0.0, 0.25, 1.0, 1.0009765625])
    return blocks(few, ("f2", "f4", ">f8"))


def weights(n_models: int) -> st.SearchStrategy[list[int]]:
    """Draw non-negative whole weights, zeros frequent, never all zero."""
    one = st.one_of(st.just(0), st.integers(0, 4), st.integers(0, 2**20))
    return st.lists(one, min_size=n_models, max_size=n_models).filter(any)


tie_counts = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), min_size=1, max_size=12)
"""For each of 1-12 answers, the candidates ahead of it and level with it."""


def answer_ranks(pairs: list[tuple[int, int]]) -> AnswerRanks:
    """Return the ranks of answers with these numbers of candidates ahead and level."""
    ahead, tied = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return AnswerRanks(ahead, tied)
