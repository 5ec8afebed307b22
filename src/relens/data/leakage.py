"""Leakage: relations that are the inverse or a near-duplicate of another one, and the triples that they give away.

A rule says that triples of one relation nearly always come with triples of another one about the same two entities. If
train has the first, a model reads the second off it, as in FB15k and WN18 (Toutanova and Chen 2015, Akrami et al.
2020).
All steps sort the pairs of entities: no array has relations-squared elements.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset, distinct_rows

NEARLY = 0.8
"""Share of a relation's facts that must have a counterpart (the threshold of Akrami et al. 2020)."""
SUPPORT = 5
"""Fewest facts with a counterpart: fewer may coincide by chance."""
MOST_FACTS = 100
"""Two entities with more facts between them say nothing about which relations belong together."""
_BLOCK = 2**18

Bools = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rules:
    """K rules "a fact of ``source`` has a counterpart of ``target``", sorted by the key of ``_rule_key``.

    Attributes:
        source: relation ids, (K,) int64.
        target: relation ids, (K,) int64. It equals ``source`` for a symmetric relation.
        inverse: whether the counterpart swaps the two entities, (K,) bool.
        counterparts: how many facts of the source have a counterpart, (K,) int64.
        share: their share of the facts of the source, (K,) float64.
        n_relations: the number of relations R.
    """

    source: Ids
    target: Ids
    inverse: Bools
    counterparts: Ids
    share: npt.NDArray[np.float64]
    n_relations: int

    def __len__(self) -> int:
        return len(self.source)

    @property
    def symmetric(self) -> Bools:
        """Which rules say that a relation is symmetric, (K,)."""
        found: Bools = self.source == self.target
        return found

    @property
    def keys(self) -> Ids:
        """The distinct keys of the rules, ascending."""
        return _rule_key(self.source, self.target, self.inverse, self.n_relations)


@dataclass(frozen=True)
class Given:
    """Which of n triples train gives away, by kind; a triple may have several. Each mask is (n,) bool.

    Attributes:
        repeated: train has the triple itself.
        inverse: train has a counterpart with swapped entities, by a rule about two relations.
        duplicate: train has a counterpart in the same direction, by a rule about two relations.
        symmetric: train has the mirror image, by a rule about one relation.
        linked: train links the two entities, in any direction by any relation.
    """

    repeated: Bools
    inverse: Bools
    duplicate: Bools
    symmetric: Bools
    linked: Bools

    def __getitem__(self, rows: slice) -> "Given":
        return Given(*(getattr(self, field.name)[rows] for field in fields(self)))

    @property
    def by_pairs(self) -> Bools:
        """The triples with an inverse or a duplicate in train."""
        return self.inverse | self.duplicate


def find_rules(triples: npt.NDArray[Any], n_relations: int) -> Rules:
    """Return the rules that hold among triples (n, 3) of ids; repeated triples count once, loops not at all."""
    facts = distinct_rows(triples[triples[:, 0] != triples[:, 2]])
    pairs = _Pairs.of(facts, few=MOST_FACTS)
    size = np.bincount(pairs.relation, minlength=n_relations)
    one, other, inverse, count = _counterparts(pairs, n_relations)
    symmetric = one == other
    count = np.where(symmetric, 2 * count, count)  # both facts of a pair have the other one
    two = ~symmetric
    source, target = np.concatenate([one, other[two]]), np.concatenate([other, one[two]])
    inverse, count = np.concatenate([inverse, inverse[two]]), np.concatenate([count, count[two]])
    share = count / np.maximum(size[source], 1)
    holds = np.flatnonzero((share >= NEARLY) & (count >= SUPPORT))
    order = holds[np.argsort(_rule_key(source[holds], target[holds], inverse[holds], n_relations))]
    return Rules(source[order], target[order], inverse[order], count[order], share[order], n_relations)


def given_away(triples: npt.NDArray[Any], train: npt.NDArray[Any], rules: Rules) -> Given:
    """Return which of the triples (n, 3) train gives away."""
    pairs = _Pairs.of(distinct_rows(train))
    n = len(triples)
    masks = {field.name: np.zeros(n, dtype=bool) for field in fields(Given)}
    for row, source, swapped in pairs.matches(triples):
        head, target, tail = triples[row].astype(np.int64).T
        loop, same = head == tail, source == target
        masks["repeated"][row[same & ~swapped]] = True
        masks["linked"][row[~loop]] = True
        applies = np.isin(_rule_key(source, target, swapped, rules.n_relations), rules.keys) & ~loop
        masks["symmetric"][row[applies & same]] = True
        masks["inverse"][row[applies & ~same & swapped]] = True
        masks["duplicate"][row[applies & ~same & ~swapped]] = True
    return Given(**masks)


