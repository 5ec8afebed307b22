"""The command line: verbs over the library's functions, imported only when called."""

import os
import re
import sys
from collections.abc import Iterable
from importlib import import_module
from io import StringIO
from typing import Any, NoReturn

import click

from relens import __version__
from relens.errors import InputError, RelensError, describe_os_error, nearest

# verb -> (module, attribute, one-line help). A module is imported when its verb runs: `relens --help` stays fast.
VERBS: dict[str, tuple[str, str, str]] = {
    "run": ("relens.cli.run", "run", "From a graph to a report: train, rank, search, evaluate."),
    "report": ("relens.cli.run", "report", "Write the report of a run: one HTML file, and figures."),
    "predict": ("relens.cli.predict", "predict", "Answer questions about the graph with the ensemble of a run."),
    "score": ("relens.cli.score", "score", "Score given triples: score, ranks and probability."),
    "classify": ("relens.cli.classify", "classify", "Say of given triples whether they are true."),
    "discover": ("relens.cli.discover", "discover", "Find the best facts that the graph does not have yet."),
    "serve": ("relens.cli.serve", "serve", "Serve the ensemble of a run: a web page and a JSON interface."),
    "data": ("relens.cli.data", "data", "Prepare, check, list, show and fetch data sets."),
    "train": ("relens.cli.train", "train", "Train a base model on a data set."),
    "rank": ("relens.cli.train", "rank", "Rank a split's queries with the trained models of a run."),
    "ranks": ("relens.cli.ranks", "ranks", "Import, pack, show and export ranks."),
    "search": ("relens.cli.search", "search", "Search ensemble weights on validation ranks."),
    "calibrate": ("relens.cli.search", "calibrate", "Calibrate the confidence of predictions on validation."),
    "evaluate": ("relens.cli.evaluate", "evaluate", "Evaluate weights (or one model) on a split."),
    "compare": ("relens.cli.compare", "compare", "All methods side by side: fitted on validation, judged on test."),
    "weights": ("relens.cli.weights", "weights", "Show, export and import ensemble weights."),
    "simulate": ("relens.cli.compare", "simulate", "Ensemble simulated models; needs no data."),
    "upgrade": ("relens.cli.run", "upgrade", "Convert a run of an older relens, without training again."),
    "doctor": ("relens.cli.doctor", "doctor", "Show versions, devices, threads and caches."),
}


class LazyGroup(click.Group):
    """A group that lists its verbs without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of the table."""
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a verb and return its command."""
        del ctx
        if cmd_name not in VERBS:
            return None
        module, attribute, _ = VERBS[cmd_name]
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb; say here that it was interrupted, as click would fail where the terminal is closed."""
        from relens.cli.console import emit_error

        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            emit_error("")  # a terminal shows ^C on this line
            raise click.Abort from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest similar verbs for an unknown one."""
        if args and args[0] not in VERBS:
            ctx.fail(f"No such command {args[0]!r}; {nearest(args[0], VERBS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of the verbs from the table."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(verb, text) for verb, (_, _, text) in VERBS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--no-verify", is_flag=True, help="Do not verify the checksums of the files that are read.")
@click.version_option(__version__, prog_name="relens")
def cli(no_verify: bool) -> None:
    """Relation-aware ensembles of knowledge-graph-embedding models.

    Results go to stdout, progress and messages to stderr. Exit codes: 0 success, 1 failure, 2 wrong usage or
    input, 130 interrupted (by Ctrl-C, SIGTERM, or a closed terminal).
    """
    if no_verify:
        from relens.files import VERIFY

        os.environ[VERIFY] = "0"


def main() -> None:
    """Run the command line. Turn errors into messages with options instead of arguments, and into exit codes."""
    from relens.cli.console import emit_error, make_logs_visible
    from relens.training.interruption import Interruption

    make_logs_visible()
    try:
        with Interruption() as interruption, interruption.immediate():
            code = cli.main(prog_name="relens", standalone_mode=False)
        _exit(code if isinstance(code, int) else 0)
    except click.ClickException as error:
        text = StringIO()
        error.show(text)
        emit_error(text.getvalue().removesuffix("\n"))
        _exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt) as error:
        kept = str(error.__cause__ or error)  # click raises Abort from KeyboardInterrupt
        what = f"interrupted; {kept}. Nothing" if kept else "interrupted; nothing"
        # Python notes an interrupt that crossed the exec of a text, such as the definition of a data class, and ends by
        # SIGINT later, although the interrupt was caught. Another exec clears the note.
        exec("")
        _end(130, f"{what} half-written was left behind. Run the same command again to resume.")
    except InputError as error:
        _end(2, with_options(str(error), _invoked(sys.argv[1:])))
    except RelensError as error:
        _end(1, with_options(str(error), _invoked(sys.argv[1:])))
    except OSError as error:
        _end(1, describe_os_error(error))
    except MemoryError as error:
        _end(1, str(error) or type(error).__name__)


_ARGUMENT = re.compile(r"`([a-z]\w*)=([^`]+)`")
"""A Python argument in a message of the library, such as `force=True`."""


def with_options(message: str, command: click.Command) -> str:
    """Replace Python arguments in a message by the options of a command.

    `` `force=True` `` becomes ``--force``, and `` `report=False` `` becomes ``--no-report``. `` `n_relations=R` ``
    becomes ``--relations R`` if that option's parameter is called ``n_relations``. An argument without an option of
    this command stays as it is.
    """
    # Some commands have options that come from a table when they are asked for.
    params = command.get_params(click.Context(command))
    options = [param for param in params if isinstance(param, click.Option) and not param.hidden]
    by_name = {text.lstrip("-").replace("-", "_"): option for option in options for text in option.opts}
    by_name |= {option.name: option for option in options if option.name}

    def rewritten(match: re.Match[str]) -> str:
        name, value = match[1], match[2].strip("\"'")
        option = by_name.get(name)
        if option is None:
            return match[0]
        if not option.is_flag:
            return f"{_spelling(option.opts)} {value}"
        if value == "True":
            return _spelling(option.opts)
        return _spelling(option.secondary_opts) if value == "False" and option.secondary_opts else match[0]

    return _ARGUMENT.sub(rewritten, message)


def _spelling(options: Iterable[str]) -> str:
    """Return the long form of an option: ``--output`` rather than ``-o``."""
    return max(options, key=lambda text: text.startswith("--"))


def _invoked(words: Iterable[str]) -> click.Command:
    """Return the command that the words of a command line name."""
    command: click.Command = cli
    for word in words:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(click.Context(command), word) or command
    return command


def _end(code: int, message: str) -> NoReturn:
    """Print an error message and exit."""
    from relens.cli.console import complain

    complain(message)
    _exit(code)


def _exit(code: int) -> NoReturn:
    """Exit; at once, if the library of a lost cluster would hang or crash in the last steps of the process."""
    engines = sys.modules.get("relens.clusters.engines")
    if engines is not None and engines.hangs():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
