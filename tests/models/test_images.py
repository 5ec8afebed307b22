"""Normalisation of images of one channel."""

import torch
from torch import nn

from relens.models.images import ImageNorm


def test_image_norm_equals_batch_norm():
    ours, theirs = ImageNorm(), nn.BatchNorm2d(1)
    with torch.no_grad():
        for norm in (ours, theirs):
            norm.weight.fill_(1.5)
            norm.bias.fill_(-0.5)
    images = torch.randn(4, 1, 3, 2, requires_grad=True)
    for _ in range(3):
        gradients = []
        for norm in (ours, theirs):
            out = norm(images)
            gradients.append(torch.autograd.grad((out * torch.arange(24.0).view_as(out)).sum(), (images, norm.weight)))
        torch.testing.assert_close(*gradients)
        torch.testing.assert_close(ours(images), theirs(images))
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value)
    torch.testing.assert_close(ours.eval()(images), theirs.eval()(images))
