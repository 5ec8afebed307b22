"""The trained models of a run in memory, each loaded when it is first needed."""

from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset
from relens.data.queries import Queries
from relens.errors import MissingExtraError
from relens.prediction.facts import GivenFacts
from relens.prediction.questions import QueryIds
from relens.ranking.memory import batch_rows
from relens.runs import Run

if TYPE_CHECKING:
    import torch

    from relens.models.base import KGEModel
    from relens.models.paths import Path as IdPath

PAIRS = 1024
"""Queries whose answers alone are scored together."""
PATHS = 3
"""Paths that explain an answer, by each model."""


class LoadedModels:
    """The trained models of a run on one device.

    Attributes:
        rows: the number of queries that are scored together.
        loaded: the models in memory so far, by name.
    """

    def __init__(
        self, run: Run, dataset: Dataset, device: "torch.device | str", facts: GivenFacts | None = None
    ) -> None:
        self.run, self.dataset, self.device, self.facts = run, dataset, device, facts
        self.rows = batch_rows(4 * len(dataset.entities))
        self.loaded: dict[str, KGEModel] = {}
        self._loading = Lock()

    def scores(self, name: str, queries: Queries) -> npt.NDArray[np.float32]:
        """Return the scores of all entities by one model, (b, E), for b queries; their answers are not read.

        NaN stands for entities that the model was not trained on, and cannot score.
        """
        from relens.ranking.scoring import score_queries

        scores: npt.NDArray[np.float32] = score_queries(self._model(name), queries).cpu().numpy()
        if self.facts is None:
            return scores
        missing = len(self.facts.dataset.entities) - scores.shape[1]
        return np.pad(scores, ((0, 0), (0, missing)), constant_values=np.nan)

    def answer_scores(self, name: str, queries: Queries) -> npt.NDArray[np.float32]:
        """Return one model's scores of the answers of b queries, (b,), which need not share an anchor or a relation."""
        from relens.ranking.scoring import evaluating, score_batch

        model, scores = self._model(name), np.empty(len(queries), dtype=np.float32)
        if model.propagates:  # the work is the same for one entity as for all
            order = np.lexsort(queries.columns()[:3])
            for part in np.split(order, range(self.rows, len(order), self.rows)):
                asked, row = np.unique(queries[part].columns()[:3], axis=1, return_inverse=True)
                of_all = self.scores(name, Queries.from_columns(np.pad(asked, ((0, 2), (0, 0)))))
                scores[part] = of_all[row.reshape(-1), queries.answer[part]]
            return scores
        with evaluating(model):
            for begin in range(0, len(queries), PAIRS):
                # Batches of one shape: a score does not depend on the other queries.
                at = np.minimum(np.arange(begin, begin + PAIRS), len(queries) - 1)
                batch = queries[at]
                found = score_batch(model, batch, batch.answer[:, None])[:, 0].cpu().numpy()
                scores[begin : begin + PAIRS] = found[: len(queries) - begin]
        return scores

    def paths(self, name: str, query: QueryIds, answer: int) -> "list[IdPath]":
        """Return the paths that carried one model's score of an answer; none if the model does not propagate."""
        from relens.ranking.scoring import evaluating

        model = self._model(name)
        with evaluating(model):
            directed = query.relation + query.direction * len(self.dataset.relations)
            return model.explain(query.anchor, directed, answer, PATHS)

    def propagate(self, name: str) -> bool:
        """Say whether a model of the run propagates, without its parameters."""
        from relens.models import MODELS

        return MODELS.find(self.run.model(name).settings.model).propagates

    def _model(self, name: str) -> "KGEModel":
        try:
            from relens.training.trained import TrainedModel
        except ImportError as error:
            raise MissingExtraError("predicting with trained models", "train") from error
        with self._loading:
            if name not in self.loaded:
                folder = self.run.model_path(name) / "trained"
                model = TrainedModel.open(folder).load(self.dataset, self.device)
                if self.facts is not None and model.propagates:
                    model.read(*self.facts.edges())
                self.loaded[name] = model
            return self.loaded[name]
