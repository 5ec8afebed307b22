"""Importing: from files of other tools to the ranks of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relens.importers.dense import Dense, check_shapes, pack_dense
from relens.importers.importer import read_ranks
from relens.progress import SILENT, Progress
from relens.ranking.memory import MEMORY_BUDGET
from relens.runs import Run


def import_ranks(
    layout: str,
    folder: Path | str,
    *,
    run: Path | str,
    memory_budget: int = MEMORY_BUDGET,
    jobs: int = 2,
    force: bool = False,
    progress: Progress = SILENT,
    **options: Any,
) -> Run:
    """Import the ranks or scores in a folder into a run.

    Args:
        layout: the layout of the folder, a name in ``relens.importers.importer.IMPORTERS``.
        folder: the folder to read.
        run: the run to fill; created if necessary.
        memory_budget: bytes for packing; arrays may be larger.
        jobs: threads.
        force: replace ranks that the run has already.
        progress: shows how many queries are packed.
        options: the options of the layout, such as ``data``, ``models`` or ``filtered``.
    """
    splits = read_ranks(layout, folder, progress=progress, **options)
    return fill_run(run, splits, memory_budget=memory_budget, jobs=jobs, force=force, progress=progress)


def fill_run(
    path: Path | str,
    splits: Mapping[str, Dense],
    *,
    memory_budget: int = MEMORY_BUDGET,
    jobs: int = 2,
    force: bool = False,
    progress: Progress = SILENT,
) -> Run:
    """Pack the ranks or scores of both splits, or of one, into a run; see ``import_ranks``."""
    for dense in splits.values():
        check_shapes(dense)
    first, *others = splits
    name = splits[first].header.provenance.dataset
    with Run.receive_ranks(path, name, None if others else first, force=force) as stores:
        for split, dense in splits.items():
            pack_dense(dense, stores / split, memory_budget=memory_budget, jobs=jobs, progress=progress)
    return Run.open(path)
