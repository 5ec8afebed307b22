"""``relens train``: one base model on one data set."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from relens.cli.console import TerminalProgress, emit, emit_json, note
from relens.cli.device import device_option, pick_device
from relens.cli.options import PRESET_HELP, json_option, one_of, seed_option
from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset

if TYPE_CHECKING:
    import torch

    from relens.training.settings import TrainSettings
    from relens.training.trained import TrainedModel


class ModelOption(click.Option):
    """An option whose help names the models there are, looked up only when somebody reads it: they need torch."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option and its help."""
        with suppress(ImportError):
            from relens.models import MODELS

            self.help = f"{one_of(MODELS)}."
        return super().get_help_record(ctx)


@click.command()
@click.argument("source", metavar="DATASET")
@click.option("--model", cls=ModelOption, required=True, help="Name of a base model.")
@click.option("--preset", default="best", show_default=True, help=PRESET_HELP)
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
    device = pick_device(options["device"])  # before anything that needs torch: it says how to install it
    from relens.data.checks import check_splits
    from relens.pipeline.run import open_or_create
    from relens.pipeline.training import standing, telling_what_is_kept, tidy_models, train_again, trained_model
    from relens.training.presets import resolve

    dataset = load_dataset(source, offline=options["offline"], progress=TerminalProgress())
    overrides = [*options["overrides"], f"seed={options['seed']}"]
    settings = resolve(dataset.name, model.lower(), options["preset"], overrides)
    check_splits(dataset, "valid")
    run = open_or_create(run_path or Path("runs") / dataset.name, dataset)
    tidy_models(run)
    folder = run.model_path(name or settings.model)
    if options["force"]:
        train_again(run, [folder.name])
    trained = trained_model(run, folder.name, settings, dataset)
    if trained is not None:
        note(f"{folder} is trained already")
    else:
        if how := standing(run, folder.name, settings):
            note(f"{folder.name}: goes on at {how}")
        with telling_what_is_kept(run, {folder.name: settings}):
            trained = _train(dataset, source, settings, folder, device)
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
    from relens.data.checks import sampled_validation
    from relens.pipeline.training import train_model
    from relens.training.log import LogRecord

    note(f"training {settings.model}: {settings.steps:,} steps on {device}")
    for text in sampled_validation(dataset):
        note(text)
    with TerminalProgress().task(f"training {folder.name}", settings.steps) as advance:
        done = 0

        def show(record: LogRecord) -> None:
            nonlocal done
            advance(record.step - done)
            done = record.step
            if record.mrr is not None:
                note(
                    f"step {record.step:,}: loss {record.loss:.4f}, validation MRR {record.mrr:.4f}, "
                    f"{record.examples_per_second:,.0f} examples/s, lr {record.lr:.3g}, {record.seconds:.0f} s"
                )

        return train_model(dataset, source, settings, folder, device=device, log=show)
