"""``relens score``: score, ranks and probability of given triples; the options that ``classify`` shares."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from relens.cli.answer_tables import restriction_field
from relens.cli.console import TerminalProgress, note
from relens.cli.opening import open_ensemble, opening_options
from relens.cli.options import json_option, output_option, show, stream_form, stream_option
from relens.prediction import Ensemble, Facts
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
    stream_option,
    json_option,
    output_option,
)  # fmt: skip


def triple_options(command: F) -> F:
    """Add the argument RUN and the options of commands about given triples."""
    for option in reversed(_TRIPLE_OPTIONS):
        command = option(command)
    return opening_options(command)


def given_triples(options: Mapping[str, Any]) -> Facts:
    """Return the triples that the options name; raise an error unless exactly one form is given."""
    one = [options[part] for part in ("head", "relation", "tail")]
    if (options["file"] is None) == (one == [None, None, None]) or (options["file"] is None and None in one):
        raise click.UsageError("give --head, --relation and --tail of one triple, or a file of --triples")
    return [one] if options["file"] is None else Path(options["file"])


def open_for_triples(options: Mapping[str, Any]) -> tuple[Ensemble, Facts]:
    """Open the ensemble, and return it with the triples that the options name; wrong options raise an error first."""
    triples = given_triples(options)
    if options["file"] is not None:
        stream_form(options["output"], options["form"], as_json=options["as_json"])  # a wrong format ends here
    return open_ensemble(options), triples


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


def table_facts(ensemble: Ensemble) -> dict[str, str]:
    """Return what a table about given triples says of its origin."""
    among = {} if ensemble.restriction is None else {"candidates": ensemble.restriction.name}
    return {"data set": ensemble.dataset.name, **among}


@click.command()
@triple_options
def score(**options: Any) -> None:
    """Score triples with the ensemble of RUN: the score, the rank of the tail and of the head, and a probability.

    The ranks are those of the evaluation: other known answers are removed. With --candidates, they are those of
    `relens evaluate --candidates`, and there is no probability. Known triples have ranks, too, but no probability. The
    score is comparable within one relation. A file of triples gives one line each; --format or the ending of --output
    chooses among TSV, CSV, JSON lines and Parquet.
    """
    ensemble, triples = open_for_triples(options)
    found = ensemble.score(triples, progress=TerminalProgress())
    fields = (*FIELDS, *restriction_field(ensemble))
    show_triples(found, fields, lambda: _table(found, table_facts(ensemble)), options)


def _table(found: Iterable[Any], facts: Mapping[str, str]) -> Table:
    columns = (
        Column("head", align="left"), Column("relation", align="left"), Column("tail", align="left"),
        Column("score", ".4g"), Column("rank of tail", ",g"), Column("rank of head", ",g"),
        Column("probability", ".0%"), Column("known", align="left"),
    )  # fmt: skip
    rows = tuple(Row(tuple(one.to_json()[field.name] for field in FIELDS)) for one in found)
    return Table("Scored triples", columns, rows, facts, ("ranks: other known answers removed",))
