"""From trained models to packed ranks: queries stream through all models at once, no dense matrix reaches the disk."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from relens.data.dataset import Dataset
from relens.data.filters import KnownAnswers
from relens.data.queries import Queries
from relens.models.base import KGEModel
from relens.progress import SILENT, Progress
from relens.ranks.packed import PackedRanks
from relens.ranks.packing import Known, PackedBlock, fit_gap_scales, rank_dtype, scale_gaps
from relens.ranks.scorers import batch_rows, pack_header
from relens.ranks.store import PackWriter, load

MEMORY_BUDGET = 2**30
BYTES_PER_SCORE = 48
"""Scores, their order, ranks and masks, per model, query and candidate."""
SCALE_QUERIES = 64
"""Validation queries that gap scales are fitted on."""


class Ranker:
    """Several models of one data set, on one device, that rank the same queries.

    Models are switched to evaluation; scores are float32, never rounded further before they are ranked.
    """

    def __init__(self, models: Mapping[str, KGEModel], dataset: Dataset, *, memory_budget: int = MEMORY_BUDGET) -> None:
        self.models = {name: model.eval() for name, model in models.items()}
        self.dataset = dataset
        self.device = next(iter(models.values())).entity.device
        self.known = KnownAnswers.build(list(dataset.splits.values()), len(dataset.entities), len(dataset.relations))
        self.block = max(1, memory_budget // (BYTES_PER_SCORE * len(models) * len(dataset.entities)))

    def fit_scales(self) -> npt.NDArray[np.float64]:
        """Return the scales of the score gaps, (N,), from an even sample of the validation queries."""
        queries = self.dataset.queries("valid")
        sample = queries[:: max(1, len(queries) // SCALE_QUERIES) | 1]
        parts = [sample[at : at + self.block] for at in range(0, len(sample), self.block)]
        scores = np.concatenate([self._scores(part).cpu().numpy() for part in parts], axis=1)
        return fit_gap_scales(list(scores), sample.answer, self.known.of(sample))

    def pack(
        self, split: str, path: Path, gap_scales: npt.NDArray[np.float64] | None, *, progress: Progress = SILENT
    ) -> PackedRanks:
        """Rank a split's queries with all models, known answers left out, and keep the packed ranks at ``path``."""
        header = pack_header(self.dataset, tuple(self.models), split, gap_scales)
        with (
            PackWriter.open(path, header, len(self.dataset.entities)) as writer,
            progress.task(f"ranking {split}", len(header.queries)) as advance,
        ):
            for block in self._blocks(header.queries, gap_scales):
                writer.append(block)
                advance(len(block.counts))
        return load(path)

    def _blocks(self, queries: Queries, gap_scales: npt.NDArray[np.float64] | None) -> Iterator[PackedBlock]:
        """Yield packed blocks; when memory runs out, blocks become half as large."""
        at = 0
        while at < len(queries):
            here = queries[at : at + self.block]
            try:
                block = pack_on_device(self._scores(here), here.answer, self.known.of(here), gap_scales)
            except torch.OutOfMemoryError:
                if self.block == 1:
                    raise
                torch.cuda.empty_cache()
                self.block //= 2
                continue
            yield block
            at += len(here)

    def _scores(self, queries: Queries) -> Tensor:
        """Return the scores of all candidates, (N, b, E) float32."""
        return torch.stack([score_queries(model, queries) for model in self.models.values()])


@dataclass(frozen=True)
class ModelScorer:
    """A model as a ``relens.ranks.scorers.Scorer``, to be packed beside models that are not relens' own."""

    model: KGEModel

    def score(self, queries: Queries) -> npt.NDArray[np.float32]:
        """Return the scores of all candidates, (b, E)."""
        scores: npt.NDArray[np.float32] = score_queries(self.model.eval(), queries).cpu().numpy()
        return scores


@torch.no_grad()
def score_queries(model: KGEModel, queries: Queries) -> Tensor:
    """Return the scores of all candidates of some queries, (b, E) float32, where the model is.

    They are computed in batches of one shape, so that they do not depend on what else is asked.
    """
    rows = batch_rows(model.n_entities)
    device = model.entity.device
    filled = torch.arange(-(-len(queries) // rows) * rows, device=device).clamp_(max=len(queries) - 1)
    anchor = torch.as_tensor(queries.anchor, device=device).long()[filled]
    relation = torch.as_tensor(queries.relation + model.n_relations * queries.direction, device=device).long()[filled]
    batches = zip(torch.split(anchor, rows), torch.split(relation, rows), strict=True)
    scores = torch.cat([model.score(model.encode(*batch)).float() for batch in batches])
    return scores[: len(queries)]


@torch.no_grad()
def pack_on_device(
    scores: Tensor, answer: npt.NDArray[np.int32], known: Known, gap_scales: npt.NDArray[np.float64] | None
) -> PackedBlock:
    """Pack scores (N, b, E) where they are; the same block as ``relens.ranks.packing.pack_scores``."""
    n_rows, n_columns = scores.shape[1:]
    column = torch.as_tensor(answer, device=scores.device).long()
    own = scores.gather(2, column.expand(len(scores), -1).unsqueeze(2))  # (N, b, 1)
    row = np.repeat(np.arange(n_rows), np.diff(known[0]))
    filtered = torch.as_tensor(row * n_columns + known[1], device=scores.device).long()
    values = scores.flatten(1).index_fill(1, filtered, -torch.inf).view_as(scores)
    above, below = (values > own).all(dim=0), (values < own).all(dim=0)
    contested = ~(above | below)
    contested.scatter_(1, column.unsqueeze(1), False)
    at = contested.flatten().nonzero().squeeze(1)
    answers = torch.arange(n_rows, device=scores.device) * n_columns + column
    picked = torch.cat([answers, at])
    doubled = torch.stack([_doubled_ranks(rows).flatten()[picked] for rows in values]).cpu().numpy()
    doubled = doubled.astype(rank_dtype(n_columns))
    counts = contested.sum(dim=1).cpu().numpy()
    gaps = None
    if gap_scales is not None:
        of_candidates = values.flatten(1)[:, at].cpu().numpy()
        gaps = scale_gaps(of_candidates, np.repeat(own.squeeze(2).cpu().numpy(), counts, axis=1), gap_scales)
    return PackedBlock(
        answer=doubled[:, :n_rows],
        n_candidates=(n_columns - np.diff(known[0])).astype(np.int32),
        always_ahead=above.sum(dim=1).cpu().numpy().astype(np.int32),
        counts=counts,
        contested=doubled[:, n_rows:],
        gaps=gaps,
    )


def _doubled_ranks(scores: Tensor) -> Tensor:
    """Return the doubled mean rank of every score within its row, (b, E) int64."""
    ordered = scores.sort(dim=1).values
    right = torch.searchsorted(ordered, scores, right=True)
    left = torch.searchsorted(ordered, scores)
    return 2 * (scores.shape[1] - right) + (right - left) + 1
