"""From trained models to packed ranks: queries stream through all models at once, no dense matrix reaches the disk."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from relens.data.dataset import Dataset
from relens.data.queries import EVALUATED, Queries
from relens.models.base import KGEModel, current
from relens.packs.manifest import pack_header
from relens.packs.pack import PackedRanks
from relens.packs.packing import Exclusions, PackedBlock, fit_gap_scales, rank_dtype, scale_gaps
from relens.packs.store import PackWriter, load_pack
from relens.progress import SILENT, Progress
from relens.ranking.batches import MEMORY_BUDGET, batch_rows

BYTES_PER_SCORE = 48
"""Scores, their order, ranks and masks, per model, query and candidate."""
SCALE_QUERIES = 64
"""Validation queries that gap scales are fitted on."""


class Ranker:
    """Several models of one data set, on one device, that rank the same queries.

    All entities compete but the known answers; where the data set has candidates, those alone compete and are scored.
    Models are switched to evaluation; scores are float32, never rounded further before they are ranked.
    """

    def __init__(self, models: Mapping[str, KGEModel], dataset: Dataset, *, memory_budget: int = MEMORY_BUDGET) -> None:
        self.models = {name: model.eval() for name, model in models.items()}
        self.dataset = dataset
        self.device = next(iter(models.values())).device
        n_columns = max(map(dataset.n_candidates, EVALUATED))
        self.block = max(1, memory_budget // (BYTES_PER_SCORE * len(models) * n_columns))

    def fit_scales(self) -> npt.NDArray[np.float64]:
        """Return the scales of the score gaps, (N,), from an even sample of the validation queries."""
        queries = self.dataset.queries("valid")
        sample = np.arange(0, len(queries), max(1, len(queries) // SCALE_QUERIES) | 1)
        parts = [
            self._compared("valid", queries, sample[at : at + self.block]) for at in range(0, len(sample), self.block)
        ]
        scores = np.concatenate([part[0].cpu().numpy() for part in parts], axis=1)
        answer = np.concatenate([part[1] for part in parts])
        counts = np.concatenate([np.diff(part[2][0]) for part in parts])
        known = np.concatenate([[0], np.cumsum(counts)]), np.concatenate([part[2][1] for part in parts])
        return fit_gap_scales(list(scores), answer, known)

    def pack(
        self, split: str, path: Path, gap_scales: npt.NDArray[np.float64] | None, *, progress: Progress = SILENT
    ) -> PackedRanks:
        """Rank a split's queries with all models, and keep the packed ranks at ``path``."""
        header = pack_header(self.dataset, tuple(self.models), split, gap_scales)
        with (
            PackWriter.open(path, header, self.dataset.n_candidates(split)) as writer,
            progress.task(f"ranking {split}", len(header.queries)) as advance,
        ):
            for block in self._blocks(split, header.queries, gap_scales):
                writer.append(block)
                advance(len(block.counts))
        return load_pack(path)

    def _blocks(
        self, split: str, queries: Queries, gap_scales: npt.NDArray[np.float64] | None
    ) -> Iterator[PackedBlock]:
        """Yield packed blocks; when memory runs out, blocks become half as large."""
        at = 0
        while at < len(queries):
            here = np.arange(at, min(at + self.block, len(queries)))
            try:
                block = pack_on_device(*self._compared(split, queries, here), gap_scales)
            except torch.OutOfMemoryError:
                if self.block == 1:
                    raise
                torch.cuda.empty_cache()
                self.block //= 2
                continue
            yield block
            at += len(here)

    def _compared(
        self, split: str, queries: Queries, rows: npt.NDArray[np.int64]
    ) -> tuple[Tensor, npt.NDArray[np.int32], Exclusions]:
        """Return the scores of the queries at ``rows`` (N, b, C), the answers' columns (b,), and those to leave out."""
        here, candidates = queries[rows], self.dataset.candidates.get(split)
        if candidates is None:
            return self._scores(here), here.answer, self.dataset.known_answers.other_answers(here)
        scores = self._scores(here, candidates.columns(rows, here.answer))
        return scores, np.zeros_like(here.answer), candidates.absent(rows)

    def _scores(self, queries: Queries, columns: npt.NDArray[np.int32] | None = None) -> Tensor:
        """Return the scores of all entities, (N, b, E) float32, or of those in ``columns`` (b, C)."""
        return torch.stack([score_queries(model, queries, columns) for model in self.models.values()])


@dataclass(frozen=True)
class ModelScorer:
    """A model as a ``relens.importers.scorers.Scorer``, to be packed beside models that are not relens' own."""

    model: KGEModel

    def score(self, queries: Queries) -> npt.NDArray[np.float32]:
        """Return the scores of all candidates, (b, E)."""
        scores: npt.NDArray[np.float32] = score_queries(self.model.eval(), queries).cpu().numpy()
        return scores


@torch.no_grad()
def score_queries(model: KGEModel, queries: Queries, columns: npt.NDArray[np.int32] | None = None) -> Tensor:
    """Return the scores of all candidates of some queries, (b, E) float32, where the model is.

    With ``columns`` (b, C), each query's candidates are the entities in its row, and the result is (b, C).
    Scores are computed in batches of one shape, so that they do not depend on what else is asked.
    """
    # Rows of the table are copied for each query where it has candidates of its own.
    rows = batch_rows(model.n_entities if columns is None else columns.shape[1] * model.bytes_per_candidate // 4)
    device = model.device
    filled = torch.arange(-(-len(queries) // rows) * rows, device=device).clamp_(max=len(queries) - 1)
    anchor = torch.as_tensor(queries.anchor, device=device).long()[filled]
    relation = torch.as_tensor(queries.relation + model.n_relations * queries.direction, device=device).long()[filled]
    batches = zip(torch.split(anchor, rows), torch.split(relation, rows), torch.split(filled, rows), strict=True)
    chosen = None if columns is None else torch.as_tensor(columns, device=device)
    with current(device):
        scores = [
            model.score(model.encode(anchors, relations), None if chosen is None else chosen[place].long()).float()
            for anchors, relations, place in batches
        ]
    return torch.cat(scores)[: len(queries)]


@torch.no_grad()
def pack_on_device(
    scores: Tensor, answer: npt.NDArray[np.int32], known: Exclusions, gap_scales: npt.NDArray[np.float64] | None
) -> PackedBlock:
    """Pack scores (N, b, E) where they are; the same block as ``relens.packs.packing.pack_scores``."""
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
