"""``relens data prepare`` and ``relens data check``."""

import csv
import shlex
from pathlib import Path
from typing import Any

import click

from relens.cli.console import TerminalProgress, emit, emit_json, note
from relens.cli.options import seed_option, show
from relens.data.checks import KINDS, DataCheck, check_data
from relens.data.preparation.prepare import prepare_data
from relens.data.preparation.settings import DELIMITERS, FORMATS, TREATMENTS
from relens.data.queries import EVALUATED
from relens.tables import Column, Row, Table

MEANINGS = {
    "repeated": "train has the triple itself",
    "inverse": "train has its inverse, by two relations",
    "duplicate": "train has its duplicate, by two relations",
    "symmetric": "train has its mirror image, by a symmetric relation",
    "linked": "train links the two entities by any relation",
}
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
offline = click.option("--offline", is_flag=True, help="Never use the network; fail if the data set is not here.")


def _size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | float | None:
    """Read a size of a split: a whole number for a count, a fraction for a share."""
    if value is None:
        return None
    try:
        return int(value) if value.strip().isdecimal() else float(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is neither a count such as 500 nor a share such as 0.1", ctx, param
        ) from None


def _columns(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str | int, ...] | None:
    """Read three names or numbers of columns, separated by commas; a name with a comma is quoted."""
    if value is None:
        return None
    found = [name.strip() for name in next(csv.reader([value], skipinitialspace=True), [])]
    if len(found) != 3 or not all(found):
        raise click.BadParameter("expected three columns: HEAD,RELATION,TAIL", ctx, param)
    return tuple(found)


@click.command()
@click.argument("source")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--format", type=click.Choice(FORMATS), default="auto", show_default=True,
    help="Format of SOURCE; auto goes by the name of the file.",
)  # fmt: skip
@click.option(
    "--delimiter", metavar="CHARACTER",
    help=f"Between two fields: a character, or {', '.join(DELIMITERS)}.  [default: recognised]",
)  # fmt: skip
@click.option(
    "--quotes/--no-quotes", default=None,
    help="Whether fields may be quoted.  [default: for all delimiters but tabs and spaces]",
)  # fmt: skip
@click.option("--header/--no-header", default=None, help="Whether the first line is a heading.  [default: recognised]")
@click.option(
    "--columns", metavar="HEAD,RELATION,TAIL", callback=_columns,
    help="Names of columns, or their numbers from 1.  [default: by their names, or the first three]",
)  # fmt: skip
@click.option(
    "--time", metavar="COLUMN", help="A column with times: the latest triples become test, earlier ones valid."
)
@click.option("--strip/--keep-spaces", default=True, show_default=True, help="Remove spaces around labels.")
@click.option("--encoding", default="utf-8", show_default=True, help="Encoding of text files.")
@click.option(
    "--literals", type=click.Choice(TREATMENTS), default="skip", show_default=True,
    help="RDF triples with a literal: skip and count them, or stop.",
)  # fmt: skip
@click.option(
    "--blank-nodes", type=click.Choice(TREATMENTS), default="skip", show_default=True,
    help="RDF triples with a blank node: skip and count them, or stop.",
)  # fmt: skip
@click.option(
    "--valid", metavar="COUNT|SHARE", callback=_size,
    help="Triples to hold out for validation.  [default: a tenth, at most 20,000]",
)  # fmt: skip
@click.option(
    "--test", metavar="COUNT|SHARE", callback=_size,
    help="Triples to hold out for test.  [default: a tenth, at most 20,000]",
)  # fmt: skip
@click.option(
    "--hold-out", multiple=True, metavar="RELATION", help="Hold out triples of this relation only; may be repeated."
)
@click.option("--stratify", is_flag=True, help="Hold out the same share of each relation.")
@click.option("--allow-unseen", is_flag=True, help="Let valid and test have entities and relations that train lacks.")
@seed_option
@click.option(
    "--drop-leaks", is_flag=True,
    help="Keep one of each set of inverse or near-duplicate relations; remove triples of valid and test that train "
    "has, or whose counterpart or mirror image it has.",
)  # fmt: skip
@click.option(
    "--drop-linked", is_flag=True,
    help="Remove triples of valid and test whose two entities train links by any relation, as FB15k-237 does.",
)  # fmt: skip
@offline
@click.option("--force", is_flag=True, help="Replace a folder that this command wrote before.")
@as_json
def prepare(source: str, folder: Path, as_json: bool, **options: Any) -> None:
    """Read triples from SOURCE, split them, and write FOLDER for `relens run`.

    SOURCE is a file, a folder, or a name from `relens data list`. A file is a text table (TSV, CSV or another
    delimiter, .gz and .zst too), N-Triples, Turtle or Parquet. A folder has one such file for train, and perhaps for
    valid and test: it keeps the splits that it has. The others are held out of train, so that every entity and
    relation of valid and test occurs in train.

    Messages say which columns were used, whether the first line is a heading, and what was left out.
    """
    made = prepare_data(source, folder, progress=TerminalProgress(), **options)
    for text in made.check.warnings:
        note(f"warning: {text}")
    where = shlex.quote(str(folder))
    note(f"wrote {folder}; next: relens data check {where}; relens run {where}")
    if as_json:
        emit_json({**made.check.to_json(), "notes": list(made.notes)})
    else:
        emit(str(folder))


