"""``relens classify``: true or false for given triples."""

from collections.abc import Iterable, Mapping
from typing import Any

import click

from relens.cli.answer_tables import restriction_field
from relens.cli.console import TerminalProgress
from relens.cli.options import seed_option
from relens.cli.score import open_for_triples, show_triples, table_facts, triple_options
from relens.prediction import ClassifiedTriple
from relens.tables import Column, Row, Table
from relens.tables.streams import Field

FIELDS = (
    Field("head"), Field("relation"), Field("tail"), Field("true", bool), Field("value", float, ".6g"),
    Field("threshold", float, ".6g"), Field("own", bool), Field("known"),
)  # fmt: skip


@click.command()
@triple_options
@seed_option
def classify(seed: int, **options: Any) -> None:
    """Classify triples as true or false with the ensemble of RUN, by a threshold per relation.

    The thresholds have the best accuracy on the validation triples and on false ones: those of valid_negatives.txt if
    the data set has that file, and sampled ones otherwise. A relation without validation triples has the threshold of
    all. A file of triples gives one line each; --format or the ending of --output chooses among TSV, CSV, JSON lines
    and Parquet.
    """
    ensemble, triples = open_for_triples(options)
    found = ensemble.classify(triples, seed=seed, progress=TerminalProgress())
    fields = (*FIELDS, *restriction_field(ensemble))
    show_triples(found, fields, lambda: _table(found, table_facts(ensemble)), options)


def _table(found: Iterable[ClassifiedTriple], facts: Mapping[str, str]) -> Table:
    columns = (
        Column("head", align="left"), Column("relation", align="left"), Column("tail", align="left"),
        Column("verdict", align="left"), Column("value", ".4g"), Column("threshold", ".4g"),
        Column("known", align="left"),
    )  # fmt: skip
    rows = tuple(
        Row((one.head, one.relation, one.tail, str(one.true).lower(), one.value, one.threshold, one.known))
        for one in found
    )
    notes = ("true: the value reaches the threshold of the relation, which has the best accuracy on validation",)
    return Table("Classified triples", columns, rows, facts, notes)
