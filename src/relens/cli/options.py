"""Options that several verbs share."""

import json
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click
from joblib import cpu_count

from relens.cli.console import emit, note
from relens.ensemble.inputs import INPUTS
from relens.ensemble.search import METHODS, SEARCHERS
from relens.ensemble.weights import EnsembleWeights
from relens.files import write_text
from relens.packs.pack import PackedRanks
from relens.runs import Run
from relens.tables import Table
from relens.training.preset_files import PRESETS

FEW_QUERIES = 100
"""Validation queries below which fitted weights come with a warning."""
UNFITTED = ("mean", "mrr-mean", "best-single")

F = TypeVar("F", bound=Callable[..., Any])

run_argument = click.argument("run_path", metavar="RUN", type=click.Path(path_type=Path))
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
jobs_option = click.option(
    "--jobs", type=click.IntRange(min=1), default=cpu_count, show_default="all cores",
    help="Workers; results do not depend on it.",
)  # fmt: skip
seed_option = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Root seed.")
format_option = click.option(
    "--format", "form", type=click.Choice(["text", "csv", "markdown", "latex"]), default="text",
    show_default=True, help="How to print the table.",
)  # fmt: skip
output_option = click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write to this file instead of stdout."
)


def hold(run_path: Path) -> Run:
    """Open a run and hold it until the command ends. Commands that write into a run begin so; others just open it."""
    return click.get_current_context().with_resource(Run.open(run_path).held())


def one_of(names: Iterable[str]) -> str:
    """Return names as a help text lists them: a, b or c."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


PRESET_HELP = f"Settings to start from: {one_of(PRESETS)}."


def split_names(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str]:
    """Read a comma-separated list of names; it is empty where the option is not given."""
    names = [name.strip() for name in (value or "").split(",") if name.strip()]
    if value is not None and not names:
        raise click.BadParameter("it names no model; leave the option out to use all", ctx, param)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise click.BadParameter(f"model {twice[0]!r} is named twice", ctx, param)
    return names


def models_option(command: F) -> F:
    """Add ``--models``, a comma-separated list that arrives as a list of names (empty for all)."""
    return click.option(
        "--models", callback=split_names, metavar="A,B,…", help="Use these models only, in this order.  [default: all]"
    )(command)


_FIT_OPTIONS = [
    click.option(
        "--searcher", type=click.Choice(SEARCHERS), default="sweep", show_default=True,
        help="sweep: exact along lines of weights. tpe, random: sampling, as in the paper.",
    ),
    click.option(
        "--input", type=click.Choice(["auto", *INPUTS]), default="auto", show_default=True,
        help="What the weights are applied to: ranks as in the paper, a transform of them, or score gaps.",
    ),
    click.option(
        "--regularise", metavar="auto|none|KAPPA", default="auto", show_default=True,
        help="Shrinkage of a group's weights towards the global ones; auto chooses by cross-validation.",
    ),
    click.option(
        "--group", metavar="relation-direction|relation|FILE", default="relation-direction", show_default=True,
        help="Which queries share weights; FILE has lines 'relation TAB group'.",
    ),
    click.option(
        "--fallback", type=click.Choice(["global", "uniform"]), default="global", show_default=True,
        help="Weights of groups without validation data.",
    ),
    click.option(
        "--trials", type=click.IntRange(min=1), default=100, show_default=True,
        help="Samples of each tpe or random search.",
    ),
    click.option(
        "--max-models", type=click.IntRange(min=1),
        help="Models that may have a weight in a group: few make predictions cheap.  [default: all]",
    ),
    seed_option,
]  # fmt: skip


def fit_options(command: F) -> F:
    """Add the options of a fit, all fields of ``SearchSettings`` but the method."""
    for option in reversed(_FIT_OPTIONS):
        command = option(command)
    return command


def method_option(command: F) -> F:
    """Add ``--method``."""
    return click.option(
        "--method", type=click.Choice(METHODS), default="dsc", show_default=True,
        help="dsc: weights per group; simple: one vector for all; basic: all groups jointly; the others are baselines.",
    )(command)  # fmt: skip


def warn_of_few(valid: PackedRanks, all_weights: Iterable[EnsembleWeights]) -> None:
    """Note that weights were fitted on few validation queries, where any were."""
    fitted = any(weights.settings.get("method") not in UNFITTED for weights in all_weights)
    if fitted and valid.n_queries < FEW_QUERIES:
        note(
            f"warning: {valid.n_queries} validation queries are few to fit weights on, and the best single model may "
            f"do better: hold out more triples as valid"
        )


def show(tables: list[Table], form: str, output: Path | None, value: Any) -> None:
    """Print tables (or, for the form ``json``, ``value``) on stdout or into a file."""
    if form == "json":
        text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    elif form == "text":
        terminal = output is None and sys.stdout.isatty()
        width = shutil.get_terminal_size((120, 24)).columns
        text = "\n\n".join(table.to_text(width, terminal=terminal) for table in tables)
    else:
        text = "\n\n".join(getattr(table, f"to_{form}")().rstrip("\n") for table in tables)
    if output is None:
        emit(text)
    else:
        write_text(output, text + "\n")
        note(f"wrote {output}")
