"""Look up entities, relations and weights by label, without running a model."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from relens.data.dataset import Dataset
from relens.data.queries import DIRECTIONS, HEAD, TAIL
from relens.data.vocabulary import Vocabulary
from relens.ensemble.weights import EnsembleWeights
from relens.prediction import AmbiguousNameError, Names, NoSuchNameError
from relens.serve.refusals import ambiguous, unknown


class GraphLookup:
    """A data set and the weights of its ensemble, indexed by label."""

    def __init__(self, dataset: Dataset, weights: EnsembleWeights) -> None:
        self.dataset, self.weights = dataset, weights
        self._names = Names(dataset)
        self.entity_names = self._names.entities  # built now, not during the first request
        self._triples = np.concatenate(list(dataset.splits.values()))  # (n, 3) head, relation, tail
        self._shares = weights.normalised()  # (G, N)
        self._place = {label: place for place, label in enumerate(weights.relations)}
        self.relations = self._relations()

    def known_entity(self, typed: str, where: str = "") -> str:
        """Return the label of an entity by any of its names, or refuse the name; ``where`` begins the message."""
        with _refused("entity", "entities", typed, where):
            return self.dataset.entities.labels[self._names.entity(typed)]

    def known_relation(self, typed: str, where: str = "") -> str:
        """Return the label of a relation, or refuse an unknown one; ``where`` begins the message."""
        with _refused("relation", "relations", typed, where):
            return self.dataset.relations.labels[self._names.relation(typed)]

    def entity(self, label: str) -> dict[str, str | None]:
        """Return the label of an entity and its readable name, None if it has none."""
        return {"label": label, "name": self.dataset.names.get(label)}

    def facts(self, label: str) -> dict[str, Any]:
        """Count the triples of an entity by relation, as head and as tail, most frequent first."""
        number = self.dataset.entities.id_of(label)
        return {
            **self.entity(label),
            "as_head": self._counts(self._triples[self._triples[:, 0] == number, 1]),
            "as_tail": self._counts(self._triples[self._triples[:, 2] == number, 1]),
        }

    def shares(self, relation: str, direction: str) -> dict[str, float]:
        """Return the share of each model for a relation and direction; they sum to 1."""
        place, side = self._place[relation], HEAD if direction == "head" else TAIL
        group = self.weights.grouping.table[place, side]
        return dict(zip(self.weights.models, self._shares[group].tolist(), strict=True))

    def groups(self, relation: str | None = None) -> list[dict[str, Any]]:
        """Return the weights by relation and direction, of one relation or of all."""
        labels = self.weights.relations if relation is None else [relation]
        return [self._group(label, side) for label in labels for side in (TAIL, HEAD)]

    def _group(self, relation: str, side: int) -> dict[str, Any]:
        number = self.weights.grouping.table[self._place[relation], side]
        return {
            "relation": relation,
            "direction": DIRECTIONS[side],
            "group": self.weights.grouping.labels[number],
            "own": bool(self.weights.own[number]),
            "queries": int(self.weights.support[number]),
            "weights": self.shares(relation, DIRECTIONS[side]),
        }

    def _relations(self) -> list[dict[str, Any]]:
        labels: Vocabulary = self.dataset.relations
        classes = self.dataset.cardinalities
        counts = {
            split: np.bincount(triples[:, 1], minlength=len(labels)).tolist()
            for split, triples in self.dataset.splits.items()
        }
        return [
            {
                "label": label,
                "name": self.dataset.relation_names.get(label),
                "class": classes[r] or None,
                **{split: of[r] for split, of in counts.items()},
                "example": self._example(r),
            }
            for r, label in enumerate(labels.labels)
        ]

    def _example(self, relation: int) -> str | None:
        """Return the head of a triple of valid, of test, or else of train: models have not seen the first two."""
        for split in ("valid", "test", "train"):
            triples = self.dataset.splits[split]
            places = np.flatnonzero(triples[:, 1] == relation)
            if len(places):
                return str(self.dataset.entities.labels[triples[places[0], 0]])
        return None

    def _counts(self, relations: "np.ndarray[Any, Any]") -> list[dict[str, Any]]:
        """Count relation ids (n,) by label."""
        counts = np.bincount(relations, minlength=len(self.dataset.relations))
        order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        labels, names = self.dataset.relations.labels, self.dataset.relation_names
        return [{"relation": labels[r], "name": names.get(labels[r]), "count": int(counts[r])} for r in order]


@contextmanager
def _refused(kind: str, kinds: str, typed: str, where: str) -> Iterator[None]:
    """Turn errors of ``Names`` into refusals."""
    try:
        yield
    except NoSuchNameError as error:
        raise unknown(kind, typed, error.choices, where) from None
    except AmbiguousNameError as error:
        raise ambiguous(kinds, error.choices, where) from None
