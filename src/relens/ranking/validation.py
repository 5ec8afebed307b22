"""Ranks of answers by one model, on the device of the model."""

import numpy as np
import numpy.typing as npt
import torch

from relens.metrics.mrr import mrr
from relens.models.base import KGEModel
from relens.ranking.answer_ranks import AnswerRanks
from relens.ranking.competition import Competition
from relens.ranking.memory import MEMORY_BUDGET, Batches
from relens.ranking.scoring import encodable_rows, evaluating, score_batch

BYTES_PER_SCORE = 16
"""A score and its comparisons with the score of the answer."""


def answer_ranks(model: KGEModel, competition: Competition, *, memory: int = MEMORY_BUDGET) -> AnswerRanks:
    """Rank the answer of each query among its competitors.

    Scores are compared in float32. A score that is not a number counts as ahead of the answer. Batches take up to
    ``memory`` bytes, and are halved when memory runs out.
    """
    ahead, tied = np.empty((2, len(competition)), dtype=np.int64)
    # Some models prepare the entities once per relation, so queries of one relation are scored together, and others
    # encode equal queries once.
    queries = competition.queries
    order = np.lexsort((queries.anchor, queries.relation, queries.direction))
    batches = Batches(min(memory // _bytes_per_query(model, competition), encodable_rows(model)))

    def rank(part: slice) -> None:
        rows = order[part]
        ahead[rows], tied[rows] = _counts(model, competition, rows)

    with evaluating(model):
        for _ in batches.over(len(order), rank):
            pass
    return AnswerRanks(ahead, tied)


def mean_reciprocal_rank(model: KGEModel, competition: Competition, *, memory: int = MEMORY_BUDGET) -> float:
    """Return the MRR of all queries, both directions together; see ``answer_ranks``."""
    return mrr(answer_ranks(model, competition, memory=memory).realistic)


def _bytes_per_query(model: KGEModel, competition: Competition) -> int:
    """Return the memory of one query: its scores, and the candidates' embeddings where it has its own candidates."""
    copied = 0 if competition.candidates is None else model.bytes_per_candidate
    return (BYTES_PER_SCORE + copied) * competition.n_columns


def _counts(
    model: KGEModel, competition: Competition, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Count the candidates ahead of the answers of some queries, and the others level with them, (b,) each."""
    entities, column, (offsets, excluded) = competition.competitors(rows)
    scores = score_batch(model, competition.queries[rows], entities)
    own = scores.gather(1, torch.as_tensor(column, device=scores.device).long().unsqueeze(1))
    owners = np.repeat(np.arange(len(rows)), np.diff(offsets))
    row, hidden = (torch.as_tensor(index, device=scores.device).long() for index in (owners, excluded))
    scores.index_put_((row, hidden), scores.new_tensor(-torch.inf))
    behind, level = _count(scores < own), np.maximum(_count(scores == own), 1)  # itself at least
    return scores.shape[1] - behind - level, level - 1


def _count(chosen: torch.Tensor) -> npt.NDArray[np.int64]:
    """Return how many numbers are true in each row of (b, C), (b,)."""
    if chosen.is_cuda:
        counts: npt.NDArray[np.int64] = chosen.sum(dim=1).cpu().numpy()
        return counts
    # On a CPU, PyTorch turns every truth value into an integer of eight bytes first.
    return np.array([np.count_nonzero(row) for row in chosen.numpy()], dtype=np.int64)
