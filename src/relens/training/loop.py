"""The training loop: steps, validation, the best parameters, and going on after an interruption."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from relens.models import build
from relens.models.base import KGEModel
from relens.models.devices import current
from relens.seeding import generator
from relens.training.checkpoint import newest_checkpoint, save_checkpoint
from relens.training.interruption import Interruption
from relens.training.log import LogRecord, TrainingLog
from relens.training.queries import TrainingQueries
from relens.training.settings import TrainSettings
from relens.training.state import Ending, TrainingState, isolated

CHECKPOINT_SECONDS = 30.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingResult:
    """How a run ended; the model holds the parameters of ``best_step``.

    Attributes:
        step: steps taken.
        best_step: step of the best validation; 0 where none was taken.
        best_mrr: its filtered validation MRR; None where none was taken.
        ending: all ``steps``, ``stopped early``, or ``diverged``: the loss was no finite number.
        seconds: time taken, interruptions not counted.
    """

    step: int
    best_step: int
    best_mrr: float | None
    ending: Ending
    seconds: float


def new_model(settings: TrainSettings, triples: npt.NDArray[np.int32], n_entities: int, n_relations: int) -> KGEModel:
    """Return the untrained model of some settings on the CPU; ``triples`` (n, 3) are those of train."""
    seed = int(generator(settings.seed, "initialise").integers(2**63))
    facts = torch.from_numpy(triples.astype(np.int64))
    with torch.random.fork_rng(devices=[]):  # layers draw from the global generator when they are made
        model = build(settings.model, n_entities, n_relations, settings.options, facts)
    model.initialise(settings.initialiser, torch.Generator().manual_seed(seed))
    return model


def optimise(
    model: KGEModel,
    triples: npt.NDArray[np.int32],
    settings: TrainSettings,
    *,
    validate: Callable[[KGEModel], float],
    log: Callable[[LogRecord], None] = lambda record: None,
    folder: Path | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    stop: Callable[[], bool] = lambda: False,
) -> TrainingResult:
    """Train a model, on its device, until the steps are taken, validation stalls or the loss diverges.

    The model ends with the parameters of its best validation. With a ``folder``, the log is written there as JSONL,
    and checkpoints after validations at least ``checkpoint_seconds`` apart: the same call goes on where a killed one
    was. Ctrl-C, a request to terminate, and ``stop`` leave one, too, before they end the run with a
    ``KeyboardInterrupt``. On the CPU the result depends on model, triples and settings alone, however often the run was
    interrupted.

    Args:
        model: as ``new_model`` made it; ``model.device`` is where it is trained.
        triples: of train, (n, 3) rows head, relation, tail.
        settings: what to do.
        validate: returns the filtered MRR of the validation queries.
        log: is handed each record of the log.
        folder: for log and checkpoints; None for neither.
        checkpoint_seconds: between checkpoints, at least.
        stop: is asked before each step whether to stop.
    """
    device = model.device
    identity = {**settings.as_dict(), "triples": _digest(triples, model)}
    with current(device), isolated(settings, device), Interruption() as interruption:
        facts = torch.from_numpy(triples.astype(np.int64)).to(device)
        run = TrainingState(
            model.train(), TrainingQueries.from_triples(facts, model.n_entities, model.n_relations), settings
        )
        if folder is not None and (checkpoint := newest_checkpoint(folder, identity, device)):
            run.resume(checkpoint)
        journal, saved = TrainingLog(folder, log, step=run.marked_step), time.perf_counter()

        def keep() -> None:
            if folder is not None and run.step:
                save_checkpoint(folder, run.checkpoint(identity))

        while True:
            if interruption.asked or stop():
                keep()
                raise KeyboardInterrupt
            due = run.step % settings.validate_every == 0 or run.step == settings.steps
            # A run that was interrupted in a validation has not recorded the step it goes on from.
            if run.step > run.marked_step and (due or run.step % settings.log_every == 0):
                record = run.record()
                if due and record.loss is not None:
                    try:
                        with interruption.at_once():
                            mrr = validate(model)
                    except KeyboardInterrupt:
                        keep()
                        raise
                    run.validated(mrr)
                    record = replace(record, mrr=mrr, seconds=run.seconds)
                journal.write(record)
                run.mark()
                if due and time.perf_counter() - saved >= checkpoint_seconds:
                    keep()
                    saved = time.perf_counter()
            if run.ending is not None:
                break
            run.advance()
    return _finish(run)


def _finish(run: TrainingState) -> TrainingResult:
    """Give the model its best parameters and say how the run ended."""
    assert run.ending is not None
    if run.ending == "diverged":
        _log.warning(
            "the loss was no finite number by step %d; the model keeps its parameters of step %d. "
            "A smaller lr, or a larger regulariser_weight, may help.",
            run.step,
            run.best_step,
        )
    run.restore_best()
    return TrainingResult(run.step, run.best_step, run.best_mrr, run.ending, run.seconds)


def _digest(triples: npt.NDArray[Any], model: KGEModel) -> str:
    """Return a short digest of the training data: a checkpoint of other data is not gone on from."""
    sizes = f"{model.n_entities} {model.n_relations} ".encode()
    return sha256(sizes + np.ascontiguousarray(triples, dtype="<i4").tobytes()).hexdigest()[:16]
