"""Print the tables of benchmark reports that are not committed.

    python benchmarks/tables.py out/search-fb15k-237.json out/search-wn18rr.json out/pack.json

``benchmarks/pages.py`` writes the tables of the committed reports into the documentation.
"""

import json
from collections.abc import Callable
from pathlib import Path

import click
from page_tables.performance import (
    Report,
    growth_table,
    machine_table,
    methods_table,
    models_table,
    ogb_table,
    pack_table,
    scale_table,
    search_table,
    targets_table,
)

TABLES: dict[str, tuple[Callable[[Report], str], ...]] = {
    "pack": (pack_table,),
    "scale": (scale_table, growth_table),
    "models": (models_table, growth_table),
    "ogb": (ogb_table,),
}
"""The tables of each kind of report, except searches, which share a table."""


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(files: tuple[Path, ...]) -> None:
    """Print the tables of the reports in FILES, those of searches side by side."""
    reports = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    searches = [report for report in reports if report["benchmark"] == "search"]
    parts = [machine_table(report) for report in reports[:1]]
    if searches:
        parts += [search_table(searches), methods_table(searches)]
    parts += [show(report) for report in reports for show in TABLES.get(report["benchmark"], ())]
    if any(report["targets"] for report in reports):
        parts.append(targets_table(reports))
    click.echo("\n\n".join(parts))


if __name__ == "__main__":
    main()
