"""Training a model of a run, and what there is of it: complete, begun, or asked for again."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
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
from relens.training.log import LogRecord
from relens.training.loop import new_model, optimise
from relens.training.settings import TrainSettings
from relens.training.trained import TrainedModel, save_trained

AGAIN = ".again"
"""An empty file in the folder of a model that is to be trained again; it goes when that is done."""


def trained_model(run: Run, name: str, settings: TrainSettings, dataset: Dataset) -> TrainedModel | None:
    """Return the model of that name if its training is complete; one with other settings or data is refused.

    A model that is to be trained again counts as none.
    """
    folder = run.model_path(name)
    if not (folder / "trained").is_dir() or (folder / AGAIN).exists():
        return None
    trained = TrainedModel.open(folder / "trained")
    if trained.fingerprint != dataset.fingerprint:
        raise InputError(
            f"{folder} was trained on {trained.source} as it was then (fingerprint {trained.fingerprint}), not on what "
            f"{dataset.name} is now ({dataset.fingerprint}): choose another run, or remove {folder} to train it again"
        )
    if trained.settings != settings:
        changed = [key for key, value in settings.as_dict().items() if value != trained.settings.as_dict()[key]]
        raise InputError(
            f"{folder} was trained with other settings ({', '.join(changed)} differ): choose another run or name, or "
            f"remove {folder} to train it again"
        )
    return trained


def tidy_models(run: Run) -> None:
    """Remove what killed processes left beside complete models: checkpoints, and what never took its place.

    A model that somebody trains now is left alone.
    """
    for folder in map(run.model_path, run.model_names()):
        with suppress(InputError), locked(folder):  # refused: in use
            if not (folder / AGAIN).exists():
                remove_checkpoints(folder)
            remove_left_overs(folder)


def train_again(run: Run, names: Iterable[str]) -> None:
    """Ask for models to be trained from the beginning, whatever there is of them.

    A finished one stays until the new one replaces it. The request is kept in the run: if training is interrupted,
    ``train_model`` goes on with the new one, and nobody has to ask again.
    """
    for folder in map(run.model_path, names):
        if folder.is_dir():
            with locked(folder):
                (folder / AGAIN).touch()
                remove_checkpoints(folder)


def train_model(
    dataset: Dataset,
    source: str,
    settings: TrainSettings,
    folder: Path,
    *,
    device: Any,
    log: Callable[[LogRecord], None] = lambda record: None,
    stop: Callable[[], bool] = lambda: False,
) -> TrainedModel:
    """Train a model in ``folder``, going on where an interrupted training was, and keep it there.

    ``source`` is what the data set was asked for as; ``log`` is handed each record; ``stop`` is asked before each step.
    """
    check_splits(dataset, "valid")
    competition = Competition.from_dataset(dataset, "valid")
    with locked(folder):
        remove_left_overs(folder)
        model = new_model(settings, dataset.train, len(dataset.entities), len(dataset.relations)).to(device)
        result = optimise(
            model, dataset.train, settings, folder=folder, log=log, stop=stop,
            validate=lambda trained: mean_reciprocal_rank(trained, competition),
        )  # fmt: skip
        trained = save_trained(model, settings, result, dataset, source, folder / "trained")
        (folder / AGAIN).unlink(missing_ok=True)
        remove_checkpoints(folder)
    return trained


def standing(run: Run, name: str, settings: TrainSettings) -> str:
    """Say how far the training of a model is: ``complete``, ``step 800 of 1,000``, or nothing where it has to begin."""
    folder = run.model_path(name)
    if (folder / "trained").is_dir() and not (folder / AGAIN).exists():
        return "complete"
    step = newest_step(folder)
    return f"step {step:,} of {settings.steps:,}" if step else ""


@contextmanager
def telling_what_is_kept(run: Run, settings: Mapping[str, TrainSettings]) -> Iterator[None]:
    """Let an interruption say which models of a run are kept, and how far they are."""
    try:
        yield
    except KeyboardInterrupt as error:
        found = {name: standing(run, name, asked) for name, asked in settings.items()}
        kept = ", ".join(f"{name} ({how})" for name, how in found.items() if how)
        raise KeyboardInterrupt(f"{run.path} keeps {kept or 'no model yet'}") from error
