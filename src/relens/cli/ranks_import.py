"""``relens ranks import``: a command whose layouts and options come from the table of importers."""

from pathlib import Path
from typing import Any

import click

from relens.cli.console import TerminalProgress
from relens.cli.options import declaration, jobs_option, json_option
from relens.cli.ranks_report import report
from relens.errors import RelensError
from relens.importers.importer import IMPORTERS, Importer
from relens.options import Option
from relens.pipeline.ranking import import_ranks

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
            for name, option in importer.all_options.items():
                if found.setdefault(name, option) != option:
                    raise RelensError(
                        f"the layouts {layouts[name][0]} and {importer.name} declare the option {name!r} in different "
                        f"ways: rename one"
                    )
                layouts.setdefault(name, []).append(importer.name)
        options = []
        for name, option in found.items():
            users = layouts[name] if len(layouts[name]) < len(IMPORTERS) else ()
            declarations, attributes = declaration(name, option, option.default, users)
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
    declared = {name: option for importer in IMPORTERS.values() for name, option in importer.all_options.items()}
    import_ranks(
        layout,
        folder,
        run=run_path,
        memory_budget=memory,
        jobs=jobs,
        force=force,
        progress=TerminalProgress(),
        **{name: value for name, value in values.items() if value != declared[name].default},
    )
    report(run_path, jobs, as_json=as_json)
