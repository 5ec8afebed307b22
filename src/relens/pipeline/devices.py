"""Devices that models are trained and run on."""

from collections.abc import Sequence

import torch

from relens.errors import InputError


def check_devices(devices: Sequence[torch.device]) -> None:
    """Refuse GPUs beside the CPU: who is free first would decide what the result is, as they do not round alike."""
    kinds = sorted({device.type for device in devices})
    if len(kinds) != 1:
        raise InputError(
            f"devices are {', '.join(map(str, devices)) or 'none'}, expected one or more of one kind: models would "
            f"depend on where they happen to be trained. Name GPUs only, or the CPU only."
        )


def places_of(devices: Sequence[torch.device], jobs: int) -> list[torch.device]:
    """Return a device for each of the models that train at a time: those named; a CPU alone is shared by ``jobs``."""
    alone_on_cpu = len(devices) == 1 and devices[0].type == "cpu"
    return list(devices) * (jobs if alone_on_cpu else 1)
