"""Facts: which answers of a query the data set states, and where."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from relens.data.dataset import SPLITS, Dataset
from relens.data.queries import Queries


@dataclass(frozen=True, eq=False)
class Facts:
    """All facts of a data set, from both ends, F in total.

    Attributes:
        n_relations: number of relations.
        keys: one number per (anchor, relation, direction), sorted, (F,) int64.
        answers: ids of the answers, (F,) int32.
        splits: positions in ``SPLITS``, ascending within a key, (F,) int8.
    """

    n_relations: int
    keys: npt.NDArray[np.int64]
    answers: npt.NDArray[np.int32]
    splits: npt.NDArray[np.int8]

    @classmethod
    def of_dataset(cls, dataset: Dataset) -> Self:
        """Index the facts of all splits."""
        parts = [dataset.queries(split) for split in SPLITS]
        queries = Queries.from_columns(np.concatenate([part.columns() for part in parts], axis=1))
        splits = np.repeat(np.arange(len(SPLITS), dtype=np.int8), [len(part) for part in parts])
        keys = (queries.anchor.astype(np.int64) * len(dataset.relations) + queries.relation) * 2 + queries.direction
        order = np.argsort(keys, kind="stable")
        return cls(len(dataset.relations), keys[order], queries.answer[order], splits[order])

    def answers_to(self, anchor: int, relation: int, direction: int) -> dict[int, str]:
        """Return the known answers of a query by id, each with the first split that states it."""
        key = (anchor * self.n_relations + relation) * 2 + direction
        begin, end = np.searchsorted(self.keys, [key, key + 1])
        # Later entries win in a dictionary: go backwards, so that train wins over valid and test.
        found = zip(self.answers[begin:end][::-1].tolist(), self.splits[begin:end][::-1].tolist(), strict=True)
        return {answer: SPLITS[split] for answer, split in found}
