"""Initialisers of tables, by name."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from relens.errors import InputError, nearest

SCALE = 0.01
"""Spread of ``uni`` and ``norm`` (KGTuner)."""


def uniform(table: Tensor, bound: float, generator: torch.Generator) -> None:
    """Fill with U(−bound, bound)."""
    nn.init.uniform_(table, -bound, bound, generator=generator)


def xavier_normal(table: Tensor, generator: torch.Generator) -> None:
    """Fill a table (rows, columns) with N(0, 2/(rows + columns))."""
    nn.init.normal_(table, 0.0, (2.0 / sum(table.shape)) ** 0.5, generator=generator)


INITIALISERS: dict[str, Callable[[Tensor, torch.Generator], object]] = {
    "uni": lambda table, generator: uniform(table, SCALE, generator),
    "norm": lambda table, generator: nn.init.normal_(table, 0.0, SCALE, generator=generator),
    "x_uni": lambda table, generator: uniform(table, (6.0 / sum(table.shape)) ** 0.5, generator),
    "x_norm": xavier_normal,
}


def fill(table: Tensor, name: str, generator: torch.Generator) -> None:
    """Fill a table (rows, columns) with the initialiser of that name."""
    if name not in INITIALISERS:
        raise InputError(f"there is no initialiser {name!r}: {nearest(name, INITIALISERS)}")
    INITIALISERS[name](table, generator)


def reset_layers(module: nn.Module, generator: torch.Generator) -> None:
    """Draw convolutions, linear layers and norms anew, with PyTorch's defaults."""
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng(devices=[]):  # the layers draw from the global generator
        torch.manual_seed(seed)
        for layer in module.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear | nn.BatchNorm1d | nn.BatchNorm2d | nn.LayerNorm):
                layer.reset_parameters()
