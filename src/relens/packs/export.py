"""From trained models to packed ranks: all models score each batch of queries, and no dense matrix is written."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from relens.data.dataset import Dataset
from relens.data.queries import EVALUATED, Queries
from relens.models.base import KGEModel
from relens.packs.pack import PackedBlock, PackedRanks, PackHeader
from relens.packs.packing import rank_dtype, scale_gaps, scale_rows, scales_from_gaps, typical_gaps
from relens.packs.store import PackWriter, load_pack
from relens.progress import SILENT, Progress
from relens.ranking.answer_ranks import doubled_rank
from relens.ranking.competition import Competition, Exclusions
from relens.ranking.memory import Batches
from relens.ranking.scorers import CheckedScorer
from relens.ranking.scoring import budget_of, score_queries

BYTES_PER_SCORE = 48
"""Scores, their order, ranks and masks, per model, query and candidate."""


class Ranker:
    """Several models of one data set that rank the same queries. Models of relens are on one device.

    All entities compete but the known answers. Where the data set has candidates, only those compete. Models of relens
    score only them; scorers score all entities.

    Attributes:
        models: by name, models of relens and scorers; the order of the packed ranks.
        dataset: the data set of the queries.
        batches: how many queries are ranked together; halved when memory runs out.
    """

    def __init__(
        self, models: Mapping[str, KGEModel | CheckedScorer], dataset: Dataset, *, memory_budget: int | None = None
    ) -> None:
        """Take models; ``memory_budget`` is in bytes, None for 1 GiB or a sixteenth of a GPU's memory."""
        self.models, self.dataset = dict(models), dataset
        own = [model.device for model in models.values() if isinstance(model, KGEModel)]
        self._device = own[0] if own else torch.device("cpu")
        n_columns = max(map(dataset.n_candidates, EVALUATED))
        budget = budget_of(self._device) if memory_budget is None else memory_budget
        self.batches = Batches(budget // (BYTES_PER_SCORE * len(models) * n_columns))

    def fit_scales(self) -> npt.NDArray[np.float64]:
        """Return the scales of the score gaps, (N,), from an even sample of the validation queries."""
        competition = Competition.from_dataset(self.dataset, "valid")
        sample = scale_rows(len(competition))

        def gaps(part: slice) -> npt.NDArray[np.float64]:
            entities, answer, excluded = competition.competitors(sample[part])
            scores = self._scores(competition.queries[sample[part]], entities).cpu().numpy()
            return typical_gaps(scores, answer, excluded)

        return scales_from_gaps(np.concatenate(list(self.batches.over(len(sample), gaps)), axis=1))

    def pack(
        self, split: str, path: Path, gap_scales: npt.NDArray[np.float64] | None, *, progress: Progress = SILENT
    ) -> PackedRanks:
        """Rank the queries of a split with all models, and write the packed ranks to ``path``."""
        header = PackHeader.from_dataset(self.dataset, tuple(self.models), split, gap_scales)
        competition = Competition.from_dataset(self.dataset, split)

        def pack(part: slice) -> PackedBlock:
            entities, answer, excluded = competition.competitors(part)
            return pack_on_device(self._scores(competition.queries[part], entities), answer, excluded, gap_scales)

        with (
            PackWriter.open(path, header, competition.n_columns) as writer,
            progress.task(f"ranking {split}", len(competition)) as advance,
        ):
            for block in self.batches.over(len(competition), pack):
                writer.append(block)
                advance(len(block.counts))
        return load_pack(path)

    def _scores(self, queries: Queries, entities: npt.NDArray[np.int32] | None = None) -> Tensor:
        """Return the scores of all entities, (N, b, E), or of those in ``entities`` (b, C).

        They are float32, or float64 if any scorer returns that: no score is rounded.
        """
        found = [self._scores_by(model, queries, entities) for model in self.models.values()]
        wide = any(scores.dtype == torch.float64 for scores in found)
        return torch.stack([scores.to(torch.float64 if wide else torch.float32) for scores in found])

    def _scores_by(
        self, model: KGEModel | CheckedScorer, queries: Queries, entities: npt.NDArray[np.int32] | None
    ) -> Tensor:
        if isinstance(model, KGEModel):
            return score_queries(model, queries, entities)
        scores = model.score(queries)
        if entities is not None:
            scores = np.take_along_axis(scores, entities, axis=1)
        return torch.from_numpy(scores).to(self._device)


@torch.no_grad()
def pack_on_device(
    scores: Tensor, answer: npt.NDArray[np.int32], excluded: Exclusions, gap_scales: npt.NDArray[np.float64] | None
) -> PackedBlock:
    """Pack scores (N, b, C) on their device, into the block that ``relens.packs.packing.pack_scores`` returns."""
    n_rows, n_columns = scores.shape[1:]
    column = torch.as_tensor(answer, device=scores.device).long()
    own = scores.gather(2, column.expand(len(scores), -1).unsqueeze(2))  # (N, b, 1)
    row = np.repeat(np.arange(n_rows), np.diff(excluded[0]))
    filtered = torch.as_tensor(row * n_columns + excluded[1], device=scores.device).long()
    values = scores.flatten(1).index_fill(1, filtered, -torch.inf).view_as(scores)
    above, below = (values > own).all(dim=0), (values < own).all(dim=0)
    contested = ~(above | below)
    contested.scatter_(1, column.unsqueeze(1), False)
    at = contested.flatten().nonzero().squeeze(1)
    columns, is_contested = _ranked_columns(column, at, contested.sum(dim=1), n_columns)
    ranks = torch.stack([_doubled_ranks(rows, columns) for rows in values])  # (N, b, 1 + most contested)
    doubled, narrow = ranks.cpu().numpy(), rank_dtype(n_columns)
    kept = is_contested.cpu().numpy()
    counts = kept.sum(axis=1)
    gaps = None
    if gap_scales is not None:
        own_scores = np.repeat(own.squeeze(2).cpu().numpy(), counts, axis=1)
        gaps = scale_gaps(values.flatten(1)[:, at].cpu().numpy(), own_scores, gap_scales)
    return PackedBlock(
        answer=doubled[:, :, 0].astype(narrow),
        n_candidates=(n_columns - np.diff(excluded[0])).astype(np.int32),
        always_ahead=above.sum(dim=1).cpu().numpy().astype(np.int32),
        counts=counts,
        contested=doubled[:, :, 1:][:, kept].astype(narrow),
        gaps=gaps,
    )


def _ranked_columns(answer: Tensor, contested: Tensor, counts: Tensor, n_columns: int) -> tuple[Tensor, Tensor]:
    """Return the columns whose ranks are kept: the answer and the contested ones of each of b rows.

    Args:
        answer: column of the answer, (b,).
        contested: places in the flat rows, ascending, (m,).
        counts: how many of them each row has, (b,).
        n_columns: length of a row.

    Returns:
        columns (b, 1 + k), the answer first, rows filled up with it; and where the others are contested, (b, k).
    """
    steps = torch.arange(int(counts.max()), device=answer.device)
    is_contested = steps < counts.unsqueeze(1)
    columns = answer.unsqueeze(1).repeat(1, 1 + len(steps))
    columns[:, 1:][is_contested] = contested % n_columns
    return columns, is_contested


def _doubled_ranks(scores: Tensor, columns: Tensor) -> Tensor:
    """Return the doubled mean ranks of some scores within their rows of (b, C): those in ``columns`` (b, k), int64."""
    # On a CPU, numpy sorts an order of magnitude faster than PyTorch, which sorts places as well.
    ordered = scores.sort(dim=1).values if scores.is_cuda else torch.from_numpy(np.sort(scores.numpy(), axis=1))
    picked = scores.gather(1, columns)
    right = torch.searchsorted(ordered, picked, right=True)
    left = torch.searchsorted(ordered, picked)
    doubled: Tensor = doubled_rank(scores.shape[1] - right, right - left)
    return doubled
