"""Scoring: models are loaded when first needed and score queries in batches of one shape."""

from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset
from relens.data.queries import Queries
from relens.errors import MissingExtraError
from relens.run import Run

if TYPE_CHECKING:
    import torch

    from relens.models.base import KGEModel

ROWS = 64
"""Queries scored together. A product of matrices may round differently when its shape changes, and a rank hangs on
the last bit where scores are close: all batches have one shape, the last one filled up with repeats."""

MEMORY_BUDGET = 2**30
"""Bytes that one model's batch of scores may take."""


class Scorer:
    """The trained models of a run on one device.

    Attributes:
        rows: queries scored together.
        loaded: the models in memory so far, by name.
    """

    def __init__(self, run: Run, dataset: Dataset, device: "torch.device | str") -> None:
        self.run, self.dataset, self.device = run, dataset, device
        self.rows = max(1, min(ROWS, MEMORY_BUDGET // (4 * len(dataset.entities))))
        self.loaded: dict[str, KGEModel] = {}
        self._loading = Lock()

    def scores(self, name: str, queries: Queries) -> npt.NDArray[np.float32]:
        """Score all entities with one model, (b, E), for b ≤ ``rows`` queries, whose answers are not looked at."""
        from relens.ranks.export import score_queries

        filled = np.minimum(np.arange(self.rows), len(queries) - 1)
        scores: npt.NDArray[np.float32] = (
            score_queries(self._model(name), queries[filled])[: len(queries)].cpu().numpy()
        )
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
