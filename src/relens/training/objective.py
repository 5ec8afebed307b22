"""What a training step makes small: the loss of a batch, and the penalty on its rows."""

from collections.abc import Callable
from functools import partial
from typing import cast

import torch
from torch import Tensor
from torch.nn.functional import dropout

from relens.models.base import Drop, Encoded, KGEModel, keep_all
from relens.models.lookup import lookup
from relens.training.losses import Reduction, k_vs_all, negative_sampling, one_vs_all, weighted_mean
from relens.training.queries import TrainingQueries
from relens.training.regularisers import REGULARISERS, Rows
from relens.training.settings import SAMPLED_LOSSES, TrainSettings

Objective = Callable[[Tensor], Tensor]
"""From the examples of a batch, (B,) int64, to a number."""


def build_objective(model: KGEModel, queries: TrainingQueries, settings: TrainSettings) -> tuple[Objective, int]:
    """Return the objective of some settings, and how many examples there are to draw batches from."""
    drop: Drop = partial(dropout, p=settings.dropout) if settings.dropout else keep_all
    if settings.loss == "kvsall":
        return partial(_pairs, model, queries, settings, drop), len(queries.pair)
    rows_loss = _sampled if settings.loss in SAMPLED_LOSSES else _one_vs_all
    return partial(_answers, model, queries, settings, drop, rows_loss), len(queries)


def _answers(
    model: KGEModel,
    queries: TrainingQueries,
    settings: TrainSettings,
    drop: Drop,
    rows_loss: Callable[[KGEModel, TrainingQueries, TrainSettings, Drop, Encoded, Tensor], Tensor],
    examples: Tensor,
) -> Tensor:
    """Return the objective of queries with one answer each; the penalty is not weighted by row."""
    encoded = model.encode(queries.anchor[examples], queries.relation[examples], drop)
    losses = rows_loss(model, queries, settings, drop, encoded, examples)
    if settings.relation_weight:
        losses = losses + settings.relation_weight * _relations(model, queries, drop, examples)
    loss = weighted_mean(losses, queries.weight[examples] if settings.row_weights else None)
    if settings.regulariser is None:
        return loss
    answers = drop(lookup(model.entity, queries.answer[examples]))
    rows = Rows(encoded.vector, encoded.rows, answers, model.entity, model.relation)
    return loss + settings.regulariser_weight * REGULARISERS[settings.regulariser](rows)


def _sampled(
    model: KGEModel, queries: TrainingQueries, settings: TrainSettings, drop: Drop, encoded: Encoded, examples: Tensor
) -> Tensor:
    """Return the loss of each query against drawn negatives, (B,)."""
    anchor, answer = queries.anchor[examples], queries.answer[examples].unsqueeze(1)
    drawn = queries.negatives(settings.batch // settings.pool_rows, settings.negatives)
    if settings.score_all:
        scores = model.score(encoded, None, drop)
        positive = scores.gather(1, answer)
        negative = scores.gather(1, drawn.repeat_interleave(settings.pool_rows, dim=0))
    else:
        positive, negative = model.score(encoded, answer, drop), model.score(encoded, drawn, drop)
    return negative_sampling(
        positive.squeeze(1),
        negative,
        queries.known(anchor, queries.relation[examples], drawn),
        reduction=cast(Reduction, settings.loss.removeprefix("bce_")),
        alpha=settings.alpha,
        mask_first=settings.mask_first,
    )


def _one_vs_all(
    model: KGEModel, queries: TrainingQueries, settings: TrainSettings, drop: Drop, encoded: Encoded, examples: Tensor
) -> Tensor:
    """Return the cross-entropy of each query's answer among all entities, (B,)."""
    return one_vs_all(model.score(encoded, None, drop), queries.answer[examples], settings.label_smoothing)


def _relations(model: KGEModel, queries: TrainingQueries, drop: Drop, examples: Tensor) -> Tensor:
    """Return the cross-entropy of each query's relation among the rows of the relation table, given both ends, (B,).

    Where both directions share rows, the query is turned into its triple first: rows then are relations, and otherwise
    directed relations.
    """
    anchor, answer = queries.anchor[examples], queries.answer[examples]
    row, sign = model.relation_rows(queries.relation[examples])
    turned = sign.squeeze(1) < 0
    head, tail = torch.where(turned, answer, anchor), torch.where(turned, anchor, answer)
    return one_vs_all(model.score_relations(head, tail, drop), row)


def _pairs(model: KGEModel, queries: TrainingQueries, settings: TrainSettings, drop: Drop, examples: Tensor) -> Tensor:
    """Return the objective of distinct pairs (anchor, relation), each with all its answers."""
    rows = queries.pair[examples]
    encoded = model.encode(queries.anchor[rows], queries.relation[rows], drop)
    losses = k_vs_all(model.score(encoded, None, drop), queries.all_answers(examples), settings.label_smoothing)
    if settings.regulariser is None:
        return losses.mean()
    rows_seen = Rows(encoded.vector, encoded.rows, model.entity[:0], model.entity, model.relation)
    return losses.mean() + settings.regulariser_weight * REGULARISERS[settings.regulariser](rows_seen)
