"""A scorer as its users write one: campaigns attack runs that have it as a member."""

from typing import Any

import numpy as np
import numpy.typing as npt


class Degrees:
    """Score an entity by how often it answered the same relation and direction in train."""

    def __init__(self, dataset: Any) -> None:
        asked = dataset.queries("train")
        self._counts = np.zeros((len(dataset.relations), 2, len(dataset.entities)), dtype=np.float32)
        np.add.at(self._counts, (asked.relation, asked.direction, asked.answer), 1)

    def score(self, queries: Any) -> npt.NDArray[np.float32]:
        """Return the score of each entity for each of B queries, (B, E)."""
        found: npt.NDArray[np.float32] = self._counts[queries.relation, queries.direction]
        return found
