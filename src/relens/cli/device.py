"""Which device models run on."""

from typing import Any

import click

from relens.errors import InputError, MissingExtraError

device_option = click.option(
    "--device", default="auto", show_default=True, metavar="auto|cpu|cuda|cuda:N", help="Where models run."
)


def pick_device(name: str) -> Any:
    """Return the torch device of that name; ``auto`` is the first GPU, or the CPU where there is none."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("training and ranking models", "train") from error
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"unknown device {name!r}: expected auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(
            f"device {name!r} is not here: torch sees {torch.cuda.device_count()} CUDA devices. "
            f"Use --device cpu, or install a CUDA build of torch."
        )
    return device
