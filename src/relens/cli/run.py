"""Commands for whole runs: ``relens run``, ``relens report`` and ``relens upgrade``."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from relens import api
from relens.cli.compare import present
from relens.cli.console import TerminalProgress, emit, emit_json, note
from relens.cli.options import (
    PRESET_HELP,
    devices_option,
    jobs_option,
    json_option,
    option_decorator,
    run_argument,
    trust_option,
)
from relens.errors import counted
from relens.importers.importer import MODELS
from relens.pipeline.plan import DATASET, Plan, read_plan


@click.command()
@click.argument("source", metavar="[DATASET]", required=False)
@option_decorator(
    "models", replace(MODELS, help="Train these models, in this order.", unset="the members of the preset")
)
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
@click.option(
    "--budget", metavar="TIME",
    help="Choose members, sizes and steps that take this time here, for instance 90s, 15m or 1h30m. What --models, "
    "--preset, --set and --seeds fix stays fixed.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), help="Root seed.  [default: 0]")
@click.option(
    "--seeds", type=click.IntRange(min=1),
    help="Train each model with this many seeds, as members NAME, NAME-2, …  [default: 1]",
)  # fmt: skip
@jobs_option
@click.option(
    "--force", multiple=True, metavar="STAGE",
    help="Repeat a stage: train, rank, search, calibrate, report, or all. To resume after an interruption, leave this "
    "option out.",
)  # fmt: skip
@click.option("--report/--no-report", default=True, show_default=True, help="Write the report.")
@click.option("--offline", is_flag=True, help="Never download the data set.")
@trust_option
@json_option
def run(source: str | None, path: Path | None, force: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Train models on DATASET, rank, search weights, evaluate, and write a report.

    DATASET is a name or a folder of TSV files. Without it, an existing run goes on with the graph that it holds, and a
    new one is about the generated graph `patterns`. A run has the six models of the paper. With --preset strong it has
    up to ten stronger members. The same command resumes an interrupted one, and skips everything that is complete and
    unchanged.
    """
    plan = _plan(source, options)
    note(f"loading {plan.dataset or path or DATASET}")
    with TerminalProgress().beating() as progress:
        found = api.run(
            plan.dataset, models=plan.models, preset=plan.preset, changes=plan.all_changes, methods=plan.methods,
            seed=plan.seed, seeds=plan.seeds,  budget=plan.budget, run=path,
            device=options["devices"], jobs=options["jobs"], force=force,
            offline=options["offline"], report=options["report"], trust=options["trust"],
            progress=progress,
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
        **{key: options[key] for key in ("seed", "seeds", "budget")},
    }
    plan = replace(plan, **{key: value for key, value in given.items() if value is not None})
    return plan.with_changes(options["changes"])


@click.command()
@run_argument
@click.option(
    "-o", "--output", "folder", type=click.Path(path_type=Path), metavar="DIR",
    help="Folder to write to; an earlier report there is replaced.  [default: RUN/report]",
)  # fmt: skip
@click.option(
    "--curves", is_flag=True,
    help="Measure learning curves of the search (takes minutes); later reports show them too.",
)  # fmt: skip
@json_option
def report(run_path: Path, folder: Path | None, curves: bool, as_json: bool) -> None:
    """Write the report of RUN: index.html, which needs no other file and no network, and figures as PNG and SVG.

    The report compares all methods with intervals. It shows the weights and the MRR of the models per relation, the
    training curves, and statistics of the graph, and explains its words in a glossary. Parts that the run has no data
    for are left out. If the run was not compared yet, it is compared first, and the comparison is kept in the run.
    """
    page = api.report(run_path, output=folder, curves=curves, progress=TerminalProgress())
    figures = sorted(str(path) for path in (page.parent / "figures").iterdir())
    if as_json:
        emit_json({"run": str(run_path), "page": str(page), "figures": figures})
    else:
        emit(str(page))
        note(f"open it in a browser: {shlex.quote(page.resolve().as_uri())}")


@click.command()
@run_argument
@click.option("--data", metavar="DATASET", help="The data set of RUN, a name or a folder.  [default: where it was]")
@json_option
def upgrade(run_path: Path, data: str | None, as_json: bool) -> None:
    """Convert RUN, which an older relens made, to the format of this one, and add its graph.

    Models, ranks, weights and results stay as they are; only records around them change. `relens run` then finds every
    stage complete. If the data set has moved, name it with --data. The same command resumes an interrupted upgrade. A
    current run is left alone.
    """
    changed = api.upgrade(run_path, data=data, progress=TerminalProgress())
    if as_json:
        emit_json({"run": str(run_path), "changed": changed})
        return
    for line in changed:
        emit(line)
    note(f"upgraded {counted(len(changed), 'part')} of {run_path}" if changed else f"{run_path} is current already")
