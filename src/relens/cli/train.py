"""``relens train``: one model on one data set."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from relens.cli.console import TerminalProgress, emit, emit_json, note
from relens.cli.device import device_option, pick_device
from relens.cli.options import PRESET_HELP, json_option, one_of, seed_option
from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset
from relens.presets import default_preset
from relens.progress import Advance

if TYPE_CHECKING:
    import torch

    from relens.runs import Run
    from relens.training.log import LogRecord
    from relens.training.loop import TrainingObserver
    from relens.training.settings import TrainSettings
    from relens.training.trained import TrainedModel


class ModelOption(click.Option):
    """An option whose help lists the models; they need torch, and are looked up only when the help is shown."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option and its help."""
        with suppress(ImportError):
            from relens.models import MODELS

            self.help = f"{one_of(MODELS)}."
        return super().get_help_record(ctx)


class TrainCommand(click.Command):
    """A command whose help lists the settings of training below its options."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the settings with their defaults; they need torch."""
        super().format_epilog(ctx, formatter)
        with suppress(ImportError):
            from relens.training.presets import RESERVED
            from relens.training.settings import SETTINGS, TrainSettings

            defaults = TrainSettings("").as_dict()
            rows = [
                (name, f"{setting.help}  [{setting.describe(defaults[name])}]")
                for name, setting in SETTINGS.items()
                if name not in RESERVED
            ]
            with formatter.section(
                "Settings for --set (presets change these defaults; models add options such as dim)"
            ):
                formatter.write_dl(rows)


@click.command(cls=TrainCommand)
@click.argument("source", metavar="DATASET")
@click.option("--model", cls=ModelOption, required=True, help="Name of a model.")
@click.option("--preset", help=f"{PRESET_HELP}  [default: demo on a CPU, best on a GPU]")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a setting, e.g. --set dim=500.")
@click.option(
    "--run", "run_path", type=click.Path(path_type=Path), help="The run to train in.  [default: runs/DATASET]"
)
@click.option("--name", help="Name of the model in the run.  [default: the model]")
@device_option
@seed_option
@click.option("--offline", is_flag=True, help="Never download the data set.")
@click.option("--force", is_flag=True, help="Train again, from the first step.")
@json_option
def train(source: str, model: str, run_path: Path | None, name: str | None, as_json: bool, **options: Any) -> None:
    """Train a MODEL on DATASET (a name, or a folder of TSV files) and keep it in a run.

    The best parameters by validation MRR are kept. The same command resumes an interrupted training; a complete model
    is not trained again.
    """
    device = pick_device(options["device"])  # before anything that needs torch: the error says how to install it
    from relens.data.checks import check_splits
    from relens.pipeline.run import open_or_create
    from relens.pipeline.training import request_retraining, tidy_models, trained_model
    from relens.training.presets import resolve_settings

    dataset = load_dataset(source, offline=options["offline"], progress=TerminalProgress())
    preset = options["preset"] or default_preset(on_cpu=device.type == "cpu")
    settings = resolve_settings(dataset.name, model, preset, [*options["overrides"], f"seed={options['seed']}"])
    check_splits(dataset, "valid")
    run = open_or_create(run_path or Path("runs") / dataset.name, dataset)
    tidy_models(run)
    name = name or settings.model
    if options["force"]:
        request_retraining(run, [name])
    trained = trained_model(run, name, settings, dataset)
    if trained is not None:
        note(f"{run.model_path(name)} is already trained")
    else:
        note(f"training {settings.model}: preset {preset}, {settings.steps:,} steps on {device}")
        trained = _train(run, name, settings, (dataset, source), device)
    _show_result(trained, run.model_path(name), as_json=as_json)


def _train(
    run: "Run", name: str, settings: "TrainSettings", data: tuple[Dataset, str], device: "torch.device"
) -> "TrainedModel":
    """Train a model, or resume its training, and show progress."""
    from relens.data.checks import sampled_validation
    from relens.pipeline.training import train_in_run, training_progress

    if progress := training_progress(run, name, settings):
        note(f"{name}: resuming at {progress}")
    for text in sampled_validation(data[0]):
        note(text)
    with TerminalProgress().task(f"training {name}", settings.steps) as advance:
        return train_in_run(run, *data, settings, name=name, device=device, observer=_observer(advance))


def _observer(advance: Advance) -> "TrainingObserver":
    """Return an observer that moves a bar and prints a line per validation."""
    from relens.training.log import readable_duration
    from relens.training.loop import TrainingObserver

    done = 0

    def show(record: "LogRecord") -> None:
        nonlocal done
        advance(record.step - done)
        done = record.step
        if record.mrr is not None:
            note(record.describe())

    def warn(seconds_left: float) -> None:
        note(
            f"warning: about {readable_duration(seconds_left)} left at this pace. --preset demo, for CPUs, has smaller "
            f"models and fewer steps; Ctrl-C keeps a checkpoint."
        )

    return TrainingObserver(record=show, takes_long=warn)


def _show_result(trained: "TrainedModel", folder: Path, *, as_json: bool) -> None:
    """Print how training ended."""
    result = trained.result
    if as_json:
        emit_json({"model": str(folder), "settings": trained.settings.as_dict(), **result})
    elif result["best_mrr"] is None:
        emit(f"{folder}: no validation was reached ({result['ending']} after {result['step']:,} steps)")
    else:
        emit(
            f"{folder}: validation MRR {result['best_mrr']:.4f} at step {result['best_step']:,} of {result['step']:,} "
            f"({result['ending']}), {result['seconds']:.0f} s"
        )
