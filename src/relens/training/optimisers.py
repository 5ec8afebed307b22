"""Optimisers whose steps can be part of a CUDA graph, and the average of the parameters that they make."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

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
    if settings.weight_decay:
        return AdamW(parameters, rate, weight_decay=settings.weight_decay, fused=True, capturable=on_gpu)
    return Adam(parameters, rate, fused=True, capturable=on_gpu)


class Average:
    """An exponential moving average of parameters, as if the first step were its beginning.

    Sums start at zero and are divided by the weight that they have by now, 1 − decay^steps (as Adam does), so that
    first parameters do not linger in it.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], decay: float) -> None:
        self.decay, self._parameters = decay, list[Tensor](parameters)
        self.sums = [torch.zeros_like(parameter, requires_grad=False) for parameter in self._parameters]

    @torch.no_grad()
    def update(self) -> None:
        """Add the parameters after a step; all on the device, so that it can be part of a CUDA graph."""
        torch._foreach_lerp_(self.sums, self._parameters, 1 - self.decay)

    @contextmanager
    def in_place(self, steps: int) -> Iterator[None]:
        """Give the parameters the average of so many steps inside, and their own values afterwards."""
        own = [parameter.detach().clone() for parameter in self._parameters]
        weight = 1 - self.decay**steps
        try:
            self._set([total / weight for total in self.sums])
            yield
        finally:
            self._set(own)

    @torch.no_grad()
    def _set(self, values: list[Tensor]) -> None:
        for parameter, value in zip(self._parameters, values, strict=True):
            parameter.copy_(value)


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
    names = {"sum"} if isinstance(optimiser, Adagrad) else {"step", "exp_avg", "exp_avg_sq"}
    for key, value in tensors.items():
        number, name = key.split(".", 1)
        parameter = parameters[int(number)]
        shape = () if name == "step" else parameter.shape
        if (
            name not in names
            or value.shape != shape
            or value.dtype != torch.promote_types(parameter.dtype, torch.float32)
        ):
            raise ValueError(f"the optimiser's {key} has the shape {tuple(value.shape)} of {value.dtype}")
        optimiser.state[parameter][name] = value.to(parameter.device)
    for parameter in parameters:
        state = optimiser.state.get(parameter)
        if state and set(state) != names:
            raise ValueError(f"the optimiser's state of a parameter has {sorted(state)}, expected {sorted(names)}")
