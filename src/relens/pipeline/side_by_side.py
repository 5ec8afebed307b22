"""Training the models of a run side by side: each device takes the next model when it is free."""

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
from relens.pipeline.training import standing, train_model
from relens.runs import Run
from relens.training.interruption import Interruption
from relens.training.log import LogRecord
from relens.training.settings import TrainSettings

Listener = Callable[[str, torch.device, LogRecord], None]
"""Is handed the name of a model, the device it is trained on, and a record of its log."""

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
    """Train several models, one at a time in each of ``places``; a device that is there twice trains two at a time.

    The next model, in the order of ``wanted``, begins where the first place is free. Each has one thread: small models
    use one core well and two badly, and the result is the same for any number of places. ``listener`` crosses to other
    processes. Interrupted, all keep a checkpoint before this ends. A model that fails does not keep the others from
    being completed, but is named by an error then.
    """
    places = places[: len(wanted)]
    with TemporaryDirectory(prefix="relens-") as folder:
        turns = _Turns(Path(folder), os.getpid())
        # Workers are kept between calls, and may be in another folder than we are now.
        folders = {name: run.model_path(name).resolve() for name in wanted}
        work = delayed(partial(_train_in_turn, turns, dict(wanted), folders, dataset, origin(source), listener))
        with Interruption(turns.stop):
            try:
                failed = [error for found in Parallel(len(places), batch_size=1)(map(work, places)) for error in found]
            except BrokenExecutor as error:
                if not turns.stopped:
                    raise RelensError(_lost(turns, run, wanted)) from error
                # Ctrl-C reaches workers, too, and ends those that are still being started.
        if turns.stopped:
            raise KeyboardInterrupt
    if failed:
        kind = InputError if all(isinstance(error, InputError) for error in failed) else RelensError
        rest = " (the other models are complete)" if len(failed) < len(wanted) else ""
        raise kind("; ".join(map(str, failed)) + rest)


@dataclass(frozen=True)
class _Turns:
    """What workers, which may be processes, tell each other: files of a folder.

    Attributes:
        folder: of the files.
        parent: the process that waits for the workers.
    """

    folder: Path
    parent: int

    def take(self, name: str, device: torch.device) -> bool:
        """Take a model for a device; False where another has it, or where none is to begin any more."""
        if self.stopped:
            return False
        try:
            with self._of(name).open("x") as file:  # of several workers one succeeds
                file.write(str(device))
        except FileExistsError:
            return False
        return True

    def device_of(self, name: str) -> str | None:
        """Return the device that has taken a model."""
        return self._of(name).read_text() if self._of(name).exists() else None

    def stop(self) -> None:
        """Let all workers keep a checkpoint and end."""
        (self.folder / "stop").touch()

    @property
    def stopped(self) -> bool:
        """Whether somebody wants the work to stop."""
        return (self.folder / "stop").exists()

    def _of(self, name: str) -> Path:
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
    """Train, on one device, one after the other, what no other worker has taken; return what went wrong.

    Neither that nor an interruption may be raised: the parent would kill the other workers in the midst of their work.
    """
    if os.getpid() != turns.parent:
        signal.signal(signal.SIGINT, lambda number, frame: None)  # between trainings the parent alone decides
    failed: list[RelensError] = []
    with _one_thread():
        for name in (name for name in wanted if turns.take(name, device)):
            log = partial(listener, name, device)
            try:
                train_model(
                    dataset, source, wanted[name], folders[name], device=device, log=log, stop=lambda: turns.stopped
                )
            except KeyboardInterrupt:
                turns.stop()
            except Exception as error:  # whatever it is, the other models are worth finishing
                failed.append(_failure(name, device, error))
    torch.cuda.empty_cache()  # workers outlive their work, and ranking needs the memory
    return failed


def _failure(name: str, device: torch.device, error: Exception) -> RelensError:
    """Say now that a model failed, and return the error that ends the training of all; a surprise is traced."""
    expected = isinstance(error, RelensError)
    failure = f"{name} failed on {device}: {error if expected else f'{type(error).__name__}: {error}'}"
    _log.error("%s", failure, exc_info=None if expected else error)
    return InputError(failure) if isinstance(error, InputError) else RelensError(failure)


def _lost(turns: _Turns, run: Run, wanted: Mapping[str, TrainSettings]) -> str:
    """Say what was being trained when a worker died."""
    begun = {name: turns.device_of(name) for name in wanted if standing(run, name, wanted[name]) != "complete"}
    at_work = " and ".join(f"{name} on {device}" for name, device in begun.items() if device)
    return (
        f"a process that trained models died, maybe for lack of memory, while these were not complete: {at_work}. "
        f"Run the same command again, with fewer models at a time, to go on from their last checkpoints."
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
