"""What models that read embeddings as images share."""

import torch
from torch import Tensor, nn


class ImageNorm(nn.BatchNorm2d):
    """Batch normalisation of images (B, 1, height, width) of one channel.

    PyTorch's own gives a channel to one block of the GPU, which then does all the work alone.
    """

    def __init__(self) -> None:
        super().__init__(1)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise the images by all their numbers; at evaluation, by the running statistics."""
        if not self.training:
            return super().forward(input)
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        variance, mean = torch.var_mean(input, correction=0)
        with torch.no_grad():
            self.num_batches_tracked += 1
            unbiased = variance * (input.numel() / max(1, input.numel() - 1))
            self.running_mean.lerp_(mean, 0.1)
            self.running_var.lerp_(unbiased, 0.1)
        return (input - mean) * (torch.rsqrt(variance + self.eps) * self.weight) + self.bias
