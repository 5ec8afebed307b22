"""Whether weights that see more of a query than its relation are better, by cross-validation inside validation.

    python benchmarks/bench_gates.py wn18rr=out/wn18rr --output docs/results/strong/wn18rr/gates.json

A folder holds what ``strong.sh`` and ``confidence.py`` keep of a run: ``reduced.npz`` and ``confidence.npz``. All
variants are compared with `dsc` on the same folds, with the input and the κ that it chooses:

- *groups*: each group is cut into two or three parts by a property of the query, at the group's own quantiles; the
  weights of a part are shrunk towards those of its group, which are those of `dsc`, with the best of several κ;
- *gate*: the weights of a query are those of its group times exponentials of a linear function, or of a small network,
  of all properties, trained by gradient on a smooth version of the reciprocal rank. It needs score gaps, and starts
  from weights of these.

The best κ of the parts is chosen on the same folds, as that of `dsc` is.
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import torch
from environment import describe, say, write
from torch import Tensor, nn

from relens.data.catalog import load_dataset
from relens.data.grouping import Grouping
from relens.data.queries import query_key
from relens.ensemble.context import SearchContext, split_by_group
from relens.ensemble.grid import to_grid
from relens.ensemble.inputs import INPUTS
from relens.ensemble.inputs.score import SCORE
from relens.ensemble.objective import answer_ranks
from relens.ensemble.regularisation import Shrinkage, folds
from relens.ensemble.search import search
from relens.ensemble.searchers import SEARCHERS
from relens.packs.reduced import read_reduced
from relens.packs.thinning import ContestedViews

KAPPA, KAPPAS = 10.0, (3.0, 10.0, 30.0, 100.0, 300.0)
PARTS = (2, 3)
HIDDEN = (0, 16)
"""Widths of the gate's hidden layer; 0 for a linear gate."""
SEEN, BATCH, EPOCHS, RATE, DECAY, SMOOTH = 64, 512, 4, 3e-3, 1e-2, 0.1
"""Of the gate: candidates of a query, queries of a step, epochs, learning rate, weight decay, width of the sigmoid."""

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Fold:
    """A search on the queries of the other folds.

    Attributes:
        kept, test: positions of the queries to fit on and of those to judge on.
        weights: of each group, (G, N).
        shrinkage: the scales of the models.
    """

    kept: Array
    test: Array
    weights: Array
    shrinkage: Shrinkage


