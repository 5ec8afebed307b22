"""Your own models: anything that can score is packed, and no matrix of scores is written."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset
from relens.data.queries import DIRECTIONS, EVALUATED, Queries
from relens.errors import RanksError
from relens.importers.arrays import check_models
from relens.importers.dense import Dense, Matrix, fit_scales, pack_dense, with_scales
from relens.packs.pack import PackedRanks, PackHeader
from relens.progress import SILENT, Progress
from relens.ranking.competition import Competition
from relens.ranking.memory import MEMORY_BUDGET


class Scorer(Protocol):
    """Anything that can score."""

    def score(self, queries: Queries) -> npt.NDArray[Any]:
        """Return a score for every entity as the answer of each of B queries, (B, E) floats, higher is better.

        Column e is the entity ``dataset.entities.labels[e]``. All scores must be finite; the caller leaves out known
        answers. ``queries.answer`` is present, but must not be used.
        """
        ...


def pack_scorers(
    scorers: Mapping[str, Scorer],
    dataset: Dataset,
    folder: Path,
    *,
    gaps: bool = True,
    memory_budget: int = MEMORY_BUDGET,
    progress: Progress = SILENT,
) -> dict[str, PackedRanks]:
    """Rank the queries of valid and test with all scorers at once, and write the packed ranks.

    All entities compete but the known answers. Where the data set has candidates of its own, only those compete. All
    scorers score a block of queries before the next block, in order and in one thread.

    Args:
        scorers: by name, as in tables and weights.
        dataset: the data set; its entities are the columns of the scores.
        folder: receives the stores ``valid`` and ``test``; ``Run.receive_ranks`` yields the folder of a run.
        gaps: keep score gaps beside the ranks.
        memory_budget: bytes that blocks may take, without the memory of the scorers.
        progress: shows how many queries are packed.

    Returns:
        The packed ranks by split, memory-mapped.
    """
    sources = scorer_splits(scorers, dataset, gaps=gaps, memory_budget=memory_budget)
    return {
        split: pack_dense(dense, folder / split, memory_budget=memory_budget, progress=progress)
        for split, dense in sources.items()
    }


def scorer_splits(
    scorers: Mapping[str, Scorer], dataset: Dataset, *, gaps: bool = True, memory_budget: int = MEMORY_BUDGET
) -> dict[str, Dense]:
    """Return the scores of valid and test, which are computed when they are packed; see ``pack_scorers``."""
    check_models(list(scorers))
    sources = {split: _split(scorers, dataset, split, memory_budget) for split in EVALUATED}
    scales = fit_scales(sources["valid"]) if gaps else None
    return {split: with_scales(dense, scales) for split, dense in sources.items()}


def _split(scorers: Mapping[str, Scorer], dataset: Dataset, split: str, memory_budget: int) -> Dense:
    """Return the scores of a split; their rows are computed when they are read."""
    header = PackHeader.from_dataset(dataset, tuple(scorers), split)
    if not len(header.queries):
        raise RanksError(
            f"{dataset.name} has no triples in {split}: weights are searched on valid and evaluated on test, so both "
            f"need some. Hold some out of train."
        )
    competition = Competition.from_dataset(dataset, split)
    scores = [_Rows(name, scorer, dataset, split, competition.queries) for name, scorer in scorers.items()]
    if competition.candidates is None:
        matrices, answer = [rows.matrix() for rows in scores], header.queries.answer
    else:
        at_once = max(1, memory_budget // (16 * len(dataset.entities)))
        matrices = [_Picked(rows, competition, at_once).matrix() for rows in scores]
        answer = np.zeros_like(header.queries.answer)
    return Dense(header, "scores", matrices, answer, competition.excluded, serial=True)


@dataclass(frozen=True)
class _Rows:
    """The scores of one scorer for the queries of a split, computed and checked a block at a time."""

    name: str
    scorer: Scorer
    dataset: Dataset
    split: str
    queries: Queries

    def matrix(self) -> Matrix:
        """Return the (Q, E) matrix of all scores; the type is that of the first query."""
        n_entities = len(self.dataset.entities)
        return Matrix(f"model {self.name!r}", (len(self.queries), n_entities), self(0, 1).dtype, n_entities, self)

    def __call__(self, begin: int, end: int) -> npt.NDArray[Any]:
        """Return the scores of the queries begin..end, (end - begin, E)."""
        scores: object = self.scorer.score(self.queries[begin:end])  # may break the protocol
        expected = f"model {self.name!r}, queries {begin} to {end - 1} of {self.split}: expected"
        if not isinstance(scores, np.ndarray):
            found = f"{type(scores).__module__}.{type(scores).__qualname__}"
            raise RanksError(f"{expected} scores as a numpy array, found {found}. Convert them at the end of score().")
        shape = end - begin, len(self.dataset.entities)
        if scores.shape != shape:
            raise RanksError(
                f"{expected} scores of shape {shape}, found {scores.shape}. Return a row per query and a column "
                f"per entity of {self.dataset.name}, in the order of dataset.entities.labels."
            )
        if scores.dtype.kind != "f" or scores.dtype.itemsize > 8:
            raise RanksError(
                f"{expected} scores as float16, float32 or float64, found {scores.dtype}. "
                f"End score() with .astype(numpy.float32)."
            )
        if not (np.isfinite(scores.min()) and np.isfinite(scores.max())):
            raise RanksError(self._not_finite(scores, begin))
        return scores

    def _not_finite(self, scores: npt.NDArray[Any], begin: int) -> str:
        row, column = np.argwhere(~np.isfinite(scores))[0].tolist()
        entities, query = self.dataset.entities.labels, self.queries[begin + row]
        asked = (
            f"({entities[int(query.anchor)]!r}, {self.dataset.relations.labels[int(query.relation)]!r}, "
            f"{DIRECTIONS[int(query.direction)]})"
        )
        return (
            f"model {self.name!r}, query {begin + row} of {self.split} {asked}: the score of entity "
            f"{entities[column]!r} is {scores[row, column]}, expected a finite number. Let "
            f"relens filter known answers instead of masking them, and check that training did not diverge."
        )


@dataclass(frozen=True)
class _Picked:
    """The scores of the candidates of each query, picked from those of all entities, ``at_once`` queries at a time."""

    rows: _Rows
    competition: Competition
    at_once: int

    def matrix(self) -> Matrix:
        """Return the (Q, c + 1) matrix of the scores, the answer in column 0; the type is that of the first query."""
        shape = len(self.rows.queries), self.competition.n_columns
        return Matrix(f"model {self.rows.name!r}", shape, self(0, 1).dtype, shape[1], self)

    def __call__(self, begin: int, end: int) -> npt.NDArray[Any]:
        """Return the scores of the queries begin..end, (end - begin, c + 1)."""
        parts = []
        for first in range(begin, end, self.at_once):
            here = slice(first, min(first + self.at_once, end))
            entities = self.competition.competitors(here).entities
            assert entities is not None  # the queries have candidates of their own
            parts.append(np.take_along_axis(self.rows(here.start, here.stop), entities, axis=1))
        return np.concatenate(parts)
