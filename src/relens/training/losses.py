"""Losses: pure functions from scores to the loss of each row."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus

Reduction = Literal["mean", "sum", "adv"]


def negative_sampling(
    positive: Tensor,
    negative: Tensor,
    known: Tensor,
    *,
    reduction: Reduction,
    alpha: float = 1.0,
    mask_first: bool = False,
) -> Tensor:
    """Return the binary cross-entropy of each row, (B,): that of its positive, plus that of its negatives.

    Known answers among the negatives count 0 and are not replaced: the divisor of the mean stays n.

    Args:
        positive: scores (B,).
        negative: scores (B, n).
        known: whether a drawn negative is a known answer, (B, n) bool.
        reduction: ``mean`` or ``sum`` of the negatives, or ``adv``: weighted by softmax(α·score), without gradient.
        alpha: temperature of the adversarial weights.
        mask_first: take the softmax over unknown negatives only; KGTuner takes it over all, then masks.
    """
    losses = softplus(negative).masked_fill(known, 0.0)
    if reduction == "mean":
        total = losses.mean(dim=1)
    elif reduction == "sum":
        total = losses.sum(dim=1)
    else:
        total = (adversarial_weights(negative, known, alpha=alpha, mask_first=mask_first) * losses).sum(dim=1)
    return softplus(-positive) + total


def adversarial_weights(negative: Tensor, known: Tensor, *, alpha: float, mask_first: bool) -> Tensor:
    """Return softmax(α·score) of each row's negatives, (B, n), without gradient."""
    logits = alpha * negative.detach()
    if not mask_first:
        return torch.softmax(logits, dim=1)
    # A finite floor: a row of known negatives only must give finite weights (of losses that are 0), not NaN.
    return torch.softmax(logits.masked_fill(known, torch.finfo(logits.dtype).min), dim=1)


def one_vs_all(scores: Tensor, answer: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Return the cross-entropy of each row's answer (B,) among all entities, (B,), for scores (B, E).

    Scores of relations work as well.
    """
    return cross_entropy(scores, answer, reduction="none", label_smoothing=label_smoothing)


def k_vs_all(scores: Tensor, known: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Return the mean binary cross-entropy of each row, (B,), for scores (B, E) and known answers (B, E) in {0, 1}.

    Smoothed labels are (1 − ε)·y + 1/E, as in ConvE and CompGCN, not the usual (1 − ε)·y + ε/E.
    """
    labels = (1 - label_smoothing) * known + 1 / scores.shape[1] if label_smoothing else known
    return (softplus(scores) - labels * scores).mean(dim=1)


def weighted_mean(losses: Tensor, weight: Tensor | None) -> Tensor:
    """Return Σ w·L / Σ w over the rows (B,), or the plain mean without weights."""
    return losses.mean() if weight is None else (weight * losses).sum() / weight.sum()
