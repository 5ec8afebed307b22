"""``relens upgrade``: convert a run of an older relens."""

from pathlib import Path

import click

from relens import api
from relens.cli.console import emit, emit_json, note
from relens.cli.options import json_option, run_argument
from relens.errors import counted


@click.command()
@run_argument
@json_option
def upgrade(run_path: Path, as_json: bool) -> None:
    """Convert RUN, which an older relens made, to the format of this one.

    Models, ranks, weights and results stay as they are; only records around them change. `relens run` then finds every
    stage complete. The same command resumes an interrupted upgrade. A current run is left alone.
    """
    changed = api.upgrade(run_path)
    if as_json:
        emit_json({"run": str(run_path), "changed": changed})
        return
    for line in changed:
        emit(line)
    note(f"upgraded {counted(len(changed), 'file')} of {run_path}" if changed else f"{run_path} is current already")
