"""Ranking with the trained models of a run."""

from collections.abc import Mapping
from typing import Any

from relens.data.dataset import Dataset
from relens.data.queries import EVALUATED
from relens.packs.export import Ranker
from relens.progress import SILENT, Progress
from relens.records import RANKED_BY
from relens.runs import MADE_BY, Run
from relens.training.trained import TrainedModel


def rank_models(
    run: Run,
    dataset: Dataset,
    trained: Mapping[str, TrainedModel],
    *,
    device: Any,
    gaps: bool = True,
    force: bool = False,
    progress: Progress = SILENT,
) -> None:
    """Rank the validation and test queries with all models at once; keep packed ranks and a record of the models.

    The caller holds the run. Existing ranks are replaced only with ``force``.
    """
    with run.replace_ranks(dataset.name, force=force) as folder:
        ranker = Ranker({name: model.load(dataset, device) for name, model in trained.items()}, dataset)
        scales = ranker.fit_scales() if gaps else None
        for split in EVALUATED:
            ranker.pack(split, folder / split, scales, progress=progress)
        RANKED_BY.write(folder / MADE_BY, made_by(trained, device))


def made_by(trained: Mapping[str, TrainedModel], device: Any) -> dict[str, Any]:
    """Return the record of the models and the device that made some ranks."""
    return {"device": device.type, "models": {name: model.digest for name, model in trained.items()}}
