"""The training loop: steps, validations, the best parameters, and resuming after an interruption."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from relens.errors import InputError
from relens.models import MODELS
from relens.models.base import KGEModel, current
from relens.records import CHECKPOINT
from relens.seeding import generator
from relens.training.checkpoint import newest_checkpoint, save_checkpoint
from relens.training.interruption import Interruption
from relens.training.log import LogRecord, TrainingLog, readable_duration
from relens.training.queries import TrainingQueries
from relens.training.settings import TrainSettings
from relens.training.state import Ending, TrainingState, isolated

CHECKPOINT_SECONDS = 30.0
ESTIMATE_SECONDS = 5.0
"""The time to train before the total time is estimated for the first time."""
LONG_SECONDS = 3600.0
"""Training on a CPU that takes longer than this is announced."""

Doing = Literal["step", "validation"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingResult:
    """How training ended; the model has the parameters of ``best_step``. The log says how long it took.

    Attributes:
        step: steps taken.
        best_step: step of the best validation; 0 if there was none.
        best_mrr: its filtered validation MRR; None if there was none.
        ending: ``steps`` (all taken), ``stopped early``, or ``diverged`` (the loss became non-finite).
    """

    step: int
    best_step: int
    best_mrr: float | None
    ending: Ending


@dataclass(frozen=True)
class Validation:
    """A validation whose relations are known, for settings with ``focus``.

    Attributes:
        measure: returns the filtered MRR of the validation queries.
        relations: the relations that they ask for, (k,) ids.
    """

    measure: Callable[[KGEModel], float]
    relations: npt.NDArray[np.integer[Any]]

    def __call__(self, model: KGEModel) -> float:
        """Return the filtered MRR of a model."""
        return self.measure(model)


def warn_of_long_training(what: str, seconds_left: float) -> None:
    """Log how long training will take, and what is faster."""
    _log.warning(
        "%s: about %s left at this pace; the preset demo, for CPUs, has smaller models and fewer steps",
        what,
        readable_duration(seconds_left),
    )


@dataclass(frozen=True)
class TrainingObserver:
    """Functions that watch a model in training and may stop it.

    Attributes:
        record: receives each record of the log.
        takes_long: receives the estimated seconds left, once, after the first steps of training on a CPU that takes
            longer than ``LONG_SECONDS``.
        stop: says before each step whether training should stop; it then saves a checkpoint and ends.
        revise: receives the settings, the steps taken and the seconds that they took, after each record of the log, and
            returns the settings to go on with: another number of steps, with the same learning rates so far.
        doing: receives how many steps are taken, of how many, and what comes next.
    """

    record: Callable[[LogRecord], None] = lambda record: None
    takes_long: Callable[[float], None] = lambda seconds_left: warn_of_long_training("training", seconds_left)
    stop: Callable[[], bool] = lambda: False
    revise: Callable[[TrainSettings, int, float], TrainSettings] = lambda settings, step, seconds: settings
    doing: Callable[[int, int, Doing], None] = lambda step, steps, what: None


def new_model(settings: TrainSettings, triples: npt.NDArray[np.int32], n_entities: int, n_relations: int) -> KGEModel:
    """Return the untrained model of some settings on the CPU; ``triples`` (n, 3) are those of train."""
    seed = int(generator(settings.seed, "initialise").integers(2**63))
    facts = torch.from_numpy(triples.astype(np.int64))
    with torch.random.fork_rng(devices=[]):  # new layers draw from the global generator
        model = MODELS.find(settings.model).build(n_entities, n_relations, settings.options, facts)
    model.initialise(settings.initialiser, torch.Generator().manual_seed(seed))
    return model


def optimise(
    model: KGEModel,
    triples: npt.NDArray[np.int32],
    settings: TrainSettings,
    *,
    validate: Callable[[KGEModel], float],
    folder: Path | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    observer: TrainingObserver = TrainingObserver(),  # noqa: B008 (frozen)
) -> TrainingResult:
    """Train a model, on its device, until all steps are taken, validation stalls or the loss diverges.

    The model ends with the parameters of its best validation. With a ``folder``, the log is written there as JSONL,
    and checkpoints after validations at least ``checkpoint_seconds`` apart: the same call resumes from the newest one.
    Ctrl-C, a request to terminate, and the observer's ``stop`` save a checkpoint before they end the run with a
    ``KeyboardInterrupt``. ``stop`` acts before the next step, signals act at once in a validation and, on a CPU, in a
    step, which is taken again when the run is resumed. On the CPU the result depends on
    model, triples and settings alone, however often the run was interrupted.

    Args:
        model: as returned by ``new_model``; it is trained on ``model.device``.
        triples: of train, (n, 3) rows head, relation, tail.
        settings: loss, optimiser, schedule and so on.
        validate: returns the filtered MRR of the validation queries; a ``Validation`` for settings with ``focus``.
        folder: for log and checkpoints; None for neither.
        checkpoint_seconds: least time between checkpoints.
        observer: receives the records of the log, and may stop training.
    """
    device = model.device

    def identity(state: TrainingState) -> dict[str, Any]:
        return {**state.settings.as_dict(), "triples": digest}

    digest = _digest(triples, model)
    with current(device), isolated(settings, device), Interruption() as interruption:
        facts = torch.from_numpy(triples.astype(np.int64)).to(device)
        queries = TrainingQueries.from_triples(facts, model.n_entities, model.n_relations)
        state = TrainingState(model.train(), queries, settings, _asked(validate, settings))
        if folder is not None and (checkpoint := newest_checkpoint(folder, identity(state), device)):
            with CHECKPOINT.parsing(f"the checkpoint of step {checkpoint.step} in {folder}"):
                state.resume(checkpoint)

        def keep() -> None:
            if folder is not None and state.step:
                save_checkpoint(folder, state.checkpoint(identity(state)))

        log = TrainingLog(folder, observer.record, step=state.marked_step)
        _Loop(state, log, observer, interruption, partial(validate, model), keep).run(checkpoint_seconds)
    return _finish(state)


@dataclass(frozen=True, eq=False)
class _Loop:
    """A training run: its state, and what happens between steps."""

    state: TrainingState
    log: TrainingLog
    observer: TrainingObserver
    interruption: Interruption
    validate: Callable[[], float]
    keep: Callable[[], None]

    def run(self, checkpoint_seconds: float) -> None:
        """Take steps until training ends."""
        state, saved = self.state, time.perf_counter()
        estimated = state.device.type != "cpu"
        while True:
            if self.interruption.requested or self.observer.stop():
                self.keep()
                raise KeyboardInterrupt
            settings = state.settings
            due = state.step % settings.validate_every == 0 or state.step == settings.steps
            # A run that was interrupted in a validation has no record of the step from which it resumes.
            if state.step > state.marked_step and (due or state.step % settings.log_every == 0):
                self.log.write(self.validated(state.record()) if due else state.record())
                state.mark()
                if due and time.perf_counter() - saved >= checkpoint_seconds:
                    self.keep()
                    saved = time.perf_counter()
                self.revise()
            if state.ending is not None:
                return
            self.observer.doing(state.step, state.settings.steps, "step")
            with self.keeping():
                state.advance(self.interruption)
            if not estimated and state.session_seconds >= ESTIMATE_SECONDS:
                estimated = True
                if state.seconds_left > LONG_SECONDS:
                    self.observer.takes_long(state.seconds_left)

    def revise(self) -> None:
        """Go on with as many steps as the observer asks for."""
        state = self.state
        if state.ending is None:
            revised = self.observer.revise(state.settings, state.step, state.seconds)
            if revised != state.settings:
                state.change_length(revised)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Save a checkpoint if Ctrl-C ends what happens inside."""
        try:
            yield
        except KeyboardInterrupt:
            self.keep()
            raise

    def validated(self, record: LogRecord) -> LogRecord:
        """Return a record with the validation MRR, unless the loss is non-finite."""
        if record.loss is None:
            return record
        self.observer.doing(self.state.step, self.state.settings.steps, "validation")
        with self.keeping(), self.state.evaluation():
            with self.interruption.immediate():
                self.state.estimate_statistics()
                mrr = self.validate()
            self.state.record_validation(mrr)
        return replace(record, mrr=mrr, seconds=self.state.seconds, seconds_left=self.state.seconds_left)


def _asked(validate: Callable[[KGEModel], float], settings: TrainSettings) -> npt.NDArray[np.integer[Any]] | None:
    """Return the relations of validation that training focuses on; None without a focus."""
    if not settings.focus:
        return None
    if not isinstance(validate, Validation):
        raise InputError(
            f"`focus={settings.focus}` needs the relations of the validation split: pass `validate=Validation(…)`"
        )
    return validate.relations


def _finish(state: TrainingState) -> TrainingResult:
    """Give the model its best parameters, and return how training ended."""
    assert state.ending is not None
    if state.ending == "diverged":
        _log.warning(
            "the loss became non-finite by step %d; the model keeps its parameters of step %d. "
            "A smaller lr, or a larger regulariser_weight, may help.",
            state.step,
            state.best_step,
        )
    state.restore_best()
    return TrainingResult(state.step, state.best_step, state.best_mrr, state.ending)


def _digest(triples: npt.NDArray[Any], model: KGEModel) -> str:
    """Return a short digest of the training data: checkpoints of other data are not resumed."""
    sizes = f"{model.n_entities} {model.n_relations} ".encode()
    return sha256(sizes + np.ascontiguousarray(triples, dtype="<i4").tobytes()).hexdigest()[:16]
