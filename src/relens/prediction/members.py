"""The members of a run in memory, each loaded when it is first needed: trained models, and models of others."""

from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset
from relens.data.queries import Queries
from relens.importers.members import Member
from relens.packs.packing import float_dtype
from relens.prediction.facts import GivenFacts
from relens.prediction.questions import QueryIds
from relens.progress import Advance
from relens.ranking.memory import batch_rows
from relens.ranking.scorers import CheckedScorer
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
    """The members of a run; trained models and those of PyKEEN are on one device.

    Attributes:
        rows: the number of queries that are scored together.
        trust: load members that run code of others.
        loaded: the members in memory so far, by name.
    """

    def __init__(
        self,
        run: Run,
        dataset: Dataset,
        device: "torch.device | str",
        facts: GivenFacts | None = None,
        *,
        trust: bool = False,
    ) -> None:
        self.run, self.dataset, self.device, self.facts, self.trust = run, dataset, device, facts, trust
        self.rows = batch_rows(4 * len(dataset.entities))
        self.loaded: dict[str, KGEModel | CheckedScorer] = {}
        self._loading = Lock()

    def scores(self, name: str, queries: Queries) -> npt.NDArray[Any]:
        """Return the scores of all entities by one model, (b, E), for b queries; their answers are not read.

        They are float32, or float64 if a scorer returns that. NaN stands for entities that the model was not trained
        on, and cannot score.
        """
        scores: npt.NDArray[Any] = self.scores_on_device(name, queries).cpu().numpy()
        if self.facts is None:
            return scores
        missing = len(self.facts.dataset.entities) - scores.shape[1]
        return np.pad(scores, ((0, 0), (0, missing)), constant_values=np.nan)

    def answer_scores(self, name: str, queries: Queries, advance: Advance) -> npt.NDArray[np.float32]:
        """Return one model's scores of the answers of b queries, (b,), which need not share an anchor or a relation.

        ``advance`` is called after each batch, with its size.
        """
        from relens.ranking.scoring import evaluating, score_batch

        model, scores = self._member(name), np.empty(len(queries), dtype=np.float32)
        if isinstance(model, CheckedScorer) or model.propagates:  # the work is the same for one entity as for all
            order = np.lexsort(queries.columns()[:3])
            for part in np.split(order, range(self.rows, len(order), self.rows)):
                asked, row = np.unique(queries[part].columns()[:3], axis=1, return_inverse=True)
                of_all = self.scores(name, Queries.from_columns(np.pad(asked, ((0, 2), (0, 0)))))
                scores[part] = of_all[row.reshape(-1), queries.answer[part]]
                advance(len(part))
            return scores
        with evaluating(model):
            for begin in range(0, len(queries), PAIRS):
                # Batches of one shape: a score does not depend on the other queries.
                at = np.minimum(np.arange(begin, begin + PAIRS), len(queries) - 1)
                batch = queries[at]
                found = score_batch(model, batch, batch.answer[:, None])[:, 0].cpu().numpy()
                scores[begin : begin + PAIRS] = found[: len(queries) - begin]
                advance(min(PAIRS, len(queries) - begin))
        return scores

    def scores_on_device(self, name: str, queries: Queries) -> "torch.Tensor":
        """Return the scores of the entities that one model was trained on, (b, E), where the model is."""
        import torch

        from relens.ranking.scoring import score_queries

        member = self._member(name)
        if not isinstance(member, CheckedScorer):
            return score_queries(member, queries)
        scores = member.score(queries)
        return torch.from_numpy(scores.astype(float_dtype([scores.dtype]), copy=False))

    def paths(self, name: str, query: QueryIds, answer: int) -> "list[IdPath]":
        """Return the paths that carried one model's score of an answer; none if the model does not propagate."""
        from relens.ranking.scoring import evaluating

        model = self._member(name)
        if isinstance(model, CheckedScorer):
            return []
        with evaluating(model):
            directed = query.relation + query.direction * len(self.dataset.relations)
            return model.explain(query.anchor, directed, answer, PATHS)

    def propagate(self, name: str) -> bool:
        """Say whether a member of the run propagates, without loading it."""
        if name not in self.run.model_names:
            return False
        from relens.models import MODELS

        return MODELS.find(self.run.model(name).settings.model).propagates

    def _member(self, name: str) -> "KGEModel | CheckedScorer":
        with self._loading:
            if name not in self.loaded:
                member = self.run.member(name)
                if isinstance(member, Member):
                    self.loaded[name] = member.load(self.dataset, self.device, trust=self.trust)
                else:
                    model = member.load(self.dataset, self.device)
                    if self.facts is not None and model.propagates:
                        model.read(*self.facts.edges())
                    self.loaded[name] = model
            return self.loaded[name]
