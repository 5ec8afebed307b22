"""``relens run``: from a graph to a report with one command."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from relens import api
from relens.cli.compare import present
from relens.cli.console import TerminalProgress, note
from relens.cli.device import devices_option
from relens.cli.options import PRESET_HELP, jobs_option, json_option, models_option
from relens.errors import counted
from relens.pipeline.plan import Plan, read_plan

if TYPE_CHECKING:
    from relens.pipeline.run import TrainingUpdate


@click.command()
@click.argument("source", metavar="[DATASET]", required=False)
@models_option
@click.option("--preset", help=f"{PRESET_HELP}  [default: demo on a CPU, best on a GPU]")
@click.option(
    "--set", "changes", multiple=True, metavar="[MODEL.]KEY=VALUE",
    help="Change a setting of one model, or of all models that have it: --set rotate.dim=500.",
)  # fmt: skip
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="A TOML file with data set, models, preset, seed, methods and settings.",
)
@click.option("--run", "path", type=click.Path(path_type=Path), help="The folder of the run.  [default: runs/DATASET]")
@devices_option
@click.option("--seed", type=click.IntRange(min=0), help="Root seed.  [default: 0]")
@jobs_option
@click.option(
    "--force", multiple=True, metavar="STAGE",
    help="Repeat a stage: train, rank, search, report, or all. To resume after an interruption, leave this option out.",
)  # fmt: skip
@click.option("--report/--no-report", default=True, show_default=True, help="Write the report.")
@click.option("--offline", is_flag=True, help="Never download the data set.")
@json_option
def run(source: str | None, path: Path | None, force: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Train models on DATASET, rank, search weights, evaluate, and write a report.

    DATASET is a name or a folder of TSV files; the default is the generated graph `patterns`. The same command resumes
    an interrupted one, and skips everything that is complete and unchanged.
    """
    plan = _plan(source, options)
    note(f"loading {plan.dataset} and what trains {counted(len(plan.models), 'model')}")
    found = api.run(
        plan.dataset, models=plan.models, preset=plan.preset, changes=plan.all_changes, methods=plan.methods,
        seed=plan.seed, run=path, device=options["devices"], jobs=options["jobs"], force=force,
        offline=options["offline"], report=options["report"], progress=TerminalProgress(), listener=show_training,
    )  # fmt: skip
    present(found.comparison(), found.ranks("valid"), "json" if as_json else "text")
    where = shlex.quote(str(found.path))
    if options["report"]:
        note(f"report: {found.report_path / 'index.html'}")
    note(f"next: relens predict {where} --head NAME --relation NAME; relens serve {where}")


def _plan(source: str | None, options: dict[str, Any]) -> Plan:
    """Return the plan of a configuration file, changed by the given options."""
    plan = read_plan(options["config"]) if options["config"] else Plan()
    given = {
        "dataset": source,
        "models": tuple(options["models"]) or None,
        "preset": options["preset"],
        "seed": options["seed"],
    }
    plan = replace(plan, **{key: value for key, value in given.items() if value is not None})
    return plan.with_changes(options["changes"])


def show_training(update: "TrainingUpdate") -> None:
    """Print a line for each validation."""
    record = update.record
    if record.mrr is not None and record.loss is not None:
        left = "" if record.step >= update.steps else f", at most about {update.seconds_left:,.0f} s left"
        note(
            f"{update.model} (model {update.number} of {update.n_models}): step {record.step:,} of {update.steps:,}, "
            f"loss {record.loss:.4f}, validation MRR {record.mrr:.4f}, "
            f"{record.examples_per_second:,.0f} examples/s on {update.device}, {record.seconds:.0f} s{left}"
        )
