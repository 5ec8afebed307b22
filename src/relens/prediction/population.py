"""Questions that stand for all questions of a graph: a sample of (anchor, relation, direction), with weights."""

from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset
from relens.data.queries import DIRECTIONS, Queries, query_key
from relens.seeding import generator


class SampleSize(NamedTuple):
    """How many questions are sampled.

    Attributes:
        answered: most questions with known answers, but for ``least``.
        unanswered: most questions without known answers, and as many of those with a hidden one, but for ``least``.
        least: questions of each kind that every relation and direction gets, if it has so many.
    """

    answered: int = 3000
    unanswered: int = 1500
    least: int = 5


SIZE = SampleSize()


class Population(NamedTuple):
    """A sample of q questions, each for ``weight`` questions of the graph.

    Attributes:
        anchor, relation, direction: ids, (q,) int64; direction is 0 for tails, 1 for heads.
        weight: how many questions each stands for, (q,) float64.
    """

    anchor: npt.NDArray[np.int64]
    relation: npt.NDArray[np.int64]
    direction: npt.NDArray[np.int64]
    weight: npt.NDArray[np.float64]

    @classmethod
    def sample(
        cls,
        dataset: Dataset,
        known: tuple[str, ...],
        hidden: str,
        seed: int = 0,
        size: SampleSize = SIZE,
    ) -> Self:
        """Sample questions with known answers, and questions of any entity and relation without.

        Questions with known answers are drawn by relation and direction, in proportion to the square root of their
        number. Questions without are drawn alike for every relation and direction, those with a hidden answer apart.

        Args:
            dataset: the graph.
            known: the splits whose answers are known.
            hidden: the split whose answers are to be found.
            seed: root of the randomness.
            size: how many to sample.
        """
        shape = len(dataset.entities), len(dataset.relations)
        with_known = _question_keys(dataset, known)
        with_hidden = np.setdiff1d(_question_keys(dataset, (hidden,)), with_known)
        fewer = size._replace(answered=size.unanswered)
        parts = [
            _drawn(with_known, shape[1], size, generator(seed, "questions", "answered")),
            _drawn(with_hidden, shape[1], fewer, generator(seed, "questions", "hidden")),
            _unasked(np.union1d(with_known, with_hidden), shape, size, generator(seed, "questions", "others")),
        ]
        keys = np.concatenate([keys for keys, _ in parts])
        place, direction = np.divmod(keys, len(DIRECTIONS))
        anchor, relation = np.divmod(place, shape[1])
        return cls(anchor, relation, direction, np.concatenate([weight for _, weight in parts]))

    def __len__(self) -> int:
        return len(self.anchor)


Drawn = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
"""Keys of questions, sorted, and how many questions each stands for; (k,) each."""


def _question_keys(dataset: Dataset, splits: tuple[str, ...]) -> npt.NDArray[np.int64]:
    """Return the keys of all questions that some splits answer, sorted, each once."""
    queries = Queries.from_triples(np.concatenate([dataset.splits[split] for split in splits]))
    keys: npt.NDArray[np.int64] = np.unique(
        query_key(queries.anchor.astype(np.int64), queries.relation, queries.direction, len(dataset.relations))
    )
    return keys


def _drawn(keys: npt.NDArray[np.int64], n_relations: int, size: SampleSize, rng: np.random.Generator) -> Drawn:
    """Draw about ``size.answered`` of the keys, from each relation and direction by the square root of its number."""
    group = keys % (2 * n_relations)
    sizes = np.bincount(group, minlength=2 * n_relations)
    if len(keys) <= size.answered:
        return keys, np.ones(len(keys))
    wanted = np.minimum(sizes, np.maximum(size.least, np.sqrt(sizes) * _factor(sizes, size.answered)).astype(np.int64))
    order = np.lexsort((rng.random(len(keys)), group))
    number = np.arange(len(keys)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    chosen = np.sort(order[number < np.repeat(wanted, sizes)])
    return keys[chosen], (sizes / np.maximum(1, wanted))[group[chosen]]


def _factor(sizes: npt.NDArray[np.int64], most: int) -> float:
    """Return the factor of the square roots of the sizes with which ``most`` are drawn in total, by bisection."""
    low, high = 0.0, float(most)
    for _ in range(60):
        middle = (low + high) / 2
        if np.minimum(sizes, np.sqrt(sizes) * middle).sum() < most:
            low = middle
        else:
            high = middle
    return low


def _unasked(
    answered: npt.NDArray[np.int64], shape: tuple[int, int], size: SampleSize, rng: np.random.Generator
) -> Drawn:
    """Draw equally many questions of each relation and direction that have no answer, ``size.unanswered`` or more.

    Args:
        answered: the keys of all questions with an answer, sorted.
        shape: the number of entities and of relations.
        size: how many to draw.
        rng: the randomness.
    """
    n_entities, n_relations = shape
    n_groups = 2 * n_relations
    each = min(n_entities, max(size.least, -(-size.unanswered // n_groups)))
    group = np.repeat(np.arange(n_groups), each)
    anchor = np.concatenate([rng.choice(n_entities, each, replace=False) for _ in range(n_groups)])
    keys = anchor * n_groups + group
    free = ~np.isin(keys, answered)
    keys, group = keys[free], group[free]
    left = n_entities - np.bincount(answered % n_groups, minlength=n_groups)
    drawn = np.bincount(group, minlength=n_groups)
    order = np.argsort(keys)
    return keys[order], (left / np.maximum(1, drawn))[group[order]]
