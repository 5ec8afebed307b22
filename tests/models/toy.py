"""Models outside relens: without embedding tables, whose queries are no vectors."""

from typing import Any

import torch
from torch import Tensor, nn

from relens.models import KGEModel, ModelEntry
from relens.models.base import Drop, Objective, TrainingExamples, keep_all
from relens.models.options import Margin


class Popularity(KGEModel):
    """s = b_r + u_r·log(1 + how often e answers r) + v_r·log(1 + degree of e), with ``scale`` times b, u and v."""

    needs_triples = True
    counts: Tensor

    def __init__(self, n_entities: int, n_relations: int, triples: Tensor, *, scale: Margin = 1.0) -> None:
        super().__init__(n_entities, n_relations)
        self.scale = scale
        head, relation, tail = triples.T
        answers = torch.zeros(2 * n_relations, n_entities)
        answers.index_put_((relation, tail), torch.ones(len(triples)), accumulate=True)
        answers.index_put_((relation + n_relations, head), torch.ones(len(triples)), accumulate=True)
        counts = torch.stack([torch.ones_like(answers), answers.log1p(), answers.sum(0).expand_as(answers).log1p()])
        self.register_buffer("counts", counts, persistent=False)
        self.weight = nn.Parameter(torch.empty(3, 2 * n_relations, 1))

    def initialise(self, initialiser: str | None, generator: torch.Generator) -> None:
        super().initialise(initialiser, generator)
        nn.init.normal_(self.weight, 0.0, 0.1, generator=generator)

    def encode(self, anchor: Tensor, relation: Tensor, drop: Drop = keep_all) -> Tensor:
        return relation

    def score(self, queries: Tensor, candidates: Tensor | None = None, drop: Drop = keep_all) -> Tensor:
        scores = self.scale * (self.weight * self.counts).sum(0)[queries]
        if candidates is None:
            return scores
        return scores.gather(1, candidates.repeat_interleave(len(queries) // len(candidates), dim=0))


class OwnObjective(Popularity):
    """The same model with a loss of its own: the distance between the scores of answers and 1."""

    def training_objective(self, queries: TrainingExamples, settings: Any) -> Objective:
        def objective(examples: Tensor) -> Tensor:
            encoded = self.encode(queries.anchor[examples], queries.relation[examples])
            return (self.score(encoded, queries.answer[examples].unsqueeze(1)) - settings.alpha).square().mean()

        return objective


TOY = ModelEntry(
    "toy",
    Popularity,
    "popular entities",
    presets={"demo": {"default": {"loss": "1vsall", "lr": 0.1, "steps": 40, "validate_every": 20, "scale": 2.0}}},
)
OWN = ModelEntry("own", OwnObjective, "popular entities, with a loss of its own")
