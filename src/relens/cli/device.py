"""Which devices models run on."""

from typing import TYPE_CHECKING

import click

from relens.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    import torch

device_option = click.option(
    "--device", default="auto", show_default=True, metavar="auto|cpu|cuda|cuda:N", help="Where models run."
)
devices_option = click.option(
    "--device", "--devices", "devices", default="auto", show_default=True, metavar="auto|cpu|cuda|cuda:N,…",
    help="Where models run. Of several, each trains a model at a time: --devices cuda:0,cuda:1. The first one ranks.",
)  # fmt: skip


def pick_devices(names: str) -> "list[torch.device]":
    """Return the torch devices of a comma-separated list of names."""
    return [pick_device(name.strip()) for name in names.split(",")]


def pick_device(name: str) -> "torch.device":
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
    here = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    if device.type != "cpu" and f"{device.type}:{device.index or 0}" not in here:
        remedy = "name one of these" if len(here) > 1 else "use --device cpu, or install a CUDA build of torch"
        raise InputError(f"device {name!r} is not here, but {', '.join(here)}: {remedy}")
    return device
