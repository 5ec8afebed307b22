"""Training the models of a run, one by one or side by side; complete models are kept, begun ones are resumed."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from joblib import delayed

from relens.clusters.workers import start_workers
from relens.data.checks import check_splits
from relens.data.dataset import Dataset
from relens.errors import DamagedError, InputError, RelensError, describe_os_error, is_disk_full
from relens.files import locked, remove_left_overs, write_text
from relens.importers.members import MEMBER_FILE
from relens.pipeline.monitor import Sender, watching
from relens.pipeline.pacing import Timetable
from relens.progress import SILENT, Progress
from relens.ranking.competition import Competition
from relens.ranking.validation import mean_reciprocal_rank
from relens.runs import RETRAIN, Run
from relens.training.checkpoint import newest_step, remove_checkpoints
from relens.training.interruption import Interruption, handle_signals
from relens.training.log import LogRecord
from relens.training.loop import TrainingObserver, Validation, new_model, optimise, warn_of_long_training
from relens.training.settings import TrainSettings
from relens.training.trained import TrainedModel, save_trained


def trained_model(run: Run, name: str, settings: TrainSettings, dataset: Dataset) -> TrainedModel | None:
    """Return the model of that name if its training is complete, and no retraining was requested.

    A model that was trained with other settings, or on other data, raises an error.
    """
    folder = run.model_path(name)
    _check_own(folder)
    if not _is_complete(folder):
        return None
    trained = TrainedModel.open(folder / "trained")
    if trained.fingerprint != dataset.fingerprint:
        raise InputError(
            f"{folder} was trained on an earlier version of {trained.dataset} (fingerprint {trained.fingerprint}), not "
            f"on {dataset.name} as it is now ({dataset.fingerprint}): choose another run, or remove {folder} to train "
            f"it again"
        )
    if trained.settings != settings:
        changed = [key for key, value in settings.as_dict().items() if value != trained.settings.as_dict()[key]]
        raise InputError(
            f"{folder} was trained with other settings (different: {', '.join(changed)}): choose another run or name, "
            f"or remove {folder} to train it again"
        )
    return trained


def tidy_models(run: Run) -> None:
    """Remove checkpoints and temporary files that killed processes left beside complete models.

    Models in training are left alone.
    """
    for folder in map(run.model_path, run.model_names):
        with suppress(InputError), locked(folder):  # an error: the folder is in use
            if not (folder / RETRAIN).exists():
                remove_checkpoints(folder)
            remove_left_overs(folder)


def request_retraining(run: Run, names: Iterable[str]) -> None:
    """Request that models are trained from the first step, whether they are complete or not.

    A complete model stays until the new one replaces it. The run stores the request: after an interruption,
    ``train_model`` resumes the new training without a second request.
    """
    for folder in map(run.model_path, names):
        _check_own(folder)
        if folder.is_dir():
            with locked(folder):
                (folder / RETRAIN).touch()
                remove_checkpoints(folder)


def retrain_damaged(run: Run, names: Iterable[str], progress: Progress) -> None:
    """Request that complete models with missing or damaged files are trained again, and note which, and why.

    Nothing else can restore them, as checkpoints are removed when training ends. On the CPU, the same settings give the
    same parameters: what was made from them stays valid.
    """
    for name in names:
        folder = run.model_path(name)
        if not _is_complete(folder):
            continue
        try:
            TrainedModel.open(folder / "trained").verify()
        except DamagedError as error:
            progress.note(f"warning: {error}")
            progress.note(f"{name} has no checkpoints any more: it is trained again from the first step")
            request_retraining(run, [name])


def train_in_run(
    run: Run,
    dataset: Dataset,
    settings: TrainSettings,
    *,
    name: str | None = None,
    device: Any = "cpu",
    observer: TrainingObserver = TrainingObserver(),  # noqa: B008 (frozen)
) -> TrainedModel:
    """Return the model of a run, trained now unless it is complete; an interrupted training is resumed.

    Args:
        run: the run that keeps the model.
        dataset: the data.
        settings: of the model; a complete model with other settings raises an error.
        name: of the model in the run; None for the name of the model.
        device: where to train.
        observer: receives the records of the log, and may stop training.
    """
    name = name or settings.model
    trained = trained_model(run, name, settings, dataset)
    run.keep_graph(dataset)
    if trained is None:
        with report_kept_on_interrupt(run, {name: settings}):
            trained = train_model(dataset, settings, run.model_path(name), device=device, observer=observer)
    return trained


def train_model(
    dataset: Dataset,
    settings: TrainSettings,
    folder: Path,
    *,
    device: Any,
    observer: TrainingObserver = TrainingObserver(),  # noqa: B008 (frozen)
) -> TrainedModel:
    """Train a model in ``folder``, or resume its training, and save it there; see ``train_in_run``."""
    check_splits(dataset, "valid")
    competition = Competition.from_dataset(dataset, "valid")
    with locked(folder):
        remove_left_overs(folder)
        model = new_model(settings, dataset.train, len(dataset.entities), len(dataset.relations)).to(device)
        final = settings

        def revise(settings: TrainSettings, step: int, seconds: float) -> TrainSettings:
            nonlocal final
            final = observer.revise(settings, step, seconds)
            return final

        result = optimise(
            model, dataset.train, settings, folder=folder, observer=replace(observer, revise=revise),
            validate=Validation(partial(mean_reciprocal_rank, competition=competition), dataset.valid[:, 1]),
        )  # fmt: skip
        trained = save_trained(model, final, result, dataset, folder / "trained")
        (folder / RETRAIN).unlink(missing_ok=True)
        remove_checkpoints(folder)
    return trained


def training_progress(run: Run, name: str, settings: TrainSettings) -> str:
    """Return how far the training of a model is: ``complete``, ``step 800 of 1,000``, or an empty text."""
    folder = run.model_path(name)
    if _is_complete(folder):
        return "complete"
    step = newest_step(folder)
    return f"step {step:,} of {settings.steps:,}" if step else ""


@contextmanager
def report_kept_on_interrupt(run: Run, settings: Mapping[str, TrainSettings]) -> Iterator[None]:
    """Add to a ``KeyboardInterrupt`` which models the run keeps, and how far they are."""
    try:
        yield
    except KeyboardInterrupt as error:
        found = {name: training_progress(run, name, asked) for name, asked in settings.items()}
        kept = ", ".join(f"{name} ({progress})" for name, progress in found.items() if progress)
        raise KeyboardInterrupt(f"{run.path} keeps {kept or 'no model yet'}") from error


def _check_own(folder: Path) -> None:
    """Raise an error if the folder of a model has a member of others, which training would lose."""
    if (folder / MEMBER_FILE).is_file():
        raise InputError(
            f"{folder} has a member that relens did not train, and keeps it: train another model, give this one "
            f"another name, or choose another run"
        )


def _is_complete(folder: Path) -> bool:
    """Say whether a model is trained, and no retraining was requested."""
    return (folder / "trained").is_dir() and not (folder / RETRAIN).exists()


Listener = Callable[[str, torch.device, LogRecord], None]
"""Receives the name of a model, the device that trains it, and a record of its log."""

_log = logging.getLogger(__name__)


def train_side_by_side(
    run: Run,
    dataset: Dataset,
    wanted: Mapping[str, TrainSettings],
    *,
    places: Sequence[torch.device],
    listener: Listener,
    timetable: Timetable | None = None,
    progress: Progress = SILENT,
) -> None:
    """Train several models, one at a time in each of ``places``; a device that occurs twice trains two at a time.

    A free place takes the next model, in the order of ``wanted``. Each model has one thread: small models use one core
    well and two badly, and the result is the same for any number of places. ``listener`` is sent to other processes.
    On an interruption all models save a checkpoint first. If a model fails, the others are completed before an error
    names it. With a ``timetable``, models get as many steps as fit into it. ``progress``
    receives a task for each model in training, in this process.
    """
    places = places[: len(wanted)]
    with TemporaryDirectory(prefix="relens-") as folder:
        turns = _Turns(Path(folder), os.getpid())
        # Workers live on between calls, and their current folder may differ from ours.
        folders = {name: run.model_path(name).resolve() for name in wanted}
        work = delayed(partial(_train_in_turn, turns, dict(wanted), folders, dataset, (listener, timetable)))
        with watching(turns.folder, list(wanted), progress), Interruption(turns.stop):
            try:
                failed = [error for found in start_workers(len(places))(map(work, places)) for error in found]
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

    def begin(
        self, timetable: Timetable, name: str, settings: TrainSettings, names: Sequence[str], step: int
    ) -> tuple[TrainSettings, float]:
        """Return the settings of a model that was taken, and when its training ends, which other workers are told.

        A training that goes on after ``step`` has the settings that it was begun with.
        """
        waiting = [other for other in names if not self._taken(other).exists()]
        ends = [float(text) for path in self.folder.glob("*.ends") if (text := path.read_text())]
        begun, end = timetable.begin(name, settings, waiting, ends)
        write_text(self.folder / f"{name}.ends", str(end))
        return (settings if step else begun), end

    def end(self, name: str) -> None:
        """Tell other workers that the training of a model has ended."""
        (self.folder / f"{name}.ends").unlink(missing_ok=True)

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
    watching: tuple[Listener, Timetable | None],
    device: torch.device,
) -> list[RelensError]:
    """Train, on one device, one after the other, the models that no other worker has taken; return the failures.

    Neither failures nor interruptions may be raised: the parent would kill the other workers at work.
    """
    if os.getpid() != turns.parent:
        handle_signals(lambda number, frame: None)  # between two models only the parent decides
    failed: list[RelensError] = []
    listener, timetable = watching
    with _one_thread():
        for name in (name for name in wanted if turns.take(name, device)):
            sender = Sender(turns.folder, name)
            observer = TrainingObserver(
                record=partial(_tell, sender, partial(listener, name, device)),
                takes_long=partial(warn_of_long_training, name),
                stop=lambda: turns.stopped,
                doing=sender.doing,
            )
            settings = wanted[name]
            if timetable is not None:
                settings, end = turns.begin(timetable, name, settings, list(wanted), newest_step(folders[name]))
                observer = replace(observer, revise=partial(timetable.revise, name, end))
            try:
                train_model(dataset, settings, folders[name], device=device, observer=observer)
            except KeyboardInterrupt:
                turns.stop()
            except Exception as error:  # after any error, the other models are worth finishing
                failed.append(_failure(name, device, error))
            turns.end(name)
            sender.end()
    torch.cuda.empty_cache()  # workers live on, and ranking needs the memory
    return failed


def _tell(sender: Sender, listener: Callable[[LogRecord], None], record: LogRecord) -> None:
    """Pass a record on to those who watch."""
    sender.record(record)
    listener(record)


def _failure(name: str, device: torch.device, error: Exception) -> RelensError:
    """Log that a model failed, and return the error that ends training; unexpected errors are logged with a trace."""
    expected = isinstance(error, RelensError) or is_disk_full(error)
    text = describe_os_error(error) if isinstance(error, OSError) else str(error)
    failure = f"{name} failed on {device}: {text if expected else f'{type(error).__name__}: {error}'}"
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
