"""``relens train``: one base model on one data set."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from relens.cli.console import TerminalProgress, emit, emit_json, note
from relens.cli.device import device_option, pick_device
from relens.cli.options import json_option, seed_option
from relens.data.catalog import load
from relens.data.dataset import Dataset
from relens.errors import InputError
from relens.run import Run

if TYPE_CHECKING:
    import torch

    from relens.training.settings import TrainSettings
    from relens.training.trained import TrainedModel


@click.command()
@click.argument("source", metavar="DATASET")
@click.option("--model", required=True, help="transe, rotate, house, complex, conve or compgcn.")
@click.option("--preset", default="best", show_default=True, help="Settings to start from: paper, best or demo.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a setting, e.g. --set dim=500.")
@click.option(
    "--run", "run_path", type=click.Path(path_type=Path), help="The run to train in.  [default: runs/DATASET]"
)
@click.option("--name", help="Name of the model in the run.  [default: the model]")
@device_option
@seed_option
@click.option("--offline", is_flag=True, help="Never download the data set.")
@click.option("--force", is_flag=True, help="Train again, from the beginning.")
@json_option
def train(source: str, model: str, run_path: Path | None, name: str | None, as_json: bool, **options: Any) -> None:
    """Train a base MODEL on DATASET (a name, or a folder of TSV files) and keep it in a run.

    The best parameters by validation MRR are kept. Interrupted training goes on where it stopped when the same
    command runs again; a model that is complete is left alone.
    """
    from relens.training.presets import resolve
    from relens.training.trained import TrainedModel

    progress = TerminalProgress()
    dataset = load(source, offline=options["offline"], progress=progress)
    overrides = [*options["overrides"], f"seed={options['seed']}"]
    settings = resolve(dataset.name, model.lower(), options["preset"], overrides)
    run = _open_or_create(run_path or Path("runs") / dataset.name, dataset)
    folder = run.model_path(name or settings.model)
    if options["force"]:
        run.forget_model(folder.name)
    if (folder / "trained").is_dir():
        trained = TrainedModel.open(folder / "trained")
        if trained.settings != settings:
            raise InputError(
                f"{folder} holds a model with other settings: give --force to train it again, or another --name"
            )
        note(f"{folder} is trained already")
    else:
        trained = _train(dataset, source, settings, folder, pick_device(options["device"]))
    result = trained.result
    if as_json:
        emit_json({"model": str(folder), "settings": settings.as_dict(), **result})
    elif result["best_mrr"] is None:
        emit(f"{folder}: no validation was reached ({result['ending']} after {result['step']:,} steps)")
    else:
        emit(
            f"{folder}: validation MRR {result['best_mrr']:.4f} at step {result['best_step']:,} of {result['step']:,} "
            f"({result['ending']}), {result['seconds']:.0f} s"
        )


def _train(
    dataset: Dataset, source: str, settings: "TrainSettings", folder: Path, device: "torch.device"
) -> "TrainedModel":
    from relens.data.filters import KnownAnswers
    from relens.training.checkpoint import remove_checkpoints
    from relens.training.fit import fit, new_model
    from relens.training.journal import Record
    from relens.training.ranking import mean_reciprocal_rank
    from relens.training.trained import save_trained

    known = KnownAnswers.build(list(dataset.splits.values()), len(dataset.entities), len(dataset.relations))
    queries = dataset.queries("valid")
    if not len(queries):
        raise InputError(f"{dataset.name!r} has no validation triples, which choose the best parameters: hold some out")
    model = new_model(settings, dataset.train, len(dataset.entities), len(dataset.relations)).to(device)
    note(f"training {settings.model}: {model.n_parameters:,} parameters, {settings.steps:,} steps on {device}")
    with TerminalProgress().task(f"training {folder.name}", settings.steps) as advance:
        done = 0

        def show(record: Record) -> None:
            nonlocal done
            advance(record.step - done)
            done = record.step
            if record.mrr is not None:
                note(
                    f"step {record.step:,}: loss {record.loss:.4f}, validation MRR {record.mrr:.4f}, "
                    f"{record.examples_per_second:,.0f} examples/s, lr {record.lr:.3g}, {record.seconds:.0f} s"
                )

        result = fit(
            model, dataset.train, settings, folder=folder, log=show,
            validate=lambda trained: mean_reciprocal_rank(trained, queries, known),
        )  # fmt: skip
    trained = save_trained(model, settings, result, dataset, source, folder / "trained")
    remove_checkpoints(folder)
    return trained


def _open_or_create(path: Path, dataset: Dataset) -> Run:
    if not (path / "run.json").is_file():
        return Run.create(path, dataset.name)
    run = Run.open(path)
    if run.dataset != dataset.name:
        raise InputError(f"{path} is a run on {run.dataset!r}, not on {dataset.name!r}: choose another --run")
    return run
