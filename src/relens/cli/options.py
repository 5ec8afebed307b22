"""Options that several commands share."""

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click
from joblib import cpu_count

from relens.cli.console import emit_exactly, note
from relens.ensemble.methods import METHODS
from relens.ensemble.settings import SearchSettings, declared_options, setting_options
from relens.ensemble.weights import EnsembleWeights
from relens.files import write_text
from relens.importers.importer import MODELS
from relens.options import Option
from relens.packs.pack import PackedRanks
from relens.presets import PRESETS
from relens.runs import Run
from relens.staleness import stale_results
from relens.tables import Table
from relens.tables.streams import FORMS, form_of
from relens.visible import visible_json

device_option = click.option(
    "--device", default="auto", show_default=True, metavar="auto|cpu|cuda|cuda:N", help="Where models run."
)
devices_option = click.option(
    "--device", "--devices", "devices", default="auto", show_default=True, metavar="auto|cpu|cuda|cuda:N,…",
    help="Where models run. Each of several devices trains one model at a time: --devices cuda:0,cuda:1. The first "
    "one ranks.",
)  # fmt: skip


FEW_QUERIES = 100
"""Fewer validation queries cause a warning about fitted weights."""

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
weights_option = click.option(
    "--weights", "name",
    help=f"Weights of the run.  [default: {SearchSettings().default_name()}, or the only ones there are]",
)  # fmt: skip
trust_option = click.option(
    "--trust", is_flag=True,
    help="Load members of others (pickles of PyKEEN, Python objects), which runs their code: you know who made them.",
)  # fmt: skip
stream_option = click.option(
    "--format", "form", type=click.Choice(FORMS),
    help="Format of a stream of records.  [default: the ending of --output, or tsv]",
)  # fmt: skip
output_option = click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write to this file instead of stdout."
)


_COMPETE = (
    "Entities that compete, instead of all: those that train has on that side of the relation (observed), those that "
    "share a type with one of them (types, by types.tsv of the data set), or those in FILE, one per line"
)
candidates_option = click.option(
    "--candidates", metavar="observed|types|FILE|DIRECTORY",
    help=f"{_COMPETE}; or the sampled negatives in DIRECTORY. ./observed is a file.",
)  # fmt: skip
restriction_option = click.option(
    "--candidates", metavar="observed|types|FILE", help=f"{_COMPETE}. ./observed is a file.",
)  # fmt: skip


def hold(run_path: Path) -> Run:
    """Open a run and lock it until the command ends. Only commands that write into a run do so."""
    return click.get_current_context().with_resource(Run.open(run_path).held())


def one_of(names: Iterable[str]) -> str:
    """Return names as a help text lists them: ``a, b or c``."""
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


def search_options(command: F) -> F:
    """Add an option for every field of ``SearchSettings`` but the method."""
    return _with_options(command, {key: option for key, option in setting_options().items() if key != "method"})


def method_options(command: F) -> F:
    """Add ``--method``, and the options that methods and searchers of other packages declare."""
    command = _with_options(command, declared_options(), required=False)
    return _with_options(command, {"method": setting_options()["method"]})


def settings_from(options: dict[str, Any]) -> SearchSettings:
    """Return the settings that ``search_options`` and ``method_options`` asked for."""
    fields = {key: value for key, value in options.items() if key in setting_options()}
    own = {key: value for key, value in options.items() if key not in fields and value is not None}
    return SearchSettings(**fields, options=own)


def _with_options(command: F, options: Mapping[str, Option], *, required: bool = True) -> F:
    """Add command-line options to a command; those that are not ``required`` to have a value are None unless given."""
    for name, option in reversed(list(options.items())):
        declarations, attributes = declaration(name, option, option.default if required else None)
        command = click.option(*declarations, **attributes)(command)
    return command


def declaration(name: str, option: Option, default: Any, users: Sequence[str] = ()) -> tuple[list[str], dict[str, Any]]:
    """Return the declarations and attributes of a click option; help texts end with its ``users``, if there are any."""
    flag = (option.flag or name).replace("_", "-")
    text, shown = option.full_help, option.unset or option.default
    if default in (None, ()) and shown not in (None, ()):
        text += f"  [default: {shown}]"
    if users:
        text += f"  ({', '.join(users)})"
    attributes: dict[str, Any] = {"default": default, "metavar": option.metavar, "help": text}
    if option.kind is bool:
        off = f"/--no-{flag}" if default is None else ""
        return [f"--{flag}{off}", name], {**attributes, "is_flag": True}
    if option.kind is Sequence:
        return [f"--{flag}", name], {**attributes, "default": None, "callback": split_names}
    return [f"--{flag}", name], {**attributes, "type": _click_type(option), "show_default": default is not None}


def _click_type(option: Option) -> Any:
    if option.choices:
        return click.Choice(option.choices)
    if option.minimum is not None:
        whole = option.kind is int
        return click.IntRange(min=int(option.minimum)) if whole else click.FloatRange(min=option.minimum)
    return option.kind if option.kind in (int, float) else str


def option_decorator(name: str, option: Option) -> Callable[[F], F]:
    """Return the decorator that adds one option to a command."""
    return partial(_with_options, options={name: option})


models_option = option_decorator("models", MODELS)


def note_stale(run: Run) -> None:
    """Note what the run keeps that no longer belongs to its ranks or weights."""
    for line in stale_results(run):
        note(f"warning: {line}")


def warn_of_few(valid: PackedRanks, all_weights: Iterable[EnsembleWeights]) -> None:
    """Warn if any of the weights were fitted on few validation queries."""
    methods = [METHODS.get(weights.settings.get("method", "")) for weights in all_weights]
    if any(method is None or method.fitted for method in methods) and valid.n_queries < FEW_QUERIES:
        note(
            f"warning: {valid.n_queries} validation queries are few to fit weights on, and the best single model may "
            f"do better: hold out more triples as valid"
        )


def stream_form(output: Path | None, form: str | None, *, as_json: bool) -> str:
    """Return the format of a stream of records; ``--json`` is another name of ``--format jsonl``."""
    if as_json and form not in (None, "jsonl"):
        raise click.UsageError(f"--json and --format {form} exclude each other: choose the format of the records")
    return form_of(output, "jsonl" if as_json else form)


def show(tables: list[Table], form: str, output: Path | None, value: Any) -> None:
    """Print tables (or, for the form ``json``, ``value``) on stdout or into a file."""
    if form == "json":
        text = visible_json(value, indent=1)
    elif form == "text":
        terminal = output is None and sys.stdout.isatty()
        width = shutil.get_terminal_size((120, 24)).columns
        text = "\n\n".join(table.to_text(width, terminal=terminal) for table in tables)
    else:
        text = "\n\n".join(getattr(table, f"to_{form}")().rstrip("\n") for table in tables)
    if output is None:
        emit_exactly(text)
    else:
        write_text(output, text + "\n")
        note(f"wrote {output}")