class Study:
    """The validation ranks of a graph, and the properties of its queries."""

    def __init__(self, dataset: str, folder: Path, jobs: int) -> None:
        self.packed = read_reduced(folder / "reduced.npz")["valid"]
        self.jobs, self.data = jobs, load_dataset(dataset)
        self.input, self.kappa = SCORE, KAPPA
        with np.load(folder / "confidence.npz", allow_pickle=False) as file:
            order = [file["models"].tolist().index(model) for model in self.packed.models]
            self.numbers, self.best = file["numbers"][order], file["best"][order]
        self.group = Grouping.by_relation_and_direction(self.packed.relations).groups_of(self.packed.queries)
        self.views = ContestedViews(self.packed, jobs)

    def with_choice(self) -> "Study":
        """Return the same study with the input and the κ that `dsc` chooses."""
        scores = search(self.packed, method="dsc", jobs=self.jobs).settings["cross_validation"]
        _, name, kappa = max((mrr, name, kappa) for name, row in scores.items() for kappa, mrr in row.items())
        chosen = copy(self)
        chosen.input, chosen.kappa = INPUTS[name], float(kappa)
        return chosen

    @property
    def context(self) -> SearchContext:
        """What a search needs."""
        return SearchContext(self.views, self.input, SEARCHERS["sweep"], self.group, jobs=self.jobs)

    @cached_property
    def properties(self) -> dict[str, Array]:
        """Properties of every query, (Q,) each; none depends on the answer. The first model is one that propagates."""
        queries, train, n_relations = self.packed.queries, self.data.train, len(self.packed.relations)
        degree = np.bincount(train[:, ::2].ravel(), minlength=len(self.data.entities))[queries.anchor]
        head, relation, tail = train.T.astype(np.int64)
        keys = np.sort(np.concatenate([query_key(e, relation, d, n_relations) for d, e in enumerate((head, tail))]))
        own = query_key(queries.anchor.astype(np.int64), queries.relation, queries.direction, n_relations)
        known = np.searchsorted(keys, own, side="right") - np.searchsorted(keys, own)
        return {
            "edges of the anchor": degree,
            "known answers": known,
            "entropy of the first model": self.numbers[0, :, 0],
            "margin of the first model": self.numbers[0, :, 1],
            "models that agree with it": (self.best == self.best[0]).sum(axis=0),
        }

    @cached_property
    def folds(self) -> list[Fold]:
        """The searches of weights per group, one for each fold."""
        of_query = folds(self.packed.queries.triple, 0)
        return [
            self._fold(np.flatnonzero(of_query != fold), np.flatnonzero(of_query == fold))
            for fold in range(of_query.max() + 1)
        ]

    def _fold(self, kept: Array, test: Array) -> Fold:
        present, members = split_by_group(self.group, kept)
        common, found = self.context.searcher.search_groups(self.context, kept, members, lossless=False)
        shrinkage = Shrinkage.from_pairs(self.views, kept, self.input)
        weights = np.tile(common.weights, (int(self.group.max()) + 1, 1))
        own = np.array([result.weights for result in found])
        weights[present] = shrinkage.shrink(own, common.weights, np.array([len(m) for m in members]), self.kappa)
        return Fold(kept, test, weights, shrinkage)

    def reciprocal(self, weights: Array, group: Array, at: Array) -> Array:
        """Return the reciprocal ranks of the queries at ``at`` (n,) by weights (G, N) of groups (Q,)."""
        ranks = answer_ranks(self.packed, weights, group.astype(np.int32), input=self.input, queries=at, jobs=self.jobs)
        return 1.0 / ranks.realistic

    def plain(self) -> float:
        """Return the cross-validated MRR of weights per group."""
        return self._mean(self.reciprocal(fold.weights, self.group, fold.test) for fold in self.folds)

    def refined(self, fine: Array) -> float:
        """Return the cross-validated MRR of weights per part of a group, (Q,), with the best shrinkage."""
        parent = np.zeros(int(fine.max()) + 1, dtype=np.int64)
        parent[fine] = self.group
        reciprocal: dict[float, list[Array]] = {kappa: [] for kappa in KAPPAS}
        for fold in self.folds:
            present, members = split_by_group(fine.astype(np.int32), fold.kept)
            _, found = self.context.searcher.search_groups(self.context, fold.kept, members, lossless=False)
            own, support = np.array([result.weights for result in found]), np.array([len(m) for m in members])
            for kappa in KAPPAS:
                weights = fold.weights[parent]
                weights[present] = fold.shrinkage.shrink(own, weights[present], support, kappa)
                reciprocal[kappa].append(self.reciprocal(weights, fine, fold.test))
        return max(self._mean(iter(values)) for values in reciprocal.values())

    def gated(self, hidden: int) -> float:
        """Return the cross-validated MRR of weights by a gate."""
        columns = [*self.properties.values(), *self.numbers.reshape(-1, self.packed.n_queries)]
        ranked = np.stack([np.argsort(np.argsort(column, kind="stable")) for column in columns], axis=1)
        features = torch.tensor(ranked / len(ranked) * 2 - 1, dtype=torch.float32)
        every = np.arange(self.packed.n_queries)
        parts = []
        for fold in self.folds:
            weights = _train_gate(self, fold, features, hidden)
            parts.append(self.reciprocal(to_grid(weights), every, fold.test))
        return self._mean(iter(parts))

    @staticmethod
    def _mean(parts: Iterator[Array]) -> float:
        return float(np.concatenate(list(parts)).mean())


def cut(values: Array, group: Array, parts: int) -> Array:
    """Cut every group into parts of equal size by a value of its queries; return the part of each query, (Q,)."""
    order = np.lexsort((values, group))
    begins = np.concatenate([[0], np.cumsum(np.bincount(group))])
    place = np.empty(len(group), dtype=np.int64)
    place[order] = np.arange(len(group))
    size = np.bincount(group)[group]
    return group.astype(np.int64) * parts + (place - begins[group]) * parts // size


