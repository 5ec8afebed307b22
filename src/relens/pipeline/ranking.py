"""The ranks of a run: made by its trained models, or imported from the files of other tools."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset
from relens.data.queries import EVALUATED
from relens.files import passing_folder
from relens.importers.dense import Dense, check_shapes, pack_dense
from relens.importers.importer import read_ranks
from relens.packs.pack import PackedRanks
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


@contextmanager
def ranked_among(
    run: Run,
    dataset: Dataset,
    trained: "Mapping[str, TrainedModel]",
    scales: npt.NDArray[np.float64] | None,
    *,
    splits: Sequence[str],
    device: Any,
    progress: Progress = SILENT,
) -> Iterator[dict[str, PackedRanks]]:
    """Rank queries with the models of a run among other candidates; yield packed ranks that are removed afterwards.

    Args:
        run: the run, whose own ranks stay as they are.
        dataset: its data set, with the candidates.
        trained: the models, in the order of the ranks.
        scales: scales of the score gaps to keep, (N,); None for no gaps.
        splits: the splits to rank.
        device: where models run.
        progress: shows how many queries are ranked.
    """
    from relens.packs.export import Ranker

    ranker = Ranker({name: model.load(dataset, device) for name, model in trained.items()}, dataset)
    with passing_folder(run.path / "candidates") as folder:
        yield {split: ranker.pack(split, folder / split, scales, progress=progress) for split in splits}


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
