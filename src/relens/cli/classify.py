"""``relens classify``: true or false for given triples."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from relens.cli.console import TerminalProgress
from relens.cli.options import run_argument, seed_option, stream_form
from relens.cli.predict import facts_option, open_ensemble
from relens.cli.score import given_triples, show_triples, triple_options
from relens.prediction import ClassifiedTriple
from relens.runs import Run
from relens.tables import Column, Row, Table
from relens.tables.streams import Field

FIELDS = (
    Field("head"), Field("relation"), Field("tail"), Field("true", bool), Field("value", float, ".6g"),
    Field("threshold", float, ".6g"), Field("own", bool), Field("known"),
)  # fmt: skip


@click.command()
@run_argument
@facts_option
@seed_option
@triple_options
def classify(run_path: Path, facts: Path | None, seed: int, **options: Any) -> None:
    """Classify triples as true or false with the ensemble of RUN, by a threshold per relation.

    The thresholds have the best accuracy on the validation triples and on false ones: those of valid_negatives.txt if
    the data set has that file, and sampled ones otherwise. A relation without validation triples has the threshold of
    all. A file of triples gives one line each; --format or the ending of --output chooses among TSV, CSV, JSON lines
    and Parquet.
    """
    triples = given_triples(options)
    if options["file"] is not None:
        stream_form(options["output"], options["form"], as_json=options["as_json"])  # a wrong format ends here
    run = Run.open(run_path)
    ensemble = open_ensemble(run, options["name"], options["device"], facts, trust=options["trust"])
    found = ensemble.classify(triples, seed=seed, progress=TerminalProgress())
    show_triples(found, FIELDS, lambda: _table(found, ensemble.dataset.name), options)


def _table(found: Iterable[ClassifiedTriple], dataset: str) -> Table:
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
    return Table("Classified triples", columns, rows, {"data set": dataset}, notes)
