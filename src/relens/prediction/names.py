"""Names of entities and relations: look up ids by name, and suggest similar names."""

import re
from collections.abc import Sequence
from functools import cached_property

from relens.data.dataset import Dataset
from relens.errors import DatasetError, InputError
from relens.prediction.index import NameIndex

LISTED = 12
"""Names listed if none is similar."""


class NoSuchNameError(DatasetError):
    """A name that no entity or relation of the graph has.

    Attributes:
        choices: similar names, most similar first.
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
    """The names of a data set: labels of relations and entities, and readable names if there are any.

    An exact label wins. Otherwise a label or readable name is found regardless of case, if only one fits.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def entity(self, text: str) -> int:
        """Return the id of an entity by its label or readable name."""
        if text in self.dataset.entities:
            return self.dataset.entities.id_of(text)
        return _only("entity", "entities", text, self.entities, self.dataset.entities.labels)

    def relation(self, text: str) -> int:
        """Return the id of a relation by its label."""
        if text in self.dataset.relations:
            return self.dataset.relations.id_of(text)
        return _only("relation", "relations", text, self.relations, self.dataset.relations.labels)

    @cached_property
    def entities(self) -> NameIndex:
        """Labels and readable names of all entities."""
        entities, names = self.dataset.entities, self.dataset.names
        readable = ((entities.id_of(label), name) for label, name in names.items() if label in entities)
        return NameIndex([*enumerate(entities.labels), *readable])

    @cached_property
    def relations(self) -> NameIndex:
        """Labels of all relations."""
        return NameIndex(enumerate(self.dataset.relations.labels))


def _only(kind: str, kinds: str, text: str, index: NameIndex, labels: Sequence[str]) -> int:
    """Return the only id that has a name, regardless of case; otherwise raise an error that lists names."""
    ids = index.exactly(text)
    if len(ids) == 1:
        return ids[0]
    if ids:
        found = [labels[number] for number in ids]
        shown = ", ".join(map(repr, found[:5])) + (", …" if len(found) > 5 else "")
        raise AmbiguousNameError(
            f"{len(found)} {kinds} are called {text!r}: {shown}. Give the label of one of them.", found
        )
    choices = index.closest(text)
    if choices:
        hint = f"did you mean {' or '.join(map(repr, choices))}?"
    else:
        some = _of_all_kinds(labels)
        hint = f"available: {', '.join(map(repr, some))}" + (", …" if len(some) < len(labels) else "")
    raise NoSuchNameError(f"unknown {kind} {text!r}; {hint}", choices)


def _of_all_kinds(labels: Sequence[str]) -> list[str]:
    """Return a few different labels: one per prefix such as ``site`` of ``site_3_4``, or any if all share one."""
    if len(labels) <= LISTED:
        return list(labels)
    kinds: dict[str, str] = {}
    for label in labels:
        kinds.setdefault(re.split(r"[\W\d_]", label, maxsplit=1)[0], label)
    among = list(kinds.values()) if len(kinds) > 1 else labels
    return [among[place * len(among) // LISTED] for place in range(LISTED)] if len(among) > LISTED else list(among)


def the_direction(head: str | None, tail: str | None) -> int:
    """Return 0 if the head is given and tails are missing, 1 for the opposite."""
    if (head is None) == (tail is None):
        found = "neither" if head is None else "both"
        raise InputError(f"found {found} of `head=…` and `tail=…`: give the known one, the other is predicted")
    return 0 if tail is None else 1
