"""One training step: plain, or captured as a CUDA graph and replayed."""

import logging
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from relens.errors import InputError
from relens.models.base import KGEModel, Objective
from relens.ranking.memory import out_of_memory
from relens.training.interruption import Interruption
from relens.training.optimisers import Average
from relens.training.queries import Batches
from relens.training.settings import SAMPLED_LOSSES, TrainSettings

MOST_SCORES = 2**32
"""Bytes that the scores of all entities may take in a step on a CPU."""
BYTES_PER_SCORE = 16
"""A score, its logarithm or label, and their gradients."""
WARM_UP = 3
"""Plain steps before a capture: kernels are compiled and the optimiser creates its state (as PyTorch advises)."""

_log = logging.getLogger(__name__)


class TrainingStep:
    """Draw a batch, compute its objective, and change the parameters.

    Attributes:
        total: the sum of the losses since it was last cleared, () float32 on the device; reading it waits for the
            device.
    """

    def __init__(
        self, model: KGEModel, objective: Objective, batches: Batches, optimiser: Optimizer, settings: TrainSettings
    ) -> None:
        device = model.device
        self.average = Average(model.parameters(), settings.averaging) if settings.averaging else None
        self._parameters, self._settings = list(model.parameters()), settings
        self._part = settings.batch if device.type == "cuda" else examples_at_once(settings, model.n_entities)
        self.total = torch.zeros((), device=device)
        self._tables = model.tables_with_gradient_in_place()
        self._gradients_of_tables: list[Tensor] = []
        self._buffers = _changing_buffers(model)
        self._objective, self._batches, self._optimiser = objective, batches, optimiser
        self._run: Callable[[], None] = self._plain
        self._plain_left = WARM_UP if device.type == "cuda" else -1
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def abandonable(self, interruption: Interruption) -> None:
        """Take one step on the CPU that Ctrl-C may leave: it raises, and the state is that before the step.

        Some models take minutes for a step on a CPU. Until the optimiser changes parameters, a step changes nothing
        but generators, batches and buffers such as running means.
        """
        self._batches.prepare()
        random = torch.get_rng_state()
        buffers = [(buffer, buffer.clone()) for buffer in self._buffers]
        try:
            with interruption.immediate():
                loss = self._backward()
        except KeyboardInterrupt:
            torch.set_rng_state(random)
            self._batches.untake()
            for buffer, before in buffers:
                buffer.copy_(before)
            raise
        self._change(loss)

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
        self._change(self._backward())

    def _backward(self) -> Tensor:
        """Compute the objective of the next batch and its gradients, and return it; in parts where memory runs out."""
        examples = self._batches.take()
        while True:
            try:
                return self._gradients(examples)
            except RuntimeError as error:
                if not out_of_memory(error) or self._is_capturing:
                    raise
                full = error.with_traceback(None)  # whose frames hold what is to be freed
            self._split(full)

    @property
    def _is_capturing(self) -> bool:
        return self.total.is_cuda and torch.cuda.is_current_stream_capturing()

    def _gradients(self, examples: Tensor) -> Tensor:
        """Compute the objective of some examples and its gradients, part by part, and return it."""
        self._optimiser.zero_grad(set_to_none=True)
        self._clear_tables()
        loss = torch.zeros_like(self.total)
        for part in torch.split(examples, self._part):
            share = self._objective(part) * (len(part) / len(examples))
            share.backward()  # type: ignore[no-untyped-call]
            loss += share.detach()
        return loss

    def _clear_tables(self) -> None:
        """Give the tables gradients of zeros: backward passes add to these in place, see ``relens.models.lookup``.

        On a CPU they stay in the same memory. New memory is cleared by the system, page by page, which takes longer
        than the rest of a step where a graph has millions of entities.
        """
        if self.total.is_cuda:
            for table in self._tables:
                table.grad = torch.zeros_like(table)
            return
        self._gradients_of_tables = self._gradients_of_tables or [torch.empty_like(table) for table in self._tables]
        for table, gradient in zip(self._tables, self._gradients_of_tables, strict=True):
            table.grad = gradient.zero_()

    def _split(self, error: RuntimeError) -> None:
        """Take smaller parts of a batch from here on, as memory ran out."""
        settings, before = self._settings, self._part
        pool = settings.pool_rows if settings.loss in SAMPLED_LOSSES else 1
        self._part = before // (2 * pool) * pool
        if not self._part:
            raise InputError(
                f"memory ran out in a training step of {settings.model} with {before} examples at a time, and fewer "
                f"are not possible: make the model smaller, or train on a device with more memory"
            ) from error
        self._optimiser.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()  # does nothing without a GPU
        _log.warning(
            "%s: memory ran out with %d examples at a time. Batches of %d are trained in parts of %d from here on, "
            "whose gradients are summed up; with `batch=%d`, steps would be smaller instead.",
            settings.model, before, settings.batch, self._part, self._part,
        )  # fmt: skip

    def _change(self, loss: Tensor) -> None:
        """Change the parameters by their gradients, and average them."""
        if self._settings.clip is not None:
            nn.utils.clip_grad_norm_(self._parameters, self._settings.clip)
        self._optimiser.step()
        if self.average is not None:
            self.average.update()
        self.total += loss

    def _warm_up(self) -> None:
        """Take a plain step on a separate stream, as captures require."""
        assert self._stream is not None
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a capturable optimiser warns if it is not captured
            self._plain()
        torch.cuda.current_stream().wait_stream(self._stream)

    def _capture(self) -> None:
        """Record the step as a graph; if something in it cannot be recorded, continue with plain steps."""
        graph = torch.cuda.CUDAGraph()
        random = torch.cuda.default_generators[self.total.device.index]
        spare = random.clone_state()
        self._optimiser.zero_grad(set_to_none=True)
        try:
            with torch.cuda.graph(graph):
                self._plain()
        except RuntimeError as error:
            # After a failed capture the generator does not draw outside of captures until its state is set.
            random.graphsafe_set_state(spare)
            torch.cuda.synchronize()
            _log.warning("the training step cannot be captured as a CUDA graph and runs plainly: %s", error)
            self._optimiser.zero_grad(set_to_none=True)
        else:
            self._run = graph.replay


def examples_at_once(settings: TrainSettings, n_entities: int) -> int:
    """Return how many examples of a batch take their step together on a CPU.

    They are fewer than the batch if it is compared with all entities, and scores and gradients would take more than
    ``MOST_SCORES`` bytes: on a CPU, the system ends a process whose memory runs out, and no error says so.
    """
    if settings.loss in SAMPLED_LOSSES and not settings.score_all:
        return settings.batch
    pool = settings.pool_rows if settings.loss in SAMPLED_LOSSES else 1
    fitting = MOST_SCORES // (BYTES_PER_SCORE * n_entities)
    return min(settings.batch, max(fitting // pool, 1) * pool)


def _changing_buffers(model: KGEModel) -> list[Tensor]:
    """Return the buffers that are saved with a model; the others, such as edges, never change."""
    saved = model.state_dict(keep_vars=True)
    return [buffer for name, buffer in model.named_buffers() if name in saved]
