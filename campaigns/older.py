"""A run of an older relens, which ``relens upgrade`` converts."""

import shutil
from pathlib import Path

from relens.files import read_json, write_json
from relens.pipeline.upgrade import CONVERTERS, HEADING, PLACES


def write_older(run: Path) -> None:
    """Turn a run into one of an older relens: it has no graph, and its records have old formats."""
    shutil.rmtree(run / "graph")
    for kind, pattern in PLACES:
        for file in run.glob(pattern):
            kept = {key: value for key, value in read_json(file, kind.name).items() if key not in HEADING}
            write_json(file, {"kind": kind.name, "format": min(CONVERTERS[kind.name]), **kept})
