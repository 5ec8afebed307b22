"""Commands for base models: ``relens train`` and ``relens rank``."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from relens import api
from relens.cli.console import TerminalProgress, emit, emit_json, note
from relens.cli.options import (
    PRESET_HELP,
    candidates_option,
    device_option,
    json_option,
    models_option,
    note_stale,
    one_of,
    run_argument,
    seed_option,
    trust_option,
)
from relens.data.queries import EVALUATED
from relens.errors import counted
from relens.evaluation import model_ranks
from relens.metrics.mrr import mrr
from relens.packs.pack import PackedRanks


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
@click.argument("source", metavar="[DATASET]", required=False)
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
def train(
    source: str | None, model: str, run_path: Path | None, name: str | None, as_json: bool, **options: Any
) -> None:
    """Train a MODEL on DATASET (a name, or a folder of TSV files) and keep it in a run.

    Without DATASET, an existing run goes on with the graph that it holds, and a new one is about the generated graph
    `patterns`.

    The parameters with the best validation MRR are kept. The same command resumes an interrupted training; a complete
    model is left alone.
    """
    with TerminalProgress().beating() as progress:
        trained = api.train(
            source, model=model, preset=options["preset"], changes=options["overrides"], run=run_path, name=name,
            device=options["device"], seed=options["seed"], offline=options["offline"], force=options["force"],
            progress=progress,
        )  # fmt: skip
    folder, result = trained.folder.parent, trained.result
    _note_time(folder)
    if as_json:
        emit_json({"model": str(folder), "settings": trained.settings.as_dict(), **result})
    elif result["best_mrr"] is None:
        emit(f"{folder}: no validation was reached ({result['ending']} after {result['step']:,} steps)")
    else:
        emit(
            f"{folder}: validation MRR {result['best_mrr']:.4f} at step {result['best_step']:,} of {result['step']:,} "
            f"({result['ending']})"
        )


def _note_time(folder: Path) -> None:
    """Note how long the training of a model took: as a message, because results are the same for the same seed."""
    from relens.training.log import readable_duration, training_seconds

    seconds = training_seconds(folder)
    if seconds is not None:
        note(f"training took {readable_duration(seconds)}")


@click.command()
@run_argument
@models_option
@device_option
@candidates_option
@click.option(
    "--into", type=click.Path(path_type=Path), help="Keep the ranks in this run, created if necessary, instead of RUN."
)
@click.option("--gaps/--no-gaps", default=True, show_default=True, help="Keep score gaps beside the ranks.")
@click.option("--force", is_flag=True, help="Replace ranks that are there already.")
@trust_option
@json_option
def rank(
    run_path: Path,
    models: list[str],
    device: str,
    candidates: str | None,
    into: Path | None,
    gaps: bool,
    force: bool,
    trust: bool,
    as_json: bool,
) -> None:
    """Rank the validation and test queries with all members of RUN, and keep packed ranks.

    All models score each query together, so no matrix of ranks is written. Known answers of train, valid and test are
    left out. Where the data set has candidates of its own (as OGB's), answers compete only with those. With
    --candidates, an answer also competes if it is not one of the candidates.
    """
    run = api.rank(
        run_path, models=models or None, device=device, candidates=candidates, into=into, gaps=gaps, force=force,
        trust=trust, progress=TerminalProgress(),
    )  # fmt: skip
    note_stale(run)
    test = run.ranks("test")
    names = test.models
    _note_of_alone(test)
    found = {split: {name: mrr(model_ranks(run.ranks(split), name).realistic) for name in names} for split in EVALUATED}
    if as_json:
        emit_json({"run": str(run.path), "candidates": test.provenance.candidates, "mrr": found})
        return
    provenance, among = test.provenance, ""
    if provenance.outside is not None:
        among = f" (candidates: {provenance.among(test.n_queries)})"
    elif provenance.candidates != "all":
        among = f" (sampled: among {int(test.n_candidates.max()):,} candidates, not all entities)"
    for name in names:
        emit(f"{name}: validation MRR {found['valid'][name]:.4f}, test MRR {found['test'][name]:.4f}{among}")


def _note_of_alone(packed: PackedRanks) -> None:
    """Note how many answers had no competitor, if restricted candidates left some alone."""
    alone = int((packed.n_candidates == 1).sum())
    if packed.provenance.outside is not None and alone:
        note(
            f"warning: {counted(alone, 'answer')} of {packed.n_queries:,} in {packed.provenance.split} had no "
            f"competitor among the candidates, and got rank 1"
        )
