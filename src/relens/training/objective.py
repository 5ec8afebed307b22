"""The objective of a training step: the loss of a batch, plus the penalty on its rows."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import dropout

from relens.models.base import Drop, KGEModel, Objective, keep_all
from relens.models.embedding import EmbeddingModel, Encoded
from relens.models.lookup import lookup
from relens.training.losses import Reduction, k_vs_all, negative_sampling, one_vs_all, weighted_mean
from relens.training.queries import TrainingQueries
from relens.training.regularisers import REGULARISERS, Rows
from relens.training.settings import SAMPLED_LOSSES, TrainSettings


def build_objective(model: KGEModel, queries: TrainingQueries, settings: TrainSettings) -> tuple[Objective, Tensor]:
    """Return the objective of a model, its own or that of the settings, and the directed relation of each example."""
    own = model.training_objective(queries, settings)
    if own is not None:
        return own, queries.relation
    drop: Drop = partial(dropout, p=settings.dropout) if settings.dropout else keep_all
    losses = _Losses(model, queries, settings, drop)
    if settings.loss == "kvsall":
        return losses.all_answers, queries.relation[queries.pair]
    row_losses = losses.sampled if settings.loss in SAMPLED_LOSSES else losses.one_vs_all
    return partial(losses.single_answers, row_losses), queries.relation


@dataclass(frozen=True, eq=False)
class _Losses:
    """The losses of the settings, as functions of the examples of a batch, (B,) int64."""

    model: KGEModel
    queries: TrainingQueries
    settings: TrainSettings
    drop: Drop

    def single_answers(self, row_losses: Callable[[Any, Tensor], Tensor], examples: Tensor) -> Tensor:
        """Return the objective of queries with one answer each; row weights do not apply to the penalty."""
        queries, settings = self.queries, self.settings
        encoded = self.model.encode_examples(queries, examples, self.drop)
        losses = row_losses(encoded, examples)
        if settings.relation_weight:
            losses = losses + settings.relation_weight * self.relations(examples)
        loss = weighted_mean(losses, queries.weight[examples] if settings.row_weights else None)
        return self.with_penalty(loss, encoded, queries.answer[examples])

    def all_answers(self, examples: Tensor) -> Tensor:
        """Return the objective of distinct pairs (anchor, relation), each with all its answers."""
        queries, rows = self.queries, self.queries.pair[examples]
        encoded = self.model.encode_examples(queries, rows, self.drop, all_answers=True)
        scores = self.model.score(encoded, None, self.drop)
        losses = k_vs_all(scores, queries.all_answers(examples), self.settings.label_smoothing)
        return self.with_penalty(losses.mean(), encoded, None)

    def sampled(self, encoded: Any, examples: Tensor) -> Tensor:
        """Return the loss of each query against drawn negatives, (B,)."""
        model, queries, settings = self.model, self.queries, self.settings
        anchor, answer = queries.anchor[examples], queries.answer[examples].unsqueeze(1)
        drawn = queries.negatives(len(examples) // settings.pool_rows, settings.negatives)
        if settings.score_all:
            scores = model.score(encoded, None, self.drop)
            positive = scores.gather(1, answer)
            negative = scores.gather(1, drawn.repeat_interleave(settings.pool_rows, dim=0))
        else:
            positive, negative = model.score(encoded, answer, self.drop), model.score(encoded, drawn, self.drop)
        return negative_sampling(
            positive.squeeze(1),
            negative,
            queries.known(anchor, queries.relation[examples], drawn),
            reduction=cast(Reduction, settings.loss.removeprefix("bce_")),
            alpha=settings.alpha,
            mask_first=settings.mask_first,
        )

    def one_vs_all(self, encoded: Any, examples: Tensor) -> Tensor:
        """Return the cross-entropy of each query's answer among all entities, (B,)."""
        scores = self.model.score(encoded, None, self.drop)
        return one_vs_all(scores, self.queries.answer[examples], self.settings.label_smoothing)

    def relations(self, examples: Tensor) -> Tensor:
        """Return the cross-entropy of each query's relation among the rows of the relation table, (B,).

        If both directions share rows, a query for a head is turned into its triple first: rows then are relations.
        Otherwise rows are directed relations.
        """
        model, queries = self.model, self.queries
        assert isinstance(model, EmbeddingModel)  # checked by the settings
        anchor, answer = queries.anchor[examples], queries.answer[examples]
        row, sign = model.relation_rows(queries.relation[examples])
        turned = sign.squeeze(1) < 0
        head, tail = torch.where(turned, answer, anchor), torch.where(turned, anchor, answer)
        return one_vs_all(model.score_relations(head, tail, self.drop), row)

    def with_penalty(self, loss: Tensor, encoded: Encoded, answer: Tensor | None) -> Tensor:
        """Return the loss plus the weighted penalty; ``answer`` is (B,) ids, or None for examples with many answers."""
        model, settings = self.model, self.settings
        if settings.regulariser is None:
            return loss
        assert isinstance(model, EmbeddingModel)  # checked by the settings
        answers = model.entity[:0] if answer is None else self.drop(lookup(model.entity, answer))
        rows = Rows(encoded.vector, encoded.rows, answers, model.entity, model.relation)
        return loss + settings.regulariser_weight * REGULARISERS[settings.regulariser](rows)
