"""The device that models compute on."""

from contextlib import AbstractContextManager, nullcontext

import torch


def current(device: torch.device) -> AbstractContextManager[None]:
    """Make a GPU the current one of this thread inside: Triton's kernels and recorded steps run there.

    They do so wherever their tensors are. What trains or scores enters this itself, so that no command has to, and
    whichever thread asks: a service predicts in another one than it was started in.
    """
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
