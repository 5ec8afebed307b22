"""Splits: hold out triples for validation and test, reproducibly, so that train still knows all of their labels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from relens.data.preparation.facts import Facts
from relens.data.preparation.settings import Size, SplitSettings
from relens.data.queries import EVALUATED
from relens.errors import DatasetError, counted, nearest
from relens.seeding import generator

DEFAULT_SHARE, DEFAULT_MOST = 0.1, 20_000
_BLOCK = 2**14

Rows = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Split:
    """Which rows of some facts go where; rows of a split by time may go nowhere.

    Attributes:
        rows: the rows of train, and of each split that was asked for, ascending except those of a split by time.
        notes: sentences that say what was decided.
    """

    rows: dict[str, Rows]
    notes: tuple[str, ...]


def split_facts(facts: Facts, relations: Sequence[str], settings: SplitSettings, splits: Sequence[str]) -> Split:
    """Hold out distinct facts for the given ``splits`` (valid, test or both); the rest is train.

    The choice depends on the facts, whose ids follow the sorted labels, and on the seed; not on the order of a file.
    """
    eligible = _eligible(facts, relations, settings)
    sizes = _sizes(int(eligible.sum()), settings, splits)
    if facts.times is not None:
        return _by_time(facts, eligible, sizes, settings)
    held = _held_out(facts.triples, eligible, sum(sizes.values()), settings)
    wanted, notes = sum(sizes.values()), []
    if len(held) < wanted:
        shared = _shared(len(held), sizes)
        if any(getattr(settings, split) is not None for split in splits) or not all(shared.values()):
            raise DatasetError(_too_few(len(held), int(eligible.sum()), sizes))
        sizes = shared
        notes.append(
            f"held out {counted(len(held), 'triple')} instead of {wanted:,}: each further one has an entity or a "
            f"relation that train would lack"
        )
    taken = np.zeros(len(facts), dtype=bool)
    taken[held] = True
    rows = {"train": np.flatnonzero(~taken), **_divided(held, facts.triples[held, 1], sizes, settings)}
    return Split(rows, (*notes, _summary(rows, settings)))


def _eligible(facts: Facts, relations: Sequence[str], settings: SplitSettings) -> Bools:
    """Return which facts may be held out, (n,)."""
    if not settings.hold_out:
        return np.ones(len(facts), dtype=bool)
    numbers = {label: number for number, label in enumerate(relations)}
    for label in settings.hold_out:
        if label not in numbers:
            raise DatasetError(f"cannot hold out the unknown relation {label!r}; {nearest(label, relations)}")
    return np.isin(facts.triples[:, 1], [numbers[label] for label in settings.hold_out])


def _sizes(n_eligible: int, settings: SplitSettings, splits: Sequence[str]) -> dict[str, int]:
    """Return how many triples each split gets."""
    sizes = {split: _count(getattr(settings, split), n_eligible) for split in splits}
    asked = " and ".join(f"{n:,} for {split}" for split, n in sizes.items())
    if sum(sizes.values()) > n_eligible:
        raise DatasetError(
            f"cannot hold out {asked}: only {counted(n_eligible, 'distinct triple')} may be held out. Ask for fewer."
        )
    for split, n in sizes.items():
        if not n and getattr(settings, split) != 0:
            raise DatasetError(
                f"{counted(n_eligible, 'distinct triple')} that may be held out give no triple for {split}: name a "
                f"count, as in `{split}=1`"
            )
    return sizes


def _count(size: Size | None, n_eligible: int) -> int:
    """Return the number of triples that a size stands for; a share is rounded to the nearest number."""
    if size is None:
        return min(DEFAULT_MOST, max(1, round(DEFAULT_SHARE * n_eligible)))
    return round(size * n_eligible) if size < 1 else int(size)


def _held_out(triples: npt.NDArray[np.int32], eligible: Bools, wanted: int, settings: SplitSettings) -> Rows:
    """Return rows to hold out in random order, ``wanted`` or as many as the constraints allow.

    Rows are tried in random order, and each one is taken unless train would lose an entity or a relation. What is left
    in the end cannot be taken either, as train only shrinks. With ``stratify``, each relation is tried up to its share
    first; others make up for relations that fall short.
    """
    rng = generator(settings.seed, "split")
    order = rng.permutation(np.flatnonzero(eligible))
    quota = None
    if settings.stratify:
        relation = triples[order, 1]
        quota = np.bincount(relation[_evenly(relation, wanted)], minlength=int(triples[:, 1].max()) + 1)
    train = _Train(triples, settings)
    taken = train.take(order, wanted, quota)
    if quota is not None and len(taken) < wanted:
        left = order[~np.isin(order, taken)]
        taken = np.concatenate([taken, train.take(left, wanted - len(taken), None)])
    return taken


class _Train:
    """What is left in train: how often each entity and relation occurs."""

    def __init__(self, triples: npt.NDArray[np.int32], settings: SplitSettings) -> None:
        self._triples = triples
        self._free = settings.allow_unseen
        self._left = len(triples)
        self._entities = np.bincount(triples[:, [0, 2]].reshape(-1)).tolist()
        self._relations = np.bincount(triples[:, 1]).tolist()

    def take(self, order: Rows, wanted: int, quota: npt.NDArray[np.int64] | None) -> Rows:
        """Take up to ``wanted`` rows in this order, and no more of a relation than its quota."""
        rest = None if quota is None else quota.tolist()
        taken: list[int] = []
        for begin in range(0, len(order), _BLOCK):
            some = order[begin : begin + _BLOCK]
            for row, (head, relation, tail) in zip(some.tolist(), self._triples[some].tolist(), strict=True):
                if len(taken) == wanted:
                    return np.array(taken, dtype=np.intp)
                if (rest is None or rest[relation]) and self._removed(head, relation, tail):
                    taken.append(row)
                    if rest is not None:
                        rest[relation] -= 1
        return np.array(taken, dtype=np.intp)

    def _removed(self, head: int, relation: int, tail: int) -> bool:
        """Remove a triple from train and return True, unless train would lack one of its labels."""
        entities, relations = self._entities, self._relations
        if self._free:
            self._left -= 1
            return self._left > 0
        least = 3 if head == tail else 2
        if entities[head] < least or entities[tail] < least or relations[relation] < 2:
            return False
        entities[head] -= 1
        entities[tail] -= 1
        relations[relation] -= 1
        return True


def _evenly(relation: npt.NDArray[np.int32], wanted: int) -> Rows:
    """Return ``wanted`` positions of n rows, so that each relation has its share of them up to one."""
    order = np.argsort(relation, kind="stable")
    steps = np.arange(len(order) + 1) * wanted // max(len(order), 1)
    return order[steps[1:] > steps[:-1]]


def _divided(
    held: Rows, relation: npt.NDArray[np.int32], sizes: dict[str, int], settings: SplitSettings
) -> dict[str, Rows]:
    """Divide held-out rows among the splits."""
    order = generator(settings.seed, "split", "divide").permutation(len(held))
    (last, n_last), *before = reversed(sizes.items())
    chosen = order[_evenly(relation[order], n_last)] if settings.stratify else order[:n_last]
    is_last = np.zeros(len(held), dtype=bool)
    is_last[chosen] = True
    found = {last: np.sort(held[is_last])}
    for split, _ in before:
        found[split] = np.sort(held[~is_last])
    return {split: found[split] for split in sizes}


def _shared(n: int, sizes: dict[str, int]) -> dict[str, int]:
    """Share fewer triples out in the proportion of the sizes."""
    splits = list(sizes)
    first = round(n * sizes[splits[0]] / sum(sizes.values()))
    return dict(zip(splits, (first, n - first), strict=False)) if len(splits) > 1 else {splits[0]: n}


def _by_time(facts: Facts, eligible: Bools, sizes: dict[str, int], settings: SplitSettings) -> Split:
    """Hold out the latest facts; train has nothing that is later than what is held out.

    Facts of the same time are in random order. Held-out facts with a label that train lacks are left out, unless
    unseen labels are allowed.
    """
    assert facts.times is not None
    rows = generator(settings.seed, "split").permutation(np.flatnonzero(eligible))
    rows = rows[np.argsort(facts.times[rows], kind="stable")]
    n_train = len(rows) - sum(sizes.values())
    found: dict[str, Rows] = {}
    end = len(rows)
    for split in reversed(list(sizes)):
        found[split] = rows[end - sizes[split] : end]
        end -= sizes[split]
    begin = facts.times[rows[n_train]] if n_train < len(rows) else np.inf
    others = np.flatnonzero(~eligible)
    train = np.sort(np.concatenate([rows[:n_train], others[facts.times[others] <= begin]]))
    if not len(train):
        raise DatasetError("the split by time leaves no triple for train: ask for smaller splits")
    notes = []
    if later := int((facts.times[others] > begin).sum()):
        notes.append(f"left out {counted(later, 'triple')} of other relations that are later than train")
    if not settings.allow_unseen:
        for split in sizes:
            known = known_rows(facts.triples[found[split]], facts.triples[train])
            if unknown := int((~known).sum()):
                notes.append(
                    f"left out {unknown:,} of the {counted(len(known), f'{split} triple')}: train, which is earlier, "
                    f"lacks an entity or a relation of them (`allow_unseen=True` keeps them)"
                )
            found[split] = found[split][known]
            if sizes[split] and not len(found[split]):
                raise DatasetError(
                    f"all {counted(sizes[split], f'{split} triple')} have an entity or a relation that train, which is "
                    f"earlier, lacks: ask for larger splits, or pass `allow_unseen=True`"
                )
    split_rows = {"train": train, **{split: found[split] for split in sizes}}
    return Split(split_rows, (*notes, f"{_summary(split_rows, settings)}; the latest triples are held out"))


def known_rows(triples: npt.NDArray[np.int32], train: npt.NDArray[np.int32]) -> Bools:
    """Return which of the triples (n, 3) have only entities and relations that occur in train."""
    found = np.ones(len(triples), dtype=bool)
    for mine, theirs in ((0, [0, 2]), (2, [0, 2]), (1, [1])):
        seen = np.zeros(1 + max((int(rows.max()) for rows in (triples, train) if rows.size), default=0), dtype=bool)
        seen[train[:, theirs]] = True
        found &= seen[triples[:, mine]]
    return found


def _too_few(n: int, n_eligible: int, sizes: dict[str, int]) -> str:
    asked = " and ".join(f"{size:,} for {split}" for split, size in sizes.items())
    return (
        f"cannot hold out {asked}: with this seed, train keeps all entities and relations only if at most {n:,} of the "
        f"{counted(n_eligible, 'distinct triple')} are held out. Ask for fewer, or pass `allow_unseen=True`."
    )


def _summary(rows: dict[str, Rows], settings: SplitSettings) -> str:
    """Say how large the splits are."""
    assert set(rows) <= {"train", *EVALUATED}
    sizes = ", ".join(f"{split} {len(found):,}" for split, found in rows.items())
    only = f"; only triples of {', '.join(map(repr, settings.hold_out))} are held out" if settings.hold_out else ""
    how = "; the same share of each relation" if settings.stratify else ""
    return f"split with seed {settings.seed}: {sizes}{only}{how}"
