"""The trained models of a run, loaded when first needed; their scores are those that the run was ranked by."""

from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset
from relens.data.queries import Queries
from relens.errors import MissingExtraError
from relens.ranking.memory import batch_rows
from relens.runs import Run

if TYPE_CHECKING:
    import torch

    from relens.models.base import KGEModel


class LoadedModels:
    """The trained models of a run on one device.

    Attributes:
        rows: the number of queries that are scored together.
        loaded: the models in memory so far, by name.
    """

    def __init__(self, run: Run, dataset: Dataset, device: "torch.device | str") -> None:
        self.run, self.dataset, self.device = run, dataset, device
        self.rows = batch_rows(4 * len(dataset.entities))
        self.loaded: dict[str, KGEModel] = {}
        self._loading = Lock()

    def scores(self, name: str, queries: Queries) -> npt.NDArray[np.float32]:
        """Return the scores of all entities by one model, (b, E), for b queries; their answers are not read."""
        from relens.ranking.scoring import score_queries

        scores: npt.NDArray[np.float32] = score_queries(self._model(name), queries).cpu().numpy()
        return scores

    def _model(self, name: str) -> "KGEModel":
        try:
            from relens.training.trained import TrainedModel
        except ImportError as error:
            raise MissingExtraError("predicting with trained models", "train") from error
        with self._loading:
            if name not in self.loaded:
                folder = self.run.model_path(name) / "trained"
                self.loaded[name] = TrainedModel.open(folder).load(self.dataset, self.device)
            return self.loaded[name]
