"""The command line: thin verbs over the library, imported only when called."""

import sys
from importlib import import_module
from typing import NoReturn

import click

from relens import __version__
from relens.errors import InputError, RelensError, nearest

# verb -> (module, attribute, one-line help); the modules are imported only when the verb runs, so that
# `relens --help` stays instant.
VERBS: dict[str, tuple[str, str, str]] = {
    "run": ("relens.cli.run", "run", "From a graph to a report: train, rank, search, evaluate."),
    "report": ("relens.cli.report", "report", "Write the report of a run: one HTML file, and figures."),
    "predict": ("relens.cli.predict", "predict", "Answer questions about the graph with the ensemble of a run."),
    "serve": ("relens.cli.serve", "serve", "Serve the ensemble of a run: a web page and a JSON interface."),
    "data": ("relens.cli.data", "data", "List, show, fetch and import data sets."),
    "train": ("relens.cli.train", "train", "Train a base model on a data set."),
    "rank": ("relens.cli.rank", "rank", "Rank a split's queries with the trained models of a run."),
    "ranks": ("relens.cli.ranks", "ranks", "Import, pack, show and export ranks."),
    "search": ("relens.cli.search", "search", "Search ensemble weights on validation ranks."),
    "evaluate": ("relens.cli.evaluate", "evaluate", "Evaluate weights (or one model) on a split."),
    "compare": ("relens.cli.compare", "compare", "All methods side by side: fitted on validation, judged on test."),
    "weights": ("relens.cli.weights", "weights", "Show, export and import ensemble weights."),
    "simulate": ("relens.cli.simulate", "simulate", "Ensemble simulated models; needs no data."),
    "doctor": ("relens.cli.doctor", "doctor", "Show versions, devices, threads and caches."),
}


class LazyGroup(click.Group):
    """A group that lists its verbs without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order a newcomer needs them."""
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one verb."""
        del ctx
        if cmd_name not in VERBS:
            return None
        module, attribute, _ = VERBS[cmd_name]
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest a verb where none has the name given."""
        if args and args[0] not in VERBS:
            ctx.fail(f"No such command {args[0]!r}; {nearest(args[0], VERBS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of the verbs from the table."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(verb, text) for verb, (_, _, text) in VERBS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="relens")
def cli() -> None:
    """Relation-aware ensembles of knowledge-graph-embedding models.

    Results go to stdout, progress and messages to stderr. Exit codes: 0 success, 1 failure, 2 wrong usage or
    input, 130 interrupted.
    """


def main() -> None:
    """Run the command line and turn errors into messages and exit codes."""
    try:
        code = cli.main(prog_name="relens", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt) as error:
        kept = str(error.__cause__ or error)  # click turns the one into the other
        what = f"interrupted; {kept}. Nothing" if kept else "interrupted; nothing"
        _end(130, f"{what} half-written was left behind. Run the same command again to go on.")
    except InputError as error:
        _end(2, str(error))
    except (RelensError, MemoryError, OSError) as error:
        _end(1, str(error) or type(error).__name__)


def _end(code: int, message: str) -> NoReturn:
    """Say what went wrong, and end."""
    from relens.cli.console import complain

    complain(message)
    sys.exit(code)
