"""``relens discover``: the best facts that a graph does not have yet."""

from pathlib import Path
from typing import Any

import click

from relens.cli.console import TerminalProgress, note
from relens.cli.opening import loading_options, open_ensemble
from relens.cli.options import json_option, output_option, stream_form, stream_option
from relens.errors import InputError
from relens.prediction.discovery import DEPTH, LIKELY, TOP, discard_parts
from relens.tables.streams import Field, write_records

FIELDS = (
    Field("head"),
    Field("relation"),
    Field("tail"),
    Field("head_name"),
    Field("relation_name"),
    Field("tail_name"),
    Field("confidence", float, ".4f"),
    Field("tail_rank", float, "g"),
    Field("head_rank", float, "g"),
    Field("margin", float, ".4g"),
)


@click.command()
@loading_options
@click.option("--relation", "relations", multiple=True, help="Only facts of this relation; repeatable.")
@click.option("--entity", "entities", multiple=True, help="Only facts with this head or tail; repeatable.")
@click.option(
    "--top", type=click.IntRange(min=1), metavar="K",
    help=f"How many facts.  [default: {TOP}, or with --confidence all]",
)  # fmt: skip
@click.option("--confidence", type=float, metavar="P", help="Only facts with at least this confidence.")
@click.option("--each", is_flag=True, help="The best --top of each relation, one relation after the other.")
@click.option(
    "--candidates", default=LIKELY, show_default=True, metavar="likely|observed|types|all|FILE",
    help="Which entities may be heads or tails of a relation: likely (they share other relations with those of train), "
    "observed (train has them there), types (by types.tsv), all, or those that the lines of a file name.",
)  # fmt: skip
@click.option(
    "--depth", type=click.IntRange(min=1), default=DEPTH, show_default=True,
    help="How many of the best answers of each question are considered.",
)  # fmt: skip
@stream_option
@json_option
@output_option
@click.option("--force", is_flag=True, help="Discard the parts of an interrupted discovery beside --output.")
def discover(output: Path | None, form: str | None, as_json: bool, force: bool, **options: Any) -> None:
    """Find the best facts that the graph of RUN does not have: in no split, and ranked high in both directions.

    Facts with the highest confidence come first, then those whose scores stand out most. They are written as a stream
    of records. With --output, finished relations are kept beside the file until it is complete: after an interruption
    the same command resumes.
    """
    form = stream_form(output, form, as_json=as_json)
    ensemble = open_ensemble({key: options.pop(key) for key in ("run_path", "name", "device", "trust")})
    parts = _parts_beside(output)
    if parts is not None and force:
        discard_parts(parts)
    facts = ensemble.discover(**options, parts=parts, progress=TerminalProgress())
    write_records((fact.to_json() for fact in facts), FIELDS, output, form)
    if parts is not None:
        discard_parts(parts)
    if output is not None:
        note(f"wrote {output}")


def _parts_beside(output: Path | None) -> Path | None:
    """Return the folder of the parts of a discovery into a file; None for stdout and for devices."""
    if output is None or (output.exists() and not output.is_file() and not output.is_dir()):
        return None
    if output.is_dir():
        raise InputError(f"{output} is a folder: expected the name of a file, `output=FILE`")
    return output.with_name(f"{output.name}.parts")
