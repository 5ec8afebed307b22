"""Normalisation of images."""

import pytest
import torch
from torch import nn

from relens.models.layers import ChannelNorm


@pytest.mark.parametrize("channels", [1, 3])
def test_channel_norm_equals_batch_norm(channels):
    ours, theirs = ChannelNorm(channels).double(), nn.BatchNorm2d(channels).double()
    with torch.no_grad():
        for norm in (ours, theirs):
            norm.weight.fill_(1.5)
            norm.bias.fill_(-0.5)
    images = torch.randn(4, channels, 3, 2, dtype=torch.float64, requires_grad=True)
    weights = torch.randn_like(images)
    for _ in range(3):
        out, expected = ours.normalise(images), theirs(images)
        torch.testing.assert_close(out, expected)
        gradients = [
            torch.autograd.grad((found * weights).sum(), (images, norm.weight, norm.bias))
            for found, norm in ((out, ours), (expected, theirs))
        ]
        torch.testing.assert_close(*gradients)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value)
    torch.testing.assert_close(ours.eval()(images), theirs.eval()(images))
