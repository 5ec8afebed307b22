"""The ranks of a run: made by its trained models, or imported from the files of other tools."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relens.data.dataset import Dataset
from relens.data.queries import EVALUATED
from relens.importers.dense import Dense, check_shapes, pack_dense
from relens.importers.importer import IMPORTERS, read_ranks
from relens.progress import SILENT, Progress
from relens.ranking.memory import MEMORY_BUDGET
from relens.records import RANKED_BY
from relens.runs import MADE_BY, Run

if TYPE_CHECKING:
    from relens.training.trained import TrainedModel


def rank_models(
    run: Run,
    dataset: Dataset,
    trained: "Mapping[str, TrainedModel]",
    *,
    device: Any,
    gaps: bool = True,
    force: bool = False,
    progress: Progress = SILENT,
) -> None:
    """Rank the validation and test queries with all models at once; keep packed ranks and a record of the models.

    The caller holds the run. Existing ranks are replaced only with ``force``.
    """
    from relens.packs.export import Ranker

    with run.replace_ranks(dataset.name, force=force) as folder:
        ranker = Ranker({name: model.load(dataset, device) for name, model in trained.items()}, dataset)
        scales = ranker.fit_scales() if gaps else None
        for split in EVALUATED:
            ranker.pack(split, folder / split, scales, progress=progress)
        RANKED_BY.write(folder / MADE_BY, made_by(trained, device))


def made_by(trained: "Mapping[str, TrainedModel]", device: Any) -> dict[str, Any]:
    """Return the record of the models and the device that made some ranks."""
    return {"device": device.type, "models": {name: model.digest for name, model in trained.items()}}


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
    values = IMPORTERS.find(layout).resolve(options, progress)
    dataset = next((value for value in values.values() if isinstance(value, Dataset)), None)
    splits = read_ranks(layout, folder, progress=progress, **values)
    return fill_run(run, splits, dataset, memory_budget=memory_budget, jobs=jobs, force=force, progress=progress)


def fill_run(
    path: Path | str,
    splits: Mapping[str, Dense],
    dataset: Dataset | None = None,
    *,
    memory_budget: int = MEMORY_BUDGET,
    jobs: int = 2,
    force: bool = False,
    progress: Progress = SILENT,
) -> Run:
    """Pack the ranks or scores of both splits, or of one, into a run, which keeps the graph of ``dataset``.

    See ``import_ranks`` for the other arguments.
    """
    for dense in splits.values():
        check_shapes(dense)
    first, *others = splits
    name = splits[first].header.provenance.dataset
    with Run.receive_ranks(path, dataset or name, None if others else first, force=force) as stores:
        for split, dense in splits.items():
            pack_dense(dense, stores / split, memory_budget=memory_budget, jobs=jobs, progress=progress)
    return Run.open(path)
