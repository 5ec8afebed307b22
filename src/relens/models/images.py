"""What models that read embeddings as images share."""

import torch
from torch import Tensor, nn

IMAGE = (0, 2, 3)
"""The axes of images (B, channels, height, width) that a channel's statistics are taken over."""


class ChannelNorm(nn.BatchNorm2d):
    """Batch normalisation of images (B, channels, height, width).

    On CUDA, PyTorch's own gives each channel to one block, and few channels leave most of the GPU idle: there the
    statistics are taken by sums over the whole of it.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Normalise by the batch's statistics; at evaluation, by the running ones."""
        if not (self.training and input.is_cuda):
            return super().forward(input)
        return self.normalise(input)

    def normalise(self, images: Tensor) -> Tensor:
        """Normalise by the batch's statistics, and let the running ones follow them."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        variance, mean = torch.var_mean(images, IMAGE, correction=0)
        with torch.no_grad():
            n = images.numel() // images.shape[1]
            self.num_batches_tracked += 1
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * (n / max(1, n - 1)), self.momentum)
        scale = torch.rsqrt(variance + self.eps) * self.weight
        return torch.addcmul(_wide(self.bias - mean * scale), images, _wide(scale))


def _wide(numbers: Tensor) -> Tensor:
    """Return one number per channel so that it broadcasts over images."""
    return numbers.view(1, -1, 1, 1)