def _train_gate(study: Study, fold: Fold, features: Tensor, hidden: int) -> Array:
    """Return the weights of every query, (Q, N), by a gate that was trained on the kept queries."""
    torch.manual_seed(0)
    scales = torch.tensor(fold.shrinkage.scales, dtype=torch.float32)
    standard = torch.tensor(fold.weights, dtype=torch.float32) * scales
    base = (standard / standard.sum(dim=1, keepdim=True) + 1e-4).log()[torch.as_tensor(study.group).long()]
    n_models, width = base.shape[1], features.shape[1]
    layers = (
        [nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, n_models)] if hidden else [nn.Linear(width, n_models)]
    )
    nn.init.zeros_(layers[-1].weight)
    nn.init.zeros_(layers[-1].bias)
    gate = nn.Sequential(*layers)
    optimiser = torch.optim.AdamW(gate.parameters(), lr=RATE, weight_decay=DECAY)
    n_steps = EPOCHS * -(-len(fold.kept) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, n_steps)
    drawn = np.random.default_rng(0)
    for _ in range(EPOCHS):
        for at in np.array_split(drawn.permutation(fold.kept), n_steps // EPOCHS):
            gaps, present, ahead = _candidates(study, at)
            weights = (base[at] + gate(features[at])).softmax(dim=1)
            lead = ((gaps / scales) * weights.unsqueeze(1)).sum(dim=2)
            passed = torch.sigmoid(lead / SMOOTH).where(present, 0).sum(dim=1)
            optimiser.zero_grad()
            (-1 / (1 + ahead + passed)).mean().backward()
            optimiser.step()
            schedule.step()
    with torch.no_grad():
        return ((base + gate(features)).softmax(dim=1) / scales).double().numpy()


def _candidates(study: Study, at: Array) -> tuple[Tensor, Tensor, Tensor]:
    """Return gaps (b, SEEN, N), which of them are there (b, SEEN), and the candidates that are always ahead (b,)."""
    packed = study.packed
    assert packed.gaps is not None
    place = packed.offsets[at, None] + np.arange(SEEN)
    present = place < packed.offsets[at + 1, None]
    gaps = np.moveaxis(packed.gaps[:, np.where(present, place, 0)], 0, 2).astype(np.float32)
    return (
        torch.from_numpy(gaps),
        torch.from_numpy(present),
        torch.from_numpy(packed.always_ahead[at].astype(np.float32)),
    )


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="DATASET=FOLDER…")
@click.option("--jobs", default=1, show_default=True, help="Workers.")
@click.option("--output", type=click.Path(path_type=Path), help="JSON file to write.  [default: stdout]")
def main(sources: tuple[str, ...], jobs: int, output: Path | None) -> None:
    """Compare weights that see more than the relation with weights that do not."""
    rows = []
    for source in sources:
        dataset, _, folder = source.partition("=")
        study = Study(dataset, Path(folder), jobs)
        chosen = study.with_choice()
        plain = chosen.plain()

        reference = {"data": dataset, "input": chosen.input.name, "kappa": str(chosen.kappa), "plain": plain}

        def keep(title: str, mrr: float, reference: dict[str, Any] = reference) -> None:
            rows.append({**reference, "weights": title, "mrr": mrr})
            say(f"{reference['data']}, {title}: {mrr:.5f}, {mrr - reference['plain']:+.5f}")

        for title, values in chosen.properties.items():
            for parts in PARTS:
                keep(f"groups cut in {parts} by {title}", chosen.refined(cut(values, chosen.group, parts)))
        for hidden in HIDDEN:
            keep(f"gate with {hidden} hidden units" if hidden else "linear gate", study.gated(hidden))
    settings = {"kappa": KAPPA, "kappas": KAPPAS, "jobs": jobs, "gate": [SEEN, BATCH, EPOCHS, RATE, DECAY, SMOOTH]}
    write({"benchmark": "gates", "settings": settings, "environment": describe(), "rows": rows}, output)


if __name__ == "__main__":
    main()
