"""``relens report``: the results of a run as one HTML file, and its figures."""

import shlex
from pathlib import Path

import click

from relens.cli.console import TerminalProgress, emit, emit_json, note
from relens.cli.options import hold, json_option, run_argument


@click.command()
@run_argument
@click.option(
    "-o", "--output", "folder", type=click.Path(path_type=Path), metavar="DIR",
    help="Folder to write to; an earlier report there is replaced.  [default: RUN/report]",
)  # fmt: skip
@click.option(
    "--curves", is_flag=True,
    help="Measure learning curves of the search (takes minutes); later reports show them too.",
)  # fmt: skip
@json_option
def report(run_path: Path, folder: Path | None, curves: bool, as_json: bool) -> None:
    """Write the report of RUN: index.html, which needs no other file and no network, and figures as PNG and SVG.

    The report compares all methods with intervals. It shows the weights and the MRR of the models per relation, the
    training curves, and statistics of the graph, and explains its words in a glossary. Parts that the run has no data
    for are left out. If the run was not compared yet, it is compared first, and the comparison is kept in the run.
    """
    from relens.reports import write_report

    run = hold(run_path)
    page = write_report(run, folder or run.path / "report", curves=curves, progress=TerminalProgress())
    figures = sorted(str(path) for path in (page.parent / "figures").iterdir())
    if as_json:
        emit_json({"run": str(run.path), "page": str(page), "figures": figures})
    else:
        emit(str(page))
        note(f"open it in a browser: {shlex.quote(page.resolve().as_uri())}")
