import math

import pytest
import torch
from torch import Tensor

from relens.training.losses import k_vs_all, negative_sampling, one_vs_all, weighted_mean

ROWS, NEGATIVES, ENTITIES = 5, 7, 9


def softplus(x: float) -> float:
    return math.log1p(math.exp(x))


@pytest.fixture
def drawn() -> tuple[Tensor, Tensor, Tensor]:
    rng = torch.Generator().manual_seed(1)
    positive = torch.randn(ROWS, generator=rng, dtype=torch.float64)
    negative = 3 * torch.randn(ROWS, NEGATIVES, generator=rng, dtype=torch.float64)
    return positive, negative, torch.rand(ROWS, NEGATIVES, generator=rng) < 0.3


def weights_of_row(scores: list[float], known: list[bool], alpha: float, mask_first: bool) -> list[float]:
    powers = [0.0 if mask_first and k else math.exp(alpha * s) for s, k in zip(scores, known, strict=True)]
    return [power / sum(powers) for power in powers]


@pytest.mark.parametrize("mask_first", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "adv"])
def test_negative_sampling_is_the_loop(drawn, reduction, mask_first) -> None:
    positive, negative, known = drawn
    found = negative_sampling(positive, negative, known, reduction=reduction, alpha=0.7, mask_first=mask_first)
    for b in range(ROWS):
        scores, hidden = negative[b].tolist(), known[b].tolist()
        factors = {
            "mean": [1 / NEGATIVES] * NEGATIVES,
            "sum": [1.0] * NEGATIVES,
            "adv": weights_of_row(scores, hidden, 0.7, mask_first),
        }[reduction]
        expected = softplus(-float(positive[b])) + sum(
            w * softplus(s) for w, s, k in zip(factors, scores, hidden, strict=True) if not k
        )
        assert float(found[b]) == pytest.approx(expected, rel=1e-12)


def test_adversarial_weights_have_no_gradient(drawn) -> None:
    positive, negative, known = drawn
    negative.requires_grad_()
    negative_sampling(positive, negative, known, reduction="adv", alpha=1.3).sum().backward()
    weights = torch.softmax(1.3 * negative.detach(), dim=1)
    torch.testing.assert_close(negative.grad, weights * torch.sigmoid(negative.detach()) * ~known)


@pytest.mark.parametrize("mask_first", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "adv"])
def test_negatives_that_are_all_known_add_nothing(drawn, reduction, mask_first) -> None:
    positive, negative, known = drawn
    negative.requires_grad_()
    losses = negative_sampling(positive, negative, torch.ones_like(known), reduction=reduction, mask_first=mask_first)
    losses.sum().backward()
    torch.testing.assert_close(losses, torch.nn.functional.softplus(-positive))
    assert not negative.grad.any()


def test_one_vs_all_is_the_loop() -> None:
    scores, answer = torch.randn(ROWS, ENTITIES, dtype=torch.float64), torch.arange(ROWS)
    for b, loss in enumerate(one_vs_all(scores, answer).tolist()):
        row = scores[b].tolist()
        assert loss == pytest.approx(math.log(sum(map(math.exp, row))) - row[b])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_k_vs_all_is_the_loop(smoothing) -> None:
    scores = torch.randn(ROWS, ENTITIES, dtype=torch.float64)
    known = (torch.rand(ROWS, ENTITIES) < 0.3).double()
    for b, loss in enumerate(k_vs_all(scores, known, smoothing).tolist()):
        total = 0.0
        for s, y in zip(scores[b].tolist(), known[b].tolist(), strict=True):
            label = (1 - smoothing) * y + 1 / ENTITIES if smoothing else y
            total += label * softplus(-s) + (1 - label) * softplus(s)
        assert loss == pytest.approx(total / ENTITIES)


def test_weighted_mean_divides_by_the_weights() -> None:
    losses, weight = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 3.0, 0.0])
    assert float(weighted_mean(losses, weight)) == pytest.approx(7 / 4)
    assert float(weighted_mean(losses, None)) == pytest.approx(7 / 3)
