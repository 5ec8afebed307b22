"""Layers that several models use, and their first parameters."""

import torch
from torch import Tensor, nn

IMAGE_AXES = (0, 2, 3)
"""The axes of images (B, channels, height, width) that the statistics of a channel are taken over."""


class ChannelNorm(nn.BatchNorm2d):
    """Batch normalisation of images (B, channels, height, width).

    On CUDA, PyTorch's own implementation gives each channel to one block, so that few channels leave most of the GPU
    idle. There, this class takes the statistics by sums over the whole GPU.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Normalise by the statistics of the batch; at evaluation, by the running statistics."""
        if not (self.training and input.is_cuda):
            return super().forward(input)
        return self.normalise(input)

    def normalise(self, images: Tensor) -> Tensor:
        """Normalise by the statistics of the batch, and update the running statistics."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        variance, mean = torch.var_mean(images, IMAGE_AXES, correction=0)
        with torch.no_grad():
            n = images.numel() // images.shape[1]
            self.num_batches_tracked += 1
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * (n / max(1, n - 1)), self.momentum)
        scale = torch.rsqrt(variance + self.eps) * self.weight
        return torch.addcmul(_per_channel(self.bias - mean * scale), images, _per_channel(scale))


def _per_channel(numbers: Tensor) -> Tensor:
    """Return one number per channel in a shape that broadcasts over images."""
    return numbers.view(1, -1, 1, 1)


def reset_layers(module: nn.Module, generator: torch.Generator) -> None:
    """Draw the parameters of convolutions, linear layers and norms again, with PyTorch's defaults."""
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng(devices=[]):  # the layers draw from the global generator
        torch.manual_seed(seed)
        for layer in module.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear | nn.BatchNorm1d | nn.BatchNorm2d | nn.LayerNorm):
                layer.reset_parameters()
