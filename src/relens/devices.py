"""Devices that models are trained and run on, by name. torch is imported when a device is looked up."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from relens.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    import torch


def pick_device(name: "torch.device | str") -> "torch.device":
    """Return the torch device of a name; ``auto`` is the first GPU, or the CPU if there is none."""
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
    available = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    if device.type != "cpu" and f"{device.type}:{device.index or 0}" not in available:
        remedy = "name one of these" if len(available) > 1 else 'use `device="cpu"`, or install a CUDA build of torch'
        raise InputError(f"there is no device {name!r}, only {', '.join(available)}: {remedy}")
    return device


def pick_devices(names: str) -> "list[torch.device]":
    """Return the torch devices of a comma-separated list of names."""
    return [pick_device(name.strip()) for name in names.split(",")]


def check_devices(devices: Sequence["torch.device"]) -> None:
    """Raise an error for GPUs beside the CPU: they round differently, and results would depend on timing."""
    kinds = sorted({device.type for device in devices})
    if len(kinds) != 1:
        raise InputError(
            f"devices are {', '.join(map(str, devices)) or 'none'}, expected one or more of one kind, because a model "
            f"would depend on the device that happens to train it. Name GPUs only, or the CPU only."
        )


def training_places(devices: Sequence["torch.device"], jobs: int) -> "list[torch.device]":
    """Return one device per model that trains at the same time: the given ones, or a single CPU ``jobs`` times."""
    alone_on_cpu = len(devices) == 1 and devices[0].type == "cpu"
    return list(devices) * (jobs if alone_on_cpu else 1)
