"""Ranks of answers among all entities or given candidates, on the model's device, in chunks that fit into memory."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from relens.data.candidates import Candidates
from relens.data.known_answers import KnownAnswers
from relens.data.queries import Queries
from relens.models.base import KGEModel, current

MEMORY = 2**30
"""Bytes that the scores of a chunk and what is computed from them may take."""
BYTES_PER_SCORE = 16
"""The score, and comparisons with the answer's."""

_log = logging.getLogger(__name__)


def filtered_ranks(
    model: KGEModel,
    queries: Queries,
    known: KnownAnswers | None,
    candidates: Candidates | None = None,
    *,
    memory: int = MEMORY,
) -> npt.NDArray[np.float64]:
    """Rank the answer of each query among all entities but its other ``known`` answers, (Q,) float64.

    With ``candidates``, of these very queries, it competes with them alone, and nothing else needs to be known. The
    rank is 1 + #greater + #equal/2, decided in float32; a score that is no number counts as greater. Chunks are halved
    when memory runs out.
    """
    ranks = np.empty(len(queries))
    # Queries of one relation go together: some models prepare the entities once per relation.
    order = np.lexsort((queries.relation, queries.direction))
    rows = max(1, memory // _bytes_per_query(model, candidates))
    done = 0
    with scoring(model):
        while done < len(order):
            part = order[done : done + rows]
            try:
                ranks[part] = _ranks(*_compared(model, queries[part], known, candidates, part))
            except RuntimeError as error:
                if rows == 1 or not _out_of_memory(error):
                    raise
                rows = (min(rows, len(part)) + 1) // 2
                _log.info("memory ran out: ranking %d queries at a time from here on", rows)
                if model.device.type == "cuda":
                    torch.cuda.empty_cache()
            else:
                done += len(part)
    return ranks


def mean_reciprocal_rank(
    model: KGEModel,
    queries: Queries,
    known: KnownAnswers | None,
    candidates: Candidates | None = None,
    *,
    memory: int = MEMORY,
) -> float:
    """Return the MRR of some queries, both directions counting alike; the arguments are ``filtered_ranks``'s."""
    return float((1.0 / filtered_ranks(model, queries, known, candidates, memory=memory)).mean())


@contextmanager
def scoring(model: KGEModel) -> Iterator[None]:
    """Evaluate inside: no dropout, no gradients, and full float32 products, because rounding makes ties."""
    was_training, precision = model.training, torch.get_float32_matmul_precision()
    model.eval()
    torch.set_float32_matmul_precision("highest")
    try:
        with current(model.device), torch.no_grad():
            yield
    finally:
        torch.set_float32_matmul_precision(precision)
        model.train(was_training)


def _bytes_per_query(model: KGEModel, candidates: Candidates | None) -> int:
    """Return what a query takes: its scores, and the rows of the table that are copied for candidates of its own."""
    if candidates is None:
        return BYTES_PER_SCORE * model.n_entities
    return (BYTES_PER_SCORE + model.bytes_per_candidate) * candidates.n_columns


def _compared(
    model: KGEModel,
    queries: Queries,
    known: KnownAnswers | None,
    candidates: Candidates | None,
    rows: npt.NDArray[np.int64],
) -> tuple[Tensor, Tensor]:
    """Return the scores that compete in one chunk, (B, C), the others at -∞, and those of the answers, (B, 1)."""
    device = model.device
    anchor, relation, answer = (
        torch.from_numpy(column.astype(np.int64)).to(device)
        for column in (queries.anchor, queries.relation + model.n_relations * queries.direction, queries.answer)
    )
    left_out: tuple[npt.NDArray[Any], npt.NDArray[Any]]
    if candidates is None:
        assert known is not None  # nothing else says who competes
        left_out, place, columns = known.other_answers(queries), answer.unsqueeze(1), None
    else:
        left_out, place = candidates.absent(rows), torch.zeros_like(answer).unsqueeze(1)
        columns = torch.from_numpy(candidates.columns(rows, queries.answer).astype(np.int64)).to(device)
    offsets, others = left_out
    owners = np.repeat(np.arange(len(queries)), np.diff(offsets))
    scores = model.score(model.encode(anchor, relation), columns).float()
    hidden = torch.from_numpy(owners).to(device), torch.from_numpy(others.astype(np.int64)).to(device)
    own = scores.gather(1, place)
    scores.index_put_(hidden, scores.new_tensor(-torch.inf))
    return scores, own


def _ranks(scores: Tensor, own: Tensor) -> npt.NDArray[np.float64]:
    """Rank scores ``own`` (B, 1), which are among ``scores`` (B, C)."""
    less, equal = _count(scores < own), _count(scores == own)
    greater = scores.shape[1] - less - equal
    return (1 + greater + (equal - 1) / 2).cpu().numpy()


def _count(where: Tensor) -> Tensor:
    return where.sum(dim=1, dtype=torch.float64)


def _out_of_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error)
