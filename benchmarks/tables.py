"""Print the tables of benchmark reports that are not committed.

    python benchmarks/tables.py out/search-fb15k-237.json out/search-wn18rr.json out/pack.json

``benchmarks/pages.py`` writes the tables of the committed reports into the documentation.
"""

import json
from pathlib import Path

import click
from page_tables.performance import all_tables


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(files: tuple[Path, ...]) -> None:
    """Print the tables of the reports in FILES, those of searches side by side."""
    click.echo("\n\n".join(all_tables([json.loads(file.read_text(encoding="utf-8")) for file in files])))


if __name__ == "__main__":
    main()
