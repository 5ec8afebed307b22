"""Filtered ranks of answers among all entities, on the model's device, in chunks that fit into memory."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from relens.data.filters import KnownAnswers
from relens.data.queries import Queries
from relens.models.base import KGEModel

MEMORY = 2**30
"""Bytes that the scores of a chunk and what is computed from them may take."""
BYTES_PER_SCORE = 16
"""The score, and comparisons with the answer's."""

_log = logging.getLogger(__name__)


def filtered_ranks(
    model: KGEModel, queries: Queries, known: KnownAnswers, *, memory: int = MEMORY
) -> npt.NDArray[np.float64]:
    """Rank the answer of each query among all entities but its other known answers, (Q,) float64.

    The rank is 1 + #greater + #equal/2, decided in float32; a score that is no number counts as greater. Chunks are
    halved when memory runs out.
    """
    ranks = np.empty(len(queries))
    # Queries of one relation go together: some models prepare the entities once per relation.
    order = np.lexsort((queries.relation, queries.direction))
    rows = max(1, memory // (BYTES_PER_SCORE * model.n_entities))
    done = 0
    with scoring(model):
        while done < len(order):
            part = order[done : done + rows]
            try:
                ranks[part] = _ranks(model, queries[part], known)
            except RuntimeError as error:
                if rows == 1 or not _out_of_memory(error):
                    raise
                rows = (min(rows, len(part)) + 1) // 2
                _log.info("memory ran out: ranking %d queries at a time from here on", rows)
                if model.entity.is_cuda:
                    torch.cuda.empty_cache()
            else:
                done += len(part)
    return ranks


def mean_reciprocal_rank(model: KGEModel, queries: Queries, known: KnownAnswers, *, memory: int = MEMORY) -> float:
    """Return the filtered MRR of some queries, both directions counting alike."""
    return float((1.0 / filtered_ranks(model, queries, known, memory=memory)).mean())


@contextmanager
def scoring(model: KGEModel) -> Iterator[None]:
    """Evaluate inside: no dropout, no gradients, and full float32 products, because rounding makes ties."""
    was_training, precision = model.training, torch.get_float32_matmul_precision()
    model.eval()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_float32_matmul_precision(precision)
        model.train(was_training)


def _ranks(model: KGEModel, queries: Queries, known: KnownAnswers) -> npt.NDArray[np.float64]:
    """Rank the answers of one chunk, (B,)."""
    device = model.entity.device
    anchor, relation, answer = (
        torch.from_numpy(column.astype(np.int64)).to(device)
        for column in (queries.anchor, queries.relation + model.n_relations * queries.direction, queries.answer)
    )
    offsets, others = known.of(queries)
    owners = np.repeat(np.arange(len(queries)), np.diff(offsets))
    scores = model.score(model.encode(anchor, relation)).float()
    target = scores.gather(1, answer.unsqueeze(1))  # (B, 1)
    hidden = torch.from_numpy(owners).to(device), torch.from_numpy(others.astype(np.int64)).to(device)
    scores.index_put_(hidden, scores.new_tensor(-torch.inf))
    less, equal = _count(scores < target), _count(scores == target)
    greater = scores.shape[1] - less - equal
    return (1 + greater + (equal - 1) / 2).cpu().numpy()


def _count(where: Tensor) -> Tensor:
    return where.sum(dim=1, dtype=torch.float64)


def _out_of_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error)
