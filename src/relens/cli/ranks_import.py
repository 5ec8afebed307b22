"""``relens ranks import``: a command whose layouts and options come from the table of importers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from relens.cli.console import TerminalProgress
from relens.cli.options import jobs_option, json_option, split_names
from relens.cli.ranks_report import report
from relens.errors import RelensError
from relens.importers.importer import IMPORTERS, Importer, Option
from relens.pipeline.ranking import import_ranks

F = TypeVar("F", bound=Callable[..., Any])

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def _bytes(ctx: click.Context, param: click.Parameter, value: str) -> int:
    """Read a size such as 512M."""
    number, unit = value.strip().upper(), ""
    if number and number[-1] in _UNITS:
        number, unit = number[:-1], number[-1]
    if not number.isdecimal() or not int(number):
        raise click.BadParameter(f"{value!r} is not a size: expected a number with K, M or G, such as 512M", ctx, param)
    return int(number) * _UNITS[unit]


run_option = click.option("--run", "run_path", required=True, type=click.Path(path_type=Path), help="The run to fill.")
memory_option = click.option(
    "--memory", callback=_bytes, default="1G", show_default=True, help="Memory for packing; arrays may be larger."
)
force_option = click.option("--force", is_flag=True, help="Replace ranks that are there already.")


def importer_option(option: Option) -> Callable[[F], F]:
    """Return the decorator that adds an option of the importers to a command."""
    declarations, attributes = _declare(option)
    return click.option(*declarations, **attributes)


def _declare(option: Option, only: Sequence[str] = ()) -> tuple[list[str], dict[str, Any]]:
    """Return the declarations and attributes of a click option; help names the layouts that ``only`` have it."""
    flag = f"--{(option.flag or option.name).replace('_', '-')}"
    text = f"{option.help}  ({', '.join(only)})" if only else option.help
    attributes: dict[str, Any] = {"default": option.default, "metavar": option.metavar, "help": text}
    if option.type is bool and option.default is not False:
        return [f"{flag}/--no-{flag.removeprefix('--')}", option.name], attributes
    if option.type is bool:
        return [flag, option.name], {**attributes, "is_flag": True}
    if option.type is Sequence:
        return [flag, option.name], {**attributes, "default": None, "callback": split_names}
    if option.choices:
        return [flag, option.name], {**attributes, "type": click.Choice(option.choices), "show_default": True}
    kind = click.IntRange(min=1) if option.type is int else click.STRING
    return [flag, option.name], {**attributes, "type": kind, "show_default": option.default is not None}


class ImportCommand(click.Command):
    """Reads the table of importers when the command is used, and not before."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters: the folder, the layout, the options of all layouts, and the command's own."""
        folder, *own = super().get_params(ctx)
        layout = click.Option(
            ["--layout"], type=click.Choice(list(IMPORTERS)), required=True, help="The layout of DIR."
        )
        return [folder, layout, *self._layout_options(), *own]

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help text, with a list of all layouts."""
        super().format_help_text(ctx, formatter)
        with formatter.section("Layouts"):
            formatter.write_dl([(importer.name, _summary(importer)) for importer in IMPORTERS.values()])

    def _layout_options(self) -> list[click.Option]:
        """Return the options of all layouts, each once."""
        found: dict[str, Option] = {}
        layouts: dict[str, list[str]] = {}
        for importer in IMPORTERS.values():
            for option in importer.all_options:
                if found.setdefault(option.name, option) != option:
                    raise RelensError(
                        f"the layouts {layouts[option.name][0]} and {importer.name} declare the option {option.name!r} "
                        f"in different ways: rename one"
                    )
                layouts.setdefault(option.name, []).append(importer.name)
        everywhere = [name for name, owners in layouts.items() if len(owners) == len(IMPORTERS)]
        options = []
        for name, option in found.items():
            declarations, attributes = _declare(option, () if name in everywhere else layouts[name])
            options.append(click.Option(declarations, **attributes))
        return options


def _summary(importer: Importer) -> str:
    """Return the files of a layout and the options it needs, for the help text."""
    needs = [flag for flag, needed in (("--data", importer.needs_data), ("--trust", importer.needs_trust)) if needed]
    return f"{importer.description}; needs {' and '.join(needs)}" if needs else importer.description


@click.command("import", cls=ImportCommand)
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@run_option
@memory_option
@jobs_option
@force_option
@json_option
def import_(
    folder: Path, layout: str, run_path: Path, memory: int, jobs: int, force: bool, as_json: bool, **options: Any
) -> None:
    """Import the rank or score files in DIR into a run."""
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    defaults = {option.name: option.default for importer in IMPORTERS.values() for option in importer.all_options}
    import_ranks(
        layout,
        folder,
        run=run_path,
        memory_budget=memory,
        jobs=jobs,
        force=force,
        progress=TerminalProgress(),
        **{name: value for name, value in values.items() if value != defaults[name]},
    )
    report(run_path, jobs, as_json=as_json)
