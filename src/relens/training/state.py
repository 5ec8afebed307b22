"""The state of a run: everything that changes from step to step, and how it is saved and restored."""

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from relens.models.base import KGEModel
from relens.records import number, whole
from relens.seeding import generator
from relens.training.checkpoint import Checkpoint
from relens.training.interruption import Interruption
from relens.training.log import LogRecord
from relens.training.objective import build_objective
from relens.training.optimisers import build_optimiser, forget, optimiser_tensors, restore_optimiser, set_rate
from relens.training.queries import Batches, TrainingQueries, focused_epoch
from relens.training.schedules import Schedule, agree
from relens.training.settings import TrainSettings
from relens.training.step import TrainingStep

Ending = Literal["steps", "stopped early", "diverged"]
STATISTICS_BATCHES = 16
"""Batches that the running statistics of batch norms are taken from before a validation."""


class TrainingState:
    """A model in training.

    Attributes:
        device: where the model is trained.
        step: steps taken.
        ending: why training ended; None while it runs.
        best_step: step of the best validation so far; 0 if there was none.
        best_mrr: its MRR; None if there was none.
        marked_step: step of the last ``mark``.
        settings: how it is trained.
    """

    def __init__(
        self,
        model: KGEModel,
        queries: TrainingQueries,
        settings: TrainSettings,
        asked: npt.NDArray[np.integer[Any]] | None = None,
    ) -> None:
        """Begin; ``asked`` are the ids of the relations that ``settings.focus`` draws from."""
        self.device = model.device
        self.step, self.best_step = 0, 0
        self.best_mrr: float | None = None
        self.ending: Ending | None = None
        self._model, self.settings = model, settings
        self._objective, relation = build_objective(model, queries, settings)
        examples = torch.arange(len(relation), device=self.device)
        if asked is not None:
            wanted = torch.as_tensor(asked, device=self.device).long()
            examples = focused_epoch(relation % model.n_relations, wanted, settings.focus)
        self._examples, self._batches = examples, Batches(examples, settings.batch)
        self._optimiser = build_optimiser(model.parameters(), settings, self.device)
        self._take_step = TrainingStep(model, self._objective, self._batches, self._optimiser, settings)
        self._schedule = Schedule(settings)
        self._rate, self._validations_since_best = math.nan, 0
        self._best = {name: value.detach().clone() for name, value in model.state_dict().items()}
        self._seconds_before, self._began, self._first_step = 0.0, time.perf_counter(), 0
        self.marked_step, self._marked = 0, self._began

    def advance(self, interruption: Interruption | None = None) -> None:
        """Take one step at the learning rate of the schedule; on a CPU, Ctrl-C may leave it."""
        if self._schedule.forgets(self.step):
            forget(self._optimiser)
        rate = self._schedule.rate(self.step)
        if rate != self._rate:
            set_rate(self._optimiser, rate)
            self._rate = rate
        if interruption is None or self.device.type != "cpu":
            self._take_step()
        else:
            self._take_step.abandonable(interruption)
        self.step += 1
        if self.step == self.settings.steps:
            self.ending = "steps"

    def change_length(self, settings: TrainSettings) -> None:
        """Go on with settings for another number of steps, which must have the same learning rates so far."""
        assert settings.steps > self.step
        assert agree(self.settings, settings, self.step)
        self.settings = self._schedule.settings = settings

    def record(self) -> LogRecord:
        """Return a record of the steps since ``mark``; a non-finite loss ends training."""
        loss = float(self._take_step.total) / (self.step - self.marked_step)
        if not math.isfinite(loss):
            self.ending = "diverged"
        examples = (self.step - self.marked_step) * self.settings.batch
        pace = examples / max(time.perf_counter() - self._marked, 1e-9)
        rate = self._schedule.rate(self.step - 1)
        return LogRecord(
            step=self.step,
            loss=loss if math.isfinite(loss) else None,
            mrr=None,
            lr=rate,
            examples_per_second=pace,
            seconds=self.seconds,
            steps=self.settings.steps,
            seconds_left=self.seconds_left,
        )

    def mark(self) -> None:
        """Start the interval of the next record."""
        self._take_step.total.zero_()
        self.marked_step, self._marked = self.step, time.perf_counter()

    def evaluation(self) -> AbstractContextManager[None]:
        """Give the model inside the parameters that are validated and kept: the average, where one is taken."""
        average = self._take_step.average
        return nullcontext() if average is None else average.in_place(self.step)

    def estimate_statistics(self) -> None:
        """Take the running statistics of batch norms from some batches, as training forgets them too slowly.

        They follow the parameters with a delay, which matters while these move fast, and are not those of averaged
        parameters. The batches depend on the seed alone, and generators are as before.
        """
        norms = [
            (module, module.momentum, counter, counter.clone())
            for module in self._model.modules()
            if isinstance(module, nn.modules.batchnorm._BatchNorm)
            and (counter := module.num_batches_tracked) is not None
        ]
        if not norms:
            return
        seed = int(generator(self.settings.seed, "statistics").integers(2**63))
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
                torch.manual_seed(seed)
                for batch in range(STATISTICS_BATCHES):
                    for norm, *_ in norms:
                        norm.momentum = 1 / (batch + 1)  # the mean over the batches so far
                    drawn = torch.randint(len(self._examples), (self.settings.batch,), device=self.device)
                    self._objective(self._examples[drawn])
        finally:
            for norm, momentum, counter, before in norms:
                norm.momentum = momentum
                counter.copy_(before)

    def record_validation(self, mrr: float) -> None:
        """Record a validation: keep the parameters if they are the best so far, lower the rate, or stop."""
        self._schedule.record_validation(mrr)
        self._validations_since_best += 1
        if self.best_mrr is None or mrr > self.best_mrr:
            self.best_mrr, self.best_step, self._validations_since_best = mrr, self.step, 0
            for name, value in self._model.state_dict().items():
                self._best[name].copy_(value)
        if self._validations_since_best == self.settings.stop_after and self.ending is None:
            self.ending = "stopped early"

    def restore_best(self) -> None:
        """Give the model its best parameters; without a validation, those at the start."""
        self._model.load_state_dict(self._best)

    @property
    def seconds(self) -> float:
        """Time taken, without interruptions."""
        return self._seconds_before + self.session_seconds

    @property
    def session_seconds(self) -> float:
        """Time taken since training began or was resumed."""
        return time.perf_counter() - self._began

    @property
    def seconds_left(self) -> float:
        """Estimated time until all steps are taken, from the pace since training began or was resumed."""
        taken = self.step - self._first_step
        return self.session_seconds / max(taken, 1) * (self.settings.steps - self.step)

    def checkpoint(self, identity: dict[str, Any]) -> Checkpoint:
        """Return everything that a resumed run needs, at any step."""
        state = {
            "schedule": self._schedule.state(),
            "best_step": self.best_step,
            "best_mrr": self.best_mrr,
            "ending": self.ending,
            "validations_since_best": self._validations_since_best,
            "seconds": self.seconds,
            "marked_step": self.marked_step,
            "seconds_since_mark": time.perf_counter() - self._marked,
        }
        tensors = {
            **{f"model.{name}": value for name, value in self._model.state_dict().items()},
            **{f"best.{name}": value for name, value in self._best.items()},
            **{f"optimiser.{name}": value for name, value in optimiser_tensors(self._optimiser).items()},
            **{f"random.{name}": value for name, value in _random_states(self.device).items()},
            **{f"average.{number}": value for number, value in enumerate(self._average_sums())},
            "pending": self._batches.pending(),
            "total": self._take_step.total,
        }
        return Checkpoint(self.step, identity, state, tensors)

    def resume(self, checkpoint: Checkpoint) -> None:
        """Restore a checkpoint; one whose numbers or tensors do not fit raises a ``ValueError`` or a ``KeyError``."""
        state = checkpoint.state
        self._check_tensors(checkpoint.tensors)
        self.step, self.marked_step = checkpoint.step, whole(state["marked_step"])
        self._first_step = self.step
        self._marked -= number(state["seconds_since_mark"])
        self._take_step.total.copy_(checkpoint.tensors["total"])
        self.best_step, self.ending = whole(state["best_step"]), state["ending"]
        self.best_mrr = None if state["best_mrr"] is None else number(state["best_mrr"])
        if self.ending not in (None, *get_args(Ending)):
            raise ValueError(f"found the ending {self.ending!r}")
        self._validations_since_best = whole(state["validations_since_best"])
        self._seconds_before = number(state["seconds"])
        self._schedule.restore(state["schedule"])
        self._model.load_state_dict(_below("model.", checkpoint.tensors))
        self._best = _below("best.", checkpoint.tensors)
        restore_optimiser(self._optimiser, _below("optimiser.", checkpoint.tensors))
        for place, value in enumerate(self._average_sums()):
            value.copy_(checkpoint.tensors[f"average.{place}"])
        _restore_random(_below("random.", checkpoint.tensors), self.device)
        self._batches.restore(checkpoint.tensors["pending"])

    def _check_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Raise an error for tensors of a checkpoint that are missing, or have other shapes than those of this run."""
        own = self.checkpoint({}).tensors
        for name, expected in own.items():
            found = tensors[name]
            same = found.shape == expected.shape or name == "pending"
            if found.dtype != expected.dtype or not same or found.ndim != expected.ndim:
                raise ValueError(f"{name} has the shape {tuple(found.shape)} of {found.dtype}")

    def _average_sums(self) -> list[Tensor]:
        return [] if self._take_step.average is None else self._take_step.average.sums


@contextmanager
def isolated(settings: TrainSettings, device: torch.device) -> Iterator[None]:
    """Train inside: generators are seeded and arithmetic is set; afterwards, those of the process are restored.

    Training uses the global generators because layers draw their dropout from them, on CUDA also within a graph.
    """
    on_gpu = device.type == "cuda"
    debugging: Any = torch.utils.deterministic  # whose attribute type checkers do not see
    filled = debugging.fill_uninitialized_memory
    precision, deterministic = torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        torch.manual_seed(int(generator(settings.seed, "train").integers(2**63)))
        # Otherwise the CPU sums gradients of looked-up rows in an order that depends on the threads.
        torch.use_deterministic_algorithms(deterministic or not on_gpu)
        debugging.fill_uninitialized_memory = False  # takes a fifth of some steps
        torch.set_float32_matmul_precision("high" if on_gpu and settings.tf32 else precision)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(deterministic)
            debugging.fill_uninitialized_memory = filled
            torch.set_float32_matmul_precision(precision)


def _random_states(device: torch.device) -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    return {**states, "cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else states


def _restore_random(states: dict[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(states["cpu"].cpu())
    if "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"].cpu(), device)


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with ``prefix``, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
