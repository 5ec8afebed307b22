"""Scores of queries: by relens's own models, and by anything else that can score."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from relens.data.queries import Queries
from relens.models import cpu
from relens.models.base import KGEModel, current
from relens.models.embedding import EmbeddingModel
from relens.ranking.memory import MEMORY_BUDGET, OF_ALL_ENTITIES, Batches, batch_rows

_MOST_ROWS: WeakKeyDictionary[KGEModel, int] = WeakKeyDictionary()
"""Queries that models can score together, for those that memory once ran out for."""


def encodable_rows(model: KGEModel) -> int:
    """Return how many queries a model may encode together.

    They take up to a sixteenth of a GPU's memory, and on a CPU what scores may take.
    """
    if not model.bytes_per_query:
        return sys.maxsize
    return max(1, budget_of(model.device) // model.bytes_per_query)


def budget_of(device: torch.device) -> int:
    """Return the bytes that a batch may take on a device: a sixteenth of a GPU's memory, or ``MEMORY_BUDGET``."""
    if device.type != "cuda":
        return MEMORY_BUDGET
    return int(torch.cuda.get_device_properties(device).total_memory) // 16


@contextmanager
def evaluating(model: KGEModel) -> Iterator[None]:
    """Score inside the context: no dropout, no gradients, the model's device, and full float32 products.

    Coarser products would make ties.
    """
    was_training, precision = model.training, torch.get_float32_matmul_precision()
    model.eval()
    torch.set_float32_matmul_precision("highest")
    try:
        with current(model.device), torch.no_grad():
            yield
    finally:
        torch.set_float32_matmul_precision(precision)
        model.train(was_training)


def score_batch(model: KGEModel, queries: Queries, entities: npt.NDArray[np.int32] | None = None) -> Tensor:
    """Return the scores of all entities, (b, E) float32, or of those in ``entities`` (b, C), in one batch.

    The scores are on the device of the model. Call this inside ``evaluating``.
    """
    anchor, relation, chosen = _on_device(model, queries, entities)
    if chosen is not None or not model.bytes_per_query:
        return model.score(model.encode(anchor, relation), chosen).float()
    # Encoding is most of the work: each distinct query is encoded once.
    distinct, row = torch.unique(torch.stack([relation, anchor]), dim=1, return_inverse=True)
    return model.score(model.encode(distinct[1], distinct[0])).float().index_select(0, row)


def score_queries(model: KGEModel, queries: Queries, entities: npt.NDArray[np.int32] | None = None) -> Tensor:
    """Return the scores of all entities, (b, E) float32, or of those in ``entities`` (b, C).

    The scores are on the device of the model. Those of a query do not depend on the other queries: all batches have one
    shape, or the model scores each row alone.
    """
    if entities is None:
        fitting = batch_rows(4 * model.n_entities, OF_ALL_ENTITIES)
    else:
        fitting = batch_rows(entities.shape[1] * model.bytes_per_candidate)
    rows = min(fitting, _MOST_ROWS.get(model) or encodable_rows(model))
    if model.propagates and model.device.type == "cpu":
        rows = 1  # queries share no work there: nothing is gained by more, and repeats would cost as much as queries
    batches = Batches(rows)
    anchor, relation, chosen = _on_device(model, queries, entities)

    def score(part: slice) -> Tensor:
        if isinstance(model, EmbeddingModel) and model.rowwise and cpu.usable(model.entity):
            encoded = model.encode_evenly(anchor[part], relation[part])
            return model.score(encoded, None if chosen is None else chosen[part])
        # The last batch is filled up with repeats of its last query.
        at = torch.arange(part.start, part.start + batches.rows, device=model.device).clamp_(max=part.stop - 1)
        scores = model.score(model.encode(anchor[at], relation[at]), None if chosen is None else chosen[at])
        return scores[: part.stop - part.start].float()

    with evaluating(model):
        scores = torch.cat(list(batches.over(len(queries), score)))
    if batches.rows < rows:
        _MOST_ROWS[model] = batches.rows
    return scores


def _on_device(
    model: KGEModel, queries: Queries, entities: npt.NDArray[np.int32] | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return anchors (b,), directed relations (b,) and entities (b, C) as int64, where the model is."""
    device = model.device
    anchor = torch.as_tensor(queries.anchor, device=device).long()
    relation = torch.as_tensor(queries.relation + model.n_relations * queries.direction, device=device).long()
    return anchor, relation, None if entities is None else torch.as_tensor(entities, device=device).long()


@dataclass(frozen=True)
class ModelScorer:
    """A model of relens as a ``Scorer``, to be packed beside other models."""

    model: KGEModel

    def score(self, queries: Queries) -> npt.NDArray[np.float32]:
        """Return the scores of all entities, (b, E)."""
        scores: npt.NDArray[np.float32] = score_queries(self.model, queries).cpu().numpy()
        return scores
