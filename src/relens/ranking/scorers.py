"""Anything that can score, and the checks of what it returns, whether queries are ranked or answered."""

import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset
from relens.data.queries import DIRECTIONS, Queries
from relens.errors import MemberError
from relens.ranking.memory import batch_rows


class Scorer(Protocol):
    """Anything that can score.

    The attribute ``rows``, if there is one, is the number of queries of every call; the default is 64. All calls have
    the same number, and the last batch is filled up with repeats: scores may round differently in other shapes.
    """

    def score(self, queries: Queries) -> npt.NDArray[Any]:
        """Return a score for every entity as the answer of each of B queries, (B, E) floats, higher is better.

        Column e is the entity ``dataset.entities.labels[e]``. All scores must be finite; the caller leaves out known
        answers. ``queries.answer`` and ``queries.triple`` are all 0.
        """
        ...


class CheckedScorer:
    """A scorer that is asked in batches of one size, without the answers, and whose scores are checked.

    Attributes:
        name: the name of the model in messages.
        rows: the number of queries of every call.
    """

    def __init__(self, name: str, scorer: Scorer, dataset: Dataset) -> None:
        self.name, self._scorer, self._dataset = name, scorer, dataset
        rows = getattr(scorer, "rows", None)
        if rows is not None and (type(rows) is not int or rows < 1):
            raise MemberError(
                f"model {name!r}: its attribute rows is {rows!r}, expected a whole number of at least 1: how many "
                f"queries a call of score() gets. Correct it, or remove it for the default."
            )
        self.rows: int = rows or batch_rows(8 * len(dataset.entities))
        self._dtype: np.dtype[Any] | None = None

    def score(self, queries: Queries) -> npt.NDArray[Any]:
        """Return the scores of all entities, (b, E), for b queries, at least one; the array is a copy."""
        hidden = np.zeros_like(queries.answer)
        queries = replace(queries, answer=hidden, triple=hidden)
        scores = []
        for begin in range(0, len(queries), self.rows):
            # The last batch is filled up with repeats of its last query.
            at = np.arange(begin, begin + self.rows).clip(max=len(queries) - 1)
            scores.append(self._batch(queries[at])[: len(queries) - begin])
        return np.concatenate(scores)

    def _batch(self, queries: Queries) -> npt.NDArray[Any]:
        try:
            scores: object = self._scorer.score(queries)  # may break the protocol
        except (Exception, SystemExit) as error:  # a scorer can fail in any way, and a service goes on
            raise MemberError(
                f"model {self.name!r} failed in score() of {len(queries)} queries: {told(error)}"
            ) from error
        expected = f"model {self.name!r}, {len(queries)} queries: expected"
        if not isinstance(scores, np.ndarray):
            found = f"{type(scores).__module__}.{type(scores).__qualname__}"
            raise MemberError(f"{expected} scores as a numpy array, found {found}. Convert them at the end of score().")
        shape = len(queries), len(self._dataset.entities)
        if scores.shape != shape:
            raise MemberError(
                f"{expected} scores of shape {shape}, found {scores.shape}. Return a row per query and a column "
                f"per entity of {self._dataset.name}, in the order of dataset.entities.labels."
            )
        if scores.dtype.kind != "f" or scores.dtype.itemsize > 8:
            raise MemberError(
                f"{expected} scores as float16, float32 or float64, found {scores.dtype}. "
                f"End score() with .astype(numpy.float32)."
            )
        if self._dtype not in (None, scores.dtype):
            raise MemberError(
                f"{expected} scores as {self._dtype} as before, found {scores.dtype}. End score() with "
                f".astype(numpy.{self._dtype})."
            )
        self._dtype = scores.dtype
        if not (np.isfinite(scores.min()) and np.isfinite(scores.max())):
            raise MemberError(self._not_finite(scores, queries))
        return scores

    def _not_finite(self, scores: npt.NDArray[Any], queries: Queries) -> str:
        row, column = np.argwhere(~np.isfinite(scores))[0].tolist()
        entities, query = self._dataset.entities.labels, queries[row]
        asked = (
            f"({entities[int(query.anchor)]!r}, {self._dataset.relations.labels[int(query.relation)]!r}, "
            f"{DIRECTIONS[int(query.direction)]})"
        )
        return (
            f"model {self.name!r}, query {asked}: the score of entity {entities[column]!r} is {scores[row, column]}, "
            f"expected a finite number. Let relens filter known answers instead of masking them, and check that "
            f"training did not diverge."
        )


def told(error: BaseException) -> str:
    """Return the type and the text of an error in someone else's code, and the line that raised it."""
    *_, last = traceback.extract_tb(error.__traceback__)
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"{text} ({Path(last.filename).name}, line {last.lineno})"
