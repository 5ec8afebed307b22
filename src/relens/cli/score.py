"""``relens score``: score, ranks and probability of given triples; the options that ``classify`` shares."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from relens.cli.console import TerminalProgress, note
from relens.cli.options import (
    device_option,
    json_option,
    output_option,
    run_argument,
    show,
    stream_form,
    stream_option,
    trust_option,
    weights_option,
)
from relens.cli.predict import facts_option, open_ensemble
from relens.prediction import Facts
from relens.runs import Run
from relens.tables import Column, Row, Table
from relens.tables.streams import Field, named_form, write_records

FIELDS = (
    Field("head"), Field("relation"), Field("tail"), Field("score", float, ".6g"), Field("tail_rank", float, "g"),
    Field("head_rank", float, "g"), Field("probability", float, ".4f"), Field("known"),
)  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])
_TRIPLE_OPTIONS = (
    click.option("--head", help="The head of one triple: its label or readable name."),
    click.option("--relation", help="The relation of the triple."),
    click.option("--tail", help="The tail of the triple."),
    click.option(
        "--triples", "file", type=click.Path(path_type=Path), metavar="FILE",
        help="A file of triples instead: lines 'head TAB relation TAB tail'; .gz too. Each gives one line, in order.",
    ),
    weights_option,
    device_option,
    trust_option,
    stream_option,
    json_option,
    output_option,
)  # fmt: skip


def triple_options(command: F) -> F:
    """Add the options of commands about given triples."""
    for option in reversed(_TRIPLE_OPTIONS):
        command = option(command)
    return command


def given_triples(options: Mapping[str, Any]) -> Facts:
    """Return the triples that the options name; raise an error unless exactly one form is given."""
    one = [options[part] for part in ("head", "relation", "tail")]
    if (options["file"] is None) == (one == [None, None, None]) or (options["file"] is None and None in one):
        raise click.UsageError("give --head, --relation and --tail of one triple, or a file of --triples")
    return [one] if options["file"] is None else Path(options["file"])


def show_triples(
    found: Sequence[Any], fields: Sequence[Field], table: Callable[[], Table], options: Mapping[str, Any]
) -> None:
    """Print records of one triple as a table, of several as a stream; ``--format`` makes a stream of one, too."""
    output, form, as_json = options["output"], options["form"], options["as_json"]
    if options["file"] is None and form is None and (as_json or named_form(output) is None):
        show([table()], "json" if as_json else "text", output, found[0].to_json())
        return
    write_records((one.to_json() for one in found), fields, output, stream_form(output, form, as_json=as_json))
    if output is not None:
        note(f"wrote {output}")


@click.command()
@run_argument
@facts_option
@triple_options
def score(run_path: Path, facts: Path | None, **options: Any) -> None:
    """Score triples with the ensemble of RUN: the score, the rank of the tail and of the head, and a probability.

    The ranks are those of the evaluation: other known answers are removed. Known triples have ranks, too, but no
    probability. The score is comparable within one relation. A file of triples gives one line each; --format or the
    ending of --output chooses among TSV, CSV, JSON lines and Parquet.
    """
    triples = given_triples(options)
    if options["file"] is not None:
        stream_form(options["output"], options["form"], as_json=options["as_json"])  # a wrong format ends here
    run = Run.open(run_path)
    ensemble = open_ensemble(run, options["name"], options["device"], facts, trust=options["trust"])
    found = ensemble.score(triples, progress=TerminalProgress())
    show_triples(found, FIELDS, lambda: _table(found, ensemble.dataset.name), options)


def _table(found: Iterable[Any], dataset: str) -> Table:
    columns = (
        Column("head", align="left"), Column("relation", align="left"), Column("tail", align="left"),
        Column("score", ".4g"), Column("rank of tail", ",g"), Column("rank of head", ",g"),
        Column("probability", ".0%"), Column("known", align="left"),
    )  # fmt: skip
    rows = tuple(Row(tuple(one.to_json()[field.name] for field in FIELDS)) for one in found)
    return Table("Scored triples", columns, rows, {"data set": dataset}, ("ranks: other known answers removed",))
