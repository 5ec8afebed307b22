"""Optimisers whose steps can be part of a CUDA graph."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from relens.models import fused
from relens.training.settings import TrainSettings

EPSILON = 1e-10


class Adagrad(Optimizer):
    """Adagrad (Duchi et al., 2011) for dense gradients; PyTorch's own cannot be captured in a CUDA graph."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float | Tensor) -> None:
        super().__init__(parameters, {"lr": lr, "capturable": True})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Take a step: each gradient is divided by the root of the sum of its squares so far."""
        del closure
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._change(parameter, parameter.grad, group["lr"])

    def _change(self, parameter: nn.Parameter, gradient: Tensor, rate: float | Tensor) -> None:
        total = self._sum(parameter)
        if fused.usable(parameter) and isinstance(rate, Tensor) and parameter.is_contiguous():
            fused.adagrad(parameter, gradient, total, rate, EPSILON)
        else:
            total.addcmul_(gradient, gradient)
            parameter.sub_(rate * gradient / total.sqrt().add_(EPSILON))

    def _sum(self, parameter: nn.Parameter) -> Tensor:
        state = self.state[parameter]
        if not state:
            state["sum"] = torch.zeros_like(parameter)
        squares: Tensor = state["sum"]
        return squares


def build_optimiser(parameters: Iterable[nn.Parameter], settings: TrainSettings, device: torch.device) -> Optimizer:
    """Return the optimiser of some settings; on CUDA its rate is a tensor, so that a captured step follows it."""
    on_gpu = device.type == "cuda"
    rate = torch.tensor(settings.lr, device=device) if on_gpu else settings.lr
    if settings.optimiser == "adagrad":
        return Adagrad(parameters, rate)
    return Adam(parameters, rate, fused=True, capturable=on_gpu)


def set_rate(optimiser: Optimizer, rate: float) -> None:
    """Set the learning rate, in place where it is a tensor."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def forget(optimiser: Optimizer) -> None:
    """Clear the optimiser's state in place, as if it were new."""
    for state in optimiser.state.values():
        for value in state.values():
            value.zero_()


def optimiser_tensors(optimiser: Optimizer) -> dict[str, Tensor]:
    """Return the optimiser's state by ``number of the parameter.name``; the tensors are its own, not copies."""
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    return {
        f"{number}.{name}": value
        for number, parameter in enumerate(parameters)
        for name, value in optimiser.state.get(parameter, {}).items()
    }


def restore_optimiser(optimiser: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Restore the result of ``optimiser_tensors``."""
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    for key, value in tensors.items():
        number, name = key.split(".", 1)
        parameter = parameters[int(number)]
        optimiser.state[parameter][name] = value.to(parameter.device)
