"""Your own models: anything that can score is packed, and no matrix of scores is written."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset
from relens.data.queries import EVALUATED, Queries
from relens.errors import RanksError
from relens.importers.arrays import check_models
from relens.importers.dense import Dense, Matrix, fit_scales, pack_dense, with_scales
from relens.packs.pack import PackedRanks, PackHeader
from relens.progress import SILENT, Progress
from relens.ranking.competition import Competition
from relens.ranking.memory import MEMORY_BUDGET
from relens.ranking.scorers import CheckedScorer, Scorer


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
    scores = [_Rows(CheckedScorer(name, scorer, dataset), competition.queries) for name, scorer in scorers.items()]
    if competition.candidates is None:
        matrices, answer = [rows.matrix(len(dataset.entities)) for rows in scores], header.queries.answer
    else:
        at_once = max(1, memory_budget // (16 * len(dataset.entities)))
        matrices = [_Picked(rows, competition, at_once).matrix() for rows in scores]
        answer = np.zeros_like(header.queries.answer)
    return Dense(header, "scores", matrices, answer, competition.excluded, serial=True)


@dataclass(frozen=True)
class _Rows:
    """The scores of one scorer for the queries of a split, computed when they are read."""

    scorer: CheckedScorer
    queries: Queries

    def matrix(self, n_entities: int) -> Matrix:
        """Return the (Q, E) matrix of all scores; the type is that of the first query."""
        place, dtype = f"model {self.scorer.name!r}", self(0, 1).dtype
        return Matrix(place, (len(self.queries), n_entities), dtype, n_entities, self, pick=self.pick)

    def __call__(self, begin: int, end: int) -> npt.NDArray[Any]:
        """Return the scores of the queries begin..end, (end - begin, E)."""
        return self.scorer.score(self.queries[begin:end])

    def pick(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return the scores of the queries at ``rows`` (n,), (n, E)."""
        return self.scorer.score(self.queries[rows])


@dataclass(frozen=True)
class _Picked:
    """The scores of the candidates of each query, picked from those of all entities, ``at_once`` queries at a time."""

    rows: _Rows
    competition: Competition
    at_once: int

    def matrix(self) -> Matrix:
        """Return the (Q, c + 1) matrix of the scores, the answer in column 0; the type is that of the first query."""
        place, shape = f"model {self.rows.scorer.name!r}", (len(self.rows.queries), self.competition.n_columns)
        return Matrix(place, shape, self(0, 1).dtype, shape[1], self, pick=self.pick)

    def __call__(self, begin: int, end: int) -> npt.NDArray[Any]:
        """Return the scores of the queries begin..end, (end - begin, c + 1)."""
        return self.pick(np.arange(begin, end))

    def pick(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return the scores of the queries at ``rows`` (n,), (n, c + 1)."""
        parts = []
        for first in range(0, len(rows), self.at_once):
            here = rows[first : first + self.at_once]
            entities = self.competition.competitors(here).entities
            assert entities is not None  # the queries have candidates of their own
            parts.append(np.take_along_axis(self.rows.pick(here), entities, axis=1))
        return np.concatenate(parts)
