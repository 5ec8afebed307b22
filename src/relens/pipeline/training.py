"""Training a model of a run: what is complete, what is begun, and what was requested again."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from relens.data.checks import check_splits
from relens.data.dataset import Dataset
from relens.errors import InputError
from relens.files import locked, remove_left_overs
from relens.ranking.competition import Competition
from relens.ranking.validation import mean_reciprocal_rank
from relens.runs import Run
from relens.training.checkpoint import newest_step, remove_checkpoints
from relens.training.loop import TrainingObserver, Validation, new_model, optimise
from relens.training.settings import TrainSettings
from relens.training.trained import TrainedModel, save_trained

RETRAIN = ".again"
"""An empty file in the folder of a model that must be trained again; training removes it at the end."""


def trained_model(run: Run, name: str, settings: TrainSettings, dataset: Dataset) -> TrainedModel | None:
    """Return the model of that name if its training is complete, and no retraining was requested.

    A model that was trained with other settings, or on other data, raises an error.
    """
    folder = run.model_path(name)
    if not _is_complete(folder):
        return None
    trained = TrainedModel.open(folder / "trained")
    if trained.fingerprint != dataset.fingerprint:
        raise InputError(
            f"{folder} was trained on an earlier version of {trained.source} (fingerprint {trained.fingerprint}), not "
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
        if folder.is_dir():
            with locked(folder):
                (folder / RETRAIN).touch()
                remove_checkpoints(folder)


def train_in_run(
    run: Run,
    dataset: Dataset,
    source: str,
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
        source: how the data set was named: a name of the catalogue, or a folder.
        settings: of the model; a complete model with other settings raises an error.
        name: of the model in the run; None for the name of the model.
        device: where to train.
        observer: receives the records of the log, and may stop training.
    """
    name = name or settings.model
    trained = trained_model(run, name, settings, dataset)
    if trained is None:
        with report_kept_on_interrupt(run, {name: settings}):
            trained = train_model(dataset, source, settings, run.model_path(name), device=device, observer=observer)
    return trained


def train_model(
    dataset: Dataset,
    source: str,
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
        result = optimise(
            model, dataset.train, settings, folder=folder, observer=observer,
            validate=Validation(partial(mean_reciprocal_rank, competition=competition), dataset.valid[:, 1]),
        )  # fmt: skip
        trained = save_trained(model, settings, result, dataset, source, folder / "trained")
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


def _is_complete(folder: Path) -> bool:
    """Say whether a model is trained, and no retraining was requested."""
    return (folder / "trained").is_dir() and not (folder / RETRAIN).exists()
