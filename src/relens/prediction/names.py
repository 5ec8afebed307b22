"""Names of entities and relations: look up ids by name, and suggest similar names."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from heapq import nlargest
from itertools import accumulate, islice

from relens.data.dataset import Dataset
from relens.data.vocabulary import Vocabulary
from relens.errors import DatasetError, InputError

BETWEEN = "\n"  # no name holds a line end

OFFERED = 3
"""Suggestions for an unknown name."""

COMPARED = 300
"""Names that a text is compared with letter by letter; they share its rarest pieces."""

SHARING = 2000
"""Names examined per piece; a piece that more names share says little."""

ALIKE = 0.6
"""Smallest similarity ratio of a suggestion."""

PART = 3
"""Smallest length of a text whose prefix and substring matches are suggested."""

TYPED = 200
"""Characters of a text that are compared."""


class NameIndex:
    """Names of numbered items, joined to one text, so that a search among a hundred thousand names is fast.

    Case does not matter. An item may have several names, and several items may share one.
    """

    def __init__(self, names: Iterable[tuple[int, str]]) -> None:
        spelled = {(name.casefold(), number): name for number, name in names}
        ordered = sorted(spelled)
        self._texts = [text for text, _ in ordered]
        self._numbers = [number for _, number in ordered]
        self._spelled = [spelled[key] for key in ordered]
        self._joined = BETWEEN.join(self._texts)
        self._begins = [0, *accumulate(len(text) + len(BETWEEN) for text in self._texts)]

    def exactly(self, typed: str) -> list[int]:
        """Return the numbers of all items with this name, ascending."""
        typed = typed.casefold()
        begin, end = bisect_left(self._texts, typed), bisect_right(self._texts, typed)
        return sorted(set(self._numbers[begin:end]))

    def matches(self, typed: str, limit: int) -> list[int]:
        """Return at most ``limit`` numbers: first of names that begin with ``typed``, then of names that contain it.

        An empty text matches every name.
        """
        typed = typed.casefold()
        found: dict[int, None] = {}
        place = bisect_left(self._texts, typed)
        while len(found) < limit and place < len(self._texts) and self._texts[place].startswith(typed):
            found[self._numbers[place]] = None
            place += 1
        containing = self._places_with(typed)
        while len(found) < limit and (inside := next(containing, None)) is not None:
            found[self._numbers[inside]] = None
        return list(found)

    def closest(self, typed: str) -> list[str]:
        """Return a few suggestions in their original spelling, the likeliest first.

        In order: names equal up to leading zeros of numbers, names that begin with the text, similar names, names that
        contain it.
        """
        wanted = typed[:TYPED].casefold()
        places = range(len(self._texts)) if len(self._texts) <= COMPARED else self._alike(wanted)
        by_text = {self._texts[place]: self._spelled[place] for place in places}
        alike = _by_likeness(wanted, by_text)
        same = [text for text in alike if _without_zeros(text) == _without_zeros(wanted)]
        found = dict.fromkeys(by_text[text] for text in same)
        if len(wanted) >= PART:
            found |= dict.fromkeys(islice(self._beginning(wanted), OFFERED))
        found |= dict.fromkeys(by_text[text] for text in alike)
        if len(wanted) >= PART:
            found |= dict.fromkeys(self._spelled[place] for place in islice(self._places_with(wanted), OFFERED))
        return list(found)[:OFFERED]

    def _beginning(self, text: str) -> Iterator[str]:
        """Yield the names that begin with a text, in order, in their original spelling."""
        place = bisect_left(self._texts, text)
        while place < len(self._texts) and self._texts[place].startswith(text):
            yield self._spelled[place]
            place += 1

    def _alike(self, wanted: str) -> Iterable[int]:
        """Return the places of the names that share most pieces with a text; rare pieces count more."""
        shared: defaultdict[int, float] = defaultdict(float)
        for piece in _pieces(wanted):
            places = list(islice(self._places_with(piece), SHARING))
            for place in places:
                shared[place] += 1 / len(places)
        return nlargest(COMPARED, shared, key=lambda place: (shared[place], -place))

    def _places_with(self, text: str) -> Iterator[int]:
        """Yield the places of all names that contain a text."""
        at = -1 if BETWEEN in text else self._joined.find(text)
        while 0 <= at < len(self._joined):
            place = bisect_right(self._begins, at) - 1
            yield place
            at = self._joined.find(text, self._begins[place + 1])


def _by_likeness(wanted: str, texts: Iterable[str]) -> list[str]:
    """Return the texts that are similar to one, most similar first, then in order."""
    matcher = SequenceMatcher()
    matcher.set_seq2(wanted)
    ratios = {}
    for text in texts:
        matcher.set_seq1(text)
        if matcher.real_quick_ratio() >= ALIKE and matcher.quick_ratio() >= ALIKE and matcher.ratio() >= ALIKE:
            ratios[text] = matcher.ratio()
    return sorted(ratios, key=lambda text: (-ratios[text], text))


def _without_zeros(text: str) -> str:
    return re.sub(r"(?<!\d)0+(?=\d)", "", text)


def _pieces(text: str) -> set[str]:
    """Return overlapping pieces of a third and a sixth of a text: some contain none of one or two typing errors."""
    sizes = {max(3, len(text) // parts) for parts in (3, 6)}
    return {text[at : at + size] for size in sizes for at in range(0, max(1, len(text) - size + 1), max(1, size // 3))}


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
        """Return the id of a relation by its label or readable name."""
        if text in self.dataset.relations:
            return self.dataset.relations.id_of(text)
        return _only("relation", "relations", text, self.relations, self.dataset.relations.labels)

    def find(self, kind: str, text: str) -> int | None:
        """Return the id of an ``entity`` or a ``relation``; None for a name that is unknown or ambiguous."""
        vocabulary = self.dataset.entities if kind == "entity" else self.dataset.relations
        if text in vocabulary:
            return vocabulary.id_of(text)
        ids = (self.entities if kind == "entity" else self.relations).exactly(text)
        return ids[0] if len(ids) == 1 else None

    @cached_property
    def entities(self) -> NameIndex:
        """Labels and readable names of all entities."""
        return _index(self.dataset.entities, self.dataset.names)

    @cached_property
    def relations(self) -> NameIndex:
        """Labels and readable names of all relations."""
        return _index(self.dataset.relations, self.dataset.relation_names)


def _index(vocabulary: Vocabulary, names: Mapping[str, str]) -> NameIndex:
    """Return the index of labels and readable names; ``names`` by label, those of other labels are skipped."""
    found = zip(vocabulary.find(names.keys()).tolist(), names.values(), strict=True)
    readable = ((number, name) for number, name in found if number >= 0)
    return NameIndex([*enumerate(vocabulary.labels), *readable])


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
