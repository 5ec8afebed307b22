"""Training the models of a run side by side: a free device takes the next model."""

import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from joblib import Parallel, delayed

from relens.data.catalog import origin
from relens.data.dataset import Dataset
from relens.errors import InputError, RelensError
from relens.pipeline.training import train_model, training_progress
from relens.runs import Run
from relens.training.interruption import Interruption
from relens.training.log import LogRecord
from relens.training.loop import TrainingObserver, warn_of_long_training
from relens.training.settings import TrainSettings

Listener = Callable[[str, torch.device, LogRecord], None]
"""Receives the name of a model, the device that trains it, and a record of its log."""

_log = logging.getLogger(__name__)


def train_side_by_side(
    run: Run,
    dataset: Dataset,
    source: str,
    wanted: Mapping[str, TrainSettings],
    *,
    places: Sequence[torch.device],
    listener: Listener,
) -> None:
    """Train several models, one at a time in each of ``places``; a device that occurs twice trains two at a time.

    A free place takes the next model, in the order of ``wanted``. Each model has one thread: small models use one core
    well and two badly, and the result is the same for any number of places. ``listener`` is sent to other processes.
    On an interruption all models save a checkpoint first. If a model fails, the others are completed before an error
    names it.
    """
    places = places[: len(wanted)]
    with TemporaryDirectory(prefix="relens-") as folder:
        turns = _Turns(Path(folder), os.getpid())
        # Workers live on between calls, and their current folder may differ from ours.
        folders = {name: run.model_path(name).resolve() for name in wanted}
        work = delayed(partial(_train_in_turn, turns, dict(wanted), folders, dataset, origin(source), listener))
        with Interruption(turns.stop):
            try:
                failed = [error for found in Parallel(len(places), batch_size=1)(map(work, places)) for error in found]
            except BrokenExecutor as error:
                if not turns.stopped:
                    raise RelensError(_lost(turns, run, wanted)) from error
                # Ctrl-C reaches workers, too, and ends those that are still starting.
        if turns.stopped:
            raise KeyboardInterrupt
    if failed:
        kind = InputError if all(isinstance(error, InputError) for error in failed) else RelensError
        rest = " (the other models are complete)" if len(failed) < len(wanted) else ""
        raise kind("; ".join(map(str, failed)) + rest)


@dataclass(frozen=True)
class _Turns:
    """Messages between workers, which may be processes, as files of a folder.

    Attributes:
        folder: the folder.
        parent: the process that waits for the workers.
    """

    folder: Path
    parent: int

    def take(self, name: str, device: torch.device) -> bool:
        """Take a model for a device; False if another worker has it, or if no model may start any more."""
        if self.stopped:
            return False
        try:
            with self._taken(name).open("x") as file:  # only one of several workers succeeds
                file.write(str(device))
        except FileExistsError:
            return False
        return True

    def device_of(self, name: str) -> str | None:
        """Return the device that has taken a model, or None."""
        return self._taken(name).read_text() if self._taken(name).exists() else None

    def stop(self) -> None:
        """Tell all workers to save a checkpoint and end."""
        (self.folder / "stop").touch()

    @property
    def stopped(self) -> bool:
        """Whether the work should stop."""
        return (self.folder / "stop").exists()

    def _taken(self, name: str) -> Path:
        return self.folder / f"{name}.taken"


def _train_in_turn(
    turns: _Turns,
    wanted: Mapping[str, TrainSettings],
    folders: Mapping[str, Path],
    dataset: Dataset,
    source: str,
    listener: Listener,
    device: torch.device,
) -> list[RelensError]:
    """Train, on one device, one after the other, the models that no other worker has taken; return the failures.

    Neither failures nor interruptions may be raised: the parent would kill the other workers at work.
    """
    if os.getpid() != turns.parent:
        signal.signal(signal.SIGINT, lambda number, frame: None)  # between two models only the parent decides
    failed: list[RelensError] = []
    with _one_thread():
        for name in (name for name in wanted if turns.take(name, device)):
            observer = TrainingObserver(
                record=partial(listener, name, device),
                takes_long=partial(warn_of_long_training, name),
                stop=lambda: turns.stopped,
            )
            try:
                train_model(dataset, source, wanted[name], folders[name], device=device, observer=observer)
            except KeyboardInterrupt:
                turns.stop()
            except Exception as error:  # after any error, the other models are worth finishing
                failed.append(_failure(name, device, error))
    torch.cuda.empty_cache()  # workers live on, and ranking needs the memory
    return failed


def _failure(name: str, device: torch.device, error: Exception) -> RelensError:
    """Log that a model failed, and return the error that ends training; unexpected errors are logged with a trace."""
    expected = isinstance(error, RelensError)
    failure = f"{name} failed on {device}: {error if expected else f'{type(error).__name__}: {error}'}"
    _log.error("%s", failure, exc_info=None if expected else error)
    return InputError(failure) if isinstance(error, InputError) else RelensError(failure)


def _lost(turns: _Turns, run: Run, wanted: Mapping[str, TrainSettings]) -> str:
    """Return a message about the models that were in training when a worker died."""
    begun = {name: turns.device_of(name) for name in wanted if training_progress(run, name, wanted[name]) != "complete"}
    at_work = " and ".join(f"{name} on {device}" for name, device in begun.items() if device)
    return (
        f"a process that trained models died, perhaps out of memory; models in training: {at_work}. "
        f"Run the same command again, with fewer models at a time, to resume from their last checkpoints."
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
