"""One training step: plain, or captured once as a CUDA graph and replayed."""

import logging
import warnings
from collections.abc import Callable

import torch
from torch import nn
from torch.optim import Optimizer

from relens.training.objective import Objective
from relens.training.queries import Batches

WARM_UP = 3
"""Plain steps before a capture: kernels get compiled and the optimiser makes its state (PyTorch's advice)."""

_log = logging.getLogger(__name__)


class TrainingStep:
    """Draw a batch, sample, score, and change the parameters.

    Attributes:
        total: the sum of the losses since it was last cleared, () float32 on the device, which reading it waits for.
    """

    def __init__(self, objective: Objective, batches: Batches, optimiser: Optimizer, table: nn.Parameter) -> None:
        device = table.device
        self.total = torch.zeros((), device=device)
        self._table = table
        self._objective, self._batches, self._optimiser = objective, batches, optimiser
        self._run: Callable[[], None] = self._plain
        self._plain_left = WARM_UP if device.type == "cuda" else -1
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def __call__(self) -> None:
        """Take one step."""
        self._batches.prepare()
        if self._plain_left > 0:
            self._warm_up()
        elif self._plain_left == 0:
            self._capture()
            self._run()
        else:
            self._run()
        self._plain_left = max(self._plain_left - 1, -1)

    def _plain(self) -> None:
        self._optimiser.zero_grad(set_to_none=True)
        # Looked-up rows then add their gradients in place, see ``relens.models.lookup``.
        self._table.grad = torch.zeros_like(self._table)
        loss = self._objective(self._batches.take())
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        self.total += loss.detach()

    def _warm_up(self) -> None:
        """Take a plain step on a stream of its own, as captures require."""
        assert self._stream is not None
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a capturable optimiser complains when it is not captured
            self._plain()
        torch.cuda.current_stream().wait_stream(self._stream)

    def _capture(self) -> None:
        """Record the step as a graph; where something in it cannot be recorded, go on with plain steps."""
        graph = torch.cuda.CUDAGraph()
        random = torch.cuda.default_generators[self.total.device.index]
        spare = random.clone_state()
        self._optimiser.zero_grad(set_to_none=True)
        try:
            with torch.cuda.graph(graph):
                self._plain()
        except RuntimeError as error:
            # A capture that failed leaves the generator refusing to draw outside of one.
            random.graphsafe_set_state(spare)
            torch.cuda.synchronize()
            _log.warning("the training step cannot be captured as a CUDA graph and runs plainly: %s", error)
            self._optimiser.zero_grad(set_to_none=True)
        else:
            self._run = graph.replay
