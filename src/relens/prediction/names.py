"""Names in: from what a person types to ids, with the closest names where none fits."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cached_property
from heapq import nlargest

from relens.data.dataset import Dataset
from relens.errors import DatasetError, InputError, nearest

COMPARED = 300
"""Labels that a name is compared with letter by letter; in large vocabularies those with most in common."""

OFFERED = 3
"""Names offered in place of one that does not exist."""


class NoSuchNameError(DatasetError):
    """A name that nothing in the graph has.

    Attributes:
        choices: names that resemble it, the most alike first.
    """

    def __init__(self, message: str, choices: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.choices = tuple(choices)


class AmbiguousNameError(DatasetError):
    """A name that several entities or relations have.

    Attributes:
        choices: their labels.
    """

    def __init__(self, message: str, choices: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.choices = tuple(choices)


class Names:
    """The names of a data set: labels of relations and entities, and readable names where there are any.

    A label is understood as it is, and in any case where only one fits; so is a readable name.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def entity(self, text: str) -> int:
        """Return the id of an entity by its label or readable name."""
        if text in self.dataset.entities:
            return self.dataset.entities.id_of(text)
        labels = self.dataset.entities.labels
        return _only("entity", "entities", text, self._entities, labels, [*labels, *self._readable.values()])

    def relation(self, text: str) -> int:
        """Return the id of a relation by its label."""
        if text in self.dataset.relations:
            return self.dataset.relations.id_of(text)
        labels = self.dataset.relations.labels
        return _only("relation", "relations", text, self._relations, labels, labels)

    @cached_property
    def _readable(self) -> dict[int, str]:
        """Readable names by entity id."""
        entities = self.dataset.entities
        return {entities.id_of(label): name for label, name in self.dataset.names.items() if label in entities}

    @cached_property
    def _entities(self) -> dict[str, list[int]]:
        return _by_folded([*enumerate(self.dataset.entities.labels), *self._readable.items()])

    @cached_property
    def _relations(self) -> dict[str, list[int]]:
        return _by_folded(enumerate(self.dataset.relations.labels))


def _by_folded(names: Iterable[tuple[int, str]]) -> dict[str, list[int]]:
    """Return ids by name without case; an id that has a name twice counts once."""
    found: dict[str, dict[int, None]] = {}
    for number, name in names:
        found.setdefault(name.casefold(), {})[number] = None
    return {name: list(ids) for name, ids in found.items()}


def _only(
    kind: str, kinds: str, text: str, by_folded: dict[str, list[int]], labels: Sequence[str], known: Sequence[str]
) -> int:
    """Return the only id that has a name, whatever the case, or say which there are."""
    ids = by_folded.get(text.casefold(), [])
    if len(ids) == 1:
        return ids[0]
    if ids:
        found = [labels[number] for number in ids]
        shown = ", ".join(map(repr, found[:5])) + (", …" if len(found) > 5 else "")
        raise AmbiguousNameError(
            f"{len(found)} {kinds} are called {text!r}: {shown}. Give the label of one of them.", found
        )
    choices = closest(text, known)
    raise NoSuchNameError(f"unknown {kind} {text!r}; {nearest(text[:200], choices or known)}", choices)


def closest(text: str, known: Sequence[str]) -> list[str]:
    """Return the names most like a text, in a fraction of a second even where 100,000 names are known."""
    wanted = text[:200]
    if len(known) > COMPARED:
        pieces = {wanted[at : at + 3] for at in range(max(1, len(wanted) - 2))}
        pieces |= {piece.lower() for piece in pieces} | {piece.upper() for piece in pieces}
        known = nlargest(COMPARED, known, key=lambda name: sum(piece in name for piece in pieces))
    by_folded = {name.casefold(): name for name in known}
    return [by_folded[found] for found in get_close_matches(wanted.casefold(), by_folded, n=OFFERED, cutoff=0.6)]


def the_direction(head: str | None, tail: str | None) -> int:
    """Return 0 where the head is given and tails are asked for, 1 the other way round."""
    if (head is None) == (tail is None):
        found = "neither" if head is None else "both"
        raise InputError(f"found {found} of head and tail: give the one that is known, the other is asked for")
    return 0 if tail is None else 1
