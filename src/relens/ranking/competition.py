"""Which candidates compete with the answer of a query."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from relens.data.candidates import Candidates, Rows
from relens.data.dataset import Dataset
from relens.data.known_answers import KnownAnswers
from relens.data.queries import Queries
from relens.data.restriction import Restriction
from relens.errors import RanksError

Exclusions = tuple[npt.NDArray[Any], npt.NDArray[Any]]
"""Columns to leave out: those of query q are ``columns[offsets[q]:offsets[q + 1]]``; (b + 1,) and (m,)."""


class Competitors(NamedTuple):
    """The candidates of b queries, as columns of an array of scores (b, C).

    Attributes:
        entities: the entity of each column, (b, C) int32; None where column e is entity e.
        answer: the column of the answer, (b,) int32.
        excluded: the columns that do not compete.
    """

    entities: npt.NDArray[np.int32] | None
    answer: npt.NDArray[np.int32]
    excluded: Exclusions


@dataclass(frozen=True)
class Competition:
    """Q queries whose answers compete with all entities but the known answers, or with given candidates.

    Attributes:
        queries: the Q queries.
        known: the known answers, which do not compete.
        candidates: the candidates of these very queries; they replace ``known``.
        restriction: the entities that may compete, beside the answer itself; None for all.
    """

    queries: Queries
    known: KnownAnswers | None = None
    candidates: Candidates | None = None
    restriction: Restriction | None = None

    def __post_init__(self) -> None:
        if (self.known is None) == (self.candidates is None):
            raise RanksError("a competition takes known answers or candidates: expected one of them, and not both.")

    @classmethod
    def from_dataset(cls, dataset: Dataset, split: str) -> Self:
        """Take the queries of a split, and its candidates where the data set has some."""
        candidates = dataset.candidates.get(split)
        known = dataset.known_answers if candidates is None else None
        return cls(dataset.queries(split), known, candidates, dataset.restriction)

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def n_columns(self) -> int:
        """C: the largest number of columns that ``competitors`` returns."""
        if self.candidates is not None:
            return self.candidates.n_columns
        assert self.known is not None  # see __post_init__
        return self.known.n_entities

    def competitors(self, rows: Rows) -> Competitors:
        """Return the candidates of the queries at ``rows``."""
        answer = self.queries.answer[rows]
        if self.candidates is None:
            return Competitors(None, answer, self.excluded(rows))
        entities = self.candidates.columns(rows, answer)
        return Competitors(entities, np.zeros_like(answer), self.excluded(rows))

    def excluded(self, rows: Rows) -> Exclusions:
        """Return the columns in which the queries at ``rows`` have no candidate."""
        if self.candidates is not None:
            return self.candidates.absent(rows)
        assert self.known is not None  # see __post_init__
        queries = self.queries[rows]
        known = self.known.other_answers(queries)
        return known if self.restriction is None else self.restriction.excluded(queries, known)
