"""``relens run``: from a graph to a report with one command."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from relens.cli.compare import present
from relens.cli.console import TerminalProgress, note
from relens.cli.device import devices_option, pick_devices
from relens.cli.options import PRESET_HELP, jobs_option, json_option, models_option
from relens.pipeline.plan import Plan, read_plan

if TYPE_CHECKING:
    import torch

    from relens.training.log import LogRecord


@click.command()
@click.argument("source", metavar="[DATASET]", required=False)
@models_option
@click.option("--preset", help=f"{PRESET_HELP}  [default: demo on a CPU, best on a GPU]")
@click.option(
    "--set", "changes", multiple=True, metavar="[MODEL.]KEY=VALUE",
    help="Change a setting of one model, or of all that have it: --set rotate.dim=500.",
)  # fmt: skip
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="A TOML file with data set, models, preset, seed, methods and settings.",
)
@click.option("--run", "path", type=click.Path(path_type=Path), help="Where the run is kept.  [default: runs/DATASET]")
@devices_option
@click.option("--seed", type=click.IntRange(min=0), help="Root seed.  [default: 0]")
@jobs_option
@click.option(
    "--force", multiple=True, metavar="STAGE",
    help="Do a stage again: train, rank, search, report, or all. Interrupted, it goes on without this option.",
)  # fmt: skip
@click.option("--report/--no-report", default=True, show_default=True, help="Write the report.")
@click.option("--offline", is_flag=True, help="Never download the data set.")
@json_option
def run(source: str | None, path: Path | None, force: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Train models on DATASET, rank, search weights, evaluate, and write a report.

    DATASET is a name or a folder of TSV files; without one, the generated graph `patterns`. The same command goes on
    where it stopped, and leaves alone what is complete and unchanged.
    """
    plan = _plan(source, options)
    note(f"loading {plan.dataset} and what trains {len(plan.models)} models")
    devices = pick_devices(options["devices"])  # before anything that needs torch: it says how to install it
    from relens.pipeline.run import run_plan
    from relens.pipeline.stages import STAGES

    found, comparison = run_plan(
        plan, path, devices=devices, jobs=options["jobs"], force=STAGES if "all" in force else force,
        offline=options["offline"], report=options["report"], progress=TerminalProgress(), listener=show_training,
    )  # fmt: skip
    present(comparison, found.ranks("valid"), "json" if as_json else "text")
    where = shlex.quote(str(found.path))
    if options["report"]:
        note(f"report: {found.path / 'report' / 'index.html'}")
    note(f"next: relens predict {where} --head NAME --relation NAME; relens serve {where}")


def _plan(source: str | None, options: dict[str, Any]) -> Plan:
    """Return the plan of a configuration file, changed by the options that were given."""
    plan = read_plan(options["config"]) if options["config"] else Plan()
    given = {
        "dataset": source,
        "models": tuple(options["models"]) or None,
        "preset": options["preset"],
        "seed": options["seed"],
    }
    plan = replace(plan, **{key: value for key, value in given.items() if value is not None})
    return plan.with_changes(options["changes"])


def show_training(name: str, device: "torch.device", record: "LogRecord") -> None:
    """Print a line for each validation."""
    if record.mrr is not None and record.loss is not None:
        note(
            f"{name}: step {record.step:,}, loss {record.loss:.4f}, validation MRR {record.mrr:.4f}, "
            f"{record.examples_per_second:,.0f} examples/s on {device}, {record.seconds:.0f} s"
        )