def dataset_rules(dataset: Dataset) -> Rules:
    """Return the rules among the facts of all splits of a data set."""
    return find_rules(np.concatenate(list(dataset.splits.values())), len(dataset.relations))


def redundant_relations(rules: Rules, size: npt.NDArray[Any], labels: tuple[str, ...]) -> list[int]:
    """Return the relations to drop so that no rule about two relations is left; the larger ones stay.

    ``size`` is the number of facts of each relation, (R,). Of equally large ones, the first label stays.
    """
    partners: dict[int, set[int]] = {}
    for source, target in zip(rules.source.tolist(), rules.target.tolist(), strict=True):
        if source != target:
            partners.setdefault(source, set()).add(target)
            partners.setdefault(target, set()).add(source)
    kept: set[int] = set()
    for relation in sorted(partners, key=lambda r: (-int(size[r]), labels[r])):
        if kept.isdisjoint(partners[relation]):
            kept.add(relation)
    return sorted(partners.keys() - kept)


def _rule_key(source: Ids, target: Ids, inverse: Bools, n_relations: int) -> Ids:
    return (source * n_relations + target) * 2 + inverse


@dataclass(frozen=True)
class _Pairs:
    """Distinct facts, sorted by their unordered pair of entities.

    ``key`` is the pair, ``relation`` the relation, ``falling`` whether the head has the higher id; each is (n,).
    """

    key: Ids
    relation: Ids
    falling: Bools

    @classmethod
    def of(cls, facts: npt.NDArray[Any], few: int | None = None) -> "_Pairs":
        """Build from (n, 3); with ``few``, leave out pairs of entities with more facts than that."""
        head, relation, tail = facts.astype(np.int64).T
        key = _pair_key(head, tail)
        order = np.argsort(key, kind="stable")
        if few is not None:
            key = key[order]
            begins = np.flatnonzero(np.diff(key, prepend=-1))
            facts_of = np.diff(np.append(begins, len(key)))
            order = order[np.repeat(facts_of <= few, facts_of)]
            key = _pair_key(head, tail)
        return cls(key[order], relation[order], (head > tail)[order])

    def matches(self, triples: npt.NDArray[Any]) -> Iterator[tuple[npt.NDArray[np.intp], Ids, Bools]]:
        """Yield, in blocks, the facts about the same entities as each triple.

        Each block has the row of the triple, the relation of the fact, and whether the fact swaps the entities.
        """
        head, _, tail = triples.astype(np.int64).T
        key = _pair_key(head, tail)
        begin, end = np.searchsorted(self.key, key), np.searchsorted(self.key, key, side="right")
        total = np.concatenate([[0], np.cumsum(end - begin)])
        first = 0
        while first < len(key):
            last = max(first + 1, int(np.searchsorted(total, total[first] + _BLOCK, side="right")) - 1)
            n = (end - begin)[first:last]
            row = np.repeat(np.arange(first, last), n)
            fact = np.arange(len(row)) + np.repeat(begin[first:last] - (total[first:last] - total[first]), n)
            yield row, self.relation[fact], self.falling[fact] != (head > tail)[row]
            first = last


def _pair_key(head: Ids, tail: Ids) -> Ids:
    """Return a key of two entities in any order; ids are below 2^31."""
    return (np.minimum(head, tail) << 31) | np.maximum(head, tail)


def _counterparts(pairs: _Pairs, n_relations: int) -> tuple[Ids, Ids, Bools, Ids]:
    """Return each two relations that share pairs of entities: one, other, whether inverse, and how many pairs."""
    keys: list[Ids] = []
    counts: list[Ids] = []
    left, distance = np.arange(len(pairs.key) - 1), 1
    while len(left):
        left = left[pairs.key[left] == pairs.key[left + distance]]
        one, other = pairs.relation[left], pairs.relation[left + distance]
        inverse = pairs.falling[left] != pairs.falling[left + distance]
        found = np.unique(
            _rule_key(np.minimum(one, other), np.maximum(one, other), inverse, n_relations), return_counts=True
        )
        keys.append(found[0])
        counts.append(found[1])
        distance += 1
        left = left[left + distance < len(pairs.key)]
    if not keys:
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing, nothing.astype(bool), nothing
    key, place = np.unique(np.concatenate(keys), return_inverse=True)
    count = np.bincount(place, weights=np.concatenate(counts), minlength=len(key)).astype(np.int64)
    relations, inverse = key // 2, (key % 2).astype(bool)
    return relations // n_relations, relations % n_relations, inverse, count