@click.command()
@click.argument("dataset", metavar="FOLDER")
@click.option("--relations", default=20, show_default=True, help="Number of relation pairs to show.")
@offline
@as_json
def check(dataset: str, relations: int, offline: bool, as_json: bool) -> None:
    """Check a data set for leakage between its splits, and for other likely mistakes.

    FOLDER has train, valid and test files; a name from `relens data list` works, too. The first table counts the
    triples of valid and test that train gives away. The second lists relations nearly all of whose facts have a
    counterpart: of another relation in the same direction (duplicate) or with swapped entities (inverse), or of the
    same one (symmetric). Warnings say what this means for the figures. `relens run` prints the same warnings.
    """
    found = check_data(dataset, offline=offline, progress=TerminalProgress())
    if as_json:
        emit_json(found.to_json())
        return
    show([_given(found)], "text", None, None)
    pairs = found.relations()
    if pairs and relations > 0:
        show([_pairs(pairs, relations)], "text", None, None)
    for text in found.warnings:
        emit(f"warning: {text}")
    if not found.warnings:
        emit("no warnings")


def _given(found: DataCheck) -> Table:
    """Return a table of the triples of valid and test that train gives away."""
    counts = found.shares()
    rows = [
        Row((MEANINGS[kind], *(value for split in EVALUATED for value in _with_share(found, counts, split, kind))))
        for kind in KINDS
    ]
    numbers = [column for split in EVALUATED for column in (Column(split, ",d"), Column("share", ".1%"))]
    sizes = ", ".join(f"{len(found.dataset.splits[split]):,} {split}" for split in EVALUATED)
    title = f"{found.dataset.name}: triples that train gives away, of {sizes} triples"
    return Table(title, (Column("how", align="left"), *numbers), tuple(rows))


def _with_share(found: DataCheck, counts: dict[str, dict[str, int]], split: str, kind: str) -> tuple[int, float]:
    number = counts[split][kind]
    return number, number / max(1, len(found.dataset.splits[split]))


def _pairs(pairs: list[dict[str, Any]], limit: int) -> Table:
    """Return a table of the relations whose facts have counterparts."""
    rows = tuple(
        Row((pair["kind"], pair["facts"], pair["share"], pair["relation"], pair["counterpart"]))
        for pair in pairs[:limit]
    )
    columns = (
        Column("kind", align="left"), Column("facts", ",d"), Column("of all", ".0%"), Column("relation", align="left"),
        Column("counterpart", align="left"),
    )  # fmt: skip
    return Table(f"{len(rows)} of {len(pairs)} relations with counterparts", columns, rows)
