"""A graph with a complete and an incomplete relation, and two models whose scores are made up."""

from types import SimpleNamespace

import numpy as np

from relens.data.dataset import Dataset
from relens.data.grouping import Grouping
from relens.ensemble.weights import EnsembleWeights
from relens.prediction.judging import Panel

SIZE = 40
KINDS = 4
"""An entity is related to those of its kind, by both relations."""


def facts(relation: str) -> list[tuple[str, str, str]]:
    return [
        (f"e{h:02}", relation, f"e{t:02}")
        for h in range(SIZE)
        for t in range(SIZE)
        if h % KINDS == t % KINDS and h != t
    ]


def graph(seed: int = 0) -> Dataset:
    """Return a graph that has all of ``complete`` in train; of ``open``, valid and test have a tenth each."""
    rows = facts("open")
    order = np.random.default_rng(seed).permutation(len(rows)).tolist()
    tenth = len(rows) // 10
    parts = [[rows[i] for i in order[begin:end]] for begin, end in ((0, tenth), (tenth, 2 * tenth), (2 * tenth, None))]
    return Dataset.from_labels("kinds", train=[*parts[2], *facts("complete")], valid=parts[0], test=parts[1])


class Scorer:
    """Scores: facts in train lead those held out a little, and all others by far."""

    rows = 16

    def __init__(self, dataset: Dataset, noise: float = 0.5) -> None:
        self.dataset, self.noise = dataset, noise

    def scores(self, name: str, queries):
        offset = {"first": 0, "second": 1}[name]
        found = np.empty((len(queries), SIZE), dtype=np.float32)
        for row, (a, r, d) in enumerate(zip(queries.anchor, queries.relation, queries.direction, strict=True)):
            rng = np.random.default_rng([offset, int(a), int(r), int(d)])
            split_of = self.dataset.stated_answers.answers_to(int(a), int(r), int(d))
            base = np.zeros(SIZE)
            for entity, split in split_of.items():
                base[entity] = 4.0 if split == "train" else 3.0
            found[row] = base + self.noise * rng.standard_normal(SIZE)
        return found


def weights_of(dataset: Dataset, row: tuple[int, int] = (2, 1), input: str = "score") -> EnsembleWeights:
    relations = dataset.relations.labels
    grouping = Grouping.by_relation_and_direction(relations)
    n = len(grouping)
    return EnsembleWeights(
        models=("first", "second"),
        relations=relations,
        grouping=grouping,
        table=np.tile(np.array(row), (n, 1)),
        own=np.ones(n, dtype=bool),
        fallback=np.array([1, 1]),
        support=np.zeros(n, dtype=np.int64),
        input=input,
        dataset=("kinds", dataset.fingerprint),
        gap_scales=np.array([2.0**-16, 2.0**-15]),
        fitted_on="ranks",
    )


def panel_of(dataset: Dataset, *sets: EnsembleWeights) -> Panel:
    sets = sets or (weights_of(dataset),)
    return Panel(Scorer(dataset), dataset, sets[0].grouping.table, np.array([1.0, 2.0]), sets)


RUN = SimpleNamespace(made_by=lambda: {"models": {"first": "1", "second": "2", "third": "3"}})
"""What ``made_from`` asks a run for."""
