"""Finding labels by what a person has typed so far, among a hundred thousand of them."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import accumulate

BETWEEN = "\n"  # no label holds a line end
NEAR = 100


class LabelIndex:
    """The labels of a vocabulary, and their readable names, in one long text that is quick to search.

    Case does not matter. Ids are places in ``labels``.
    """

    def __init__(self, labels: Sequence[str], names: Mapping[str, str] | None = None) -> None:
        names = names or {}
        folded = {(label.casefold(), number) for number, label in enumerate(labels)}
        folded |= {(names[label].casefold(), number) for number, label in enumerate(labels) if label in names}
        ordered = sorted(folded)
        self.labels = labels
        self._texts = [text for text, _ in ordered]
        self._ids = [number for _, number in ordered]
        self._joined = BETWEEN.join(self._texts)
        self._begins = [0, *accumulate(len(text) + len(BETWEEN) for text in self._texts)]

    def matches(self, typed: str, limit: int) -> list[int]:
        """Return at most ``limit`` ids: labels that begin with ``typed`` in order, then labels that contain it."""
        typed = typed.casefold()
        if BETWEEN in typed:
            return []
        found: dict[int, None] = {}
        place = bisect_left(self._texts, typed)
        while len(found) < limit and place < len(self._texts) and self._texts[place].startswith(typed):
            found[self._ids[place]] = None
            place += 1
        at = self._joined.find(typed)
        while len(found) < limit and 0 <= at < len(self._joined):
            place = bisect_right(self._begins, at) - 1
            found[self._ids[place]] = None
            at = self._joined.find(typed, self._begins[place + 1])
        return list(found)

    def exactly(self, typed: str) -> list[int]:
        """Return the ids whose label or name is ``typed``, whatever the case."""
        typed = typed.casefold()
        begin, end = bisect_left(self._texts, typed), bisect_right(self._texts, typed)
        return sorted(set(self._ids[begin:end]))

    def closest(self, typed: str, limit: int = 3) -> list[str]:
        """Return labels that resemble one that does not exist; the most alike come first.

        Only labels that share the beginning or the end with ``typed`` are compared with it: comparing with all of
        them would take seconds.
        """
        half = (len(typed) + 1) // 2
        parts = (typed, typed[:half], typed[-half:], typed[: (half + 1) // 2])
        near = {self.labels[number]: None for part in parts for number in self.matches(part, NEAR)}
        by_folded = {label.casefold(): label for label in near}
        return [by_folded[text] for text in get_close_matches(typed.casefold(), by_folded, n=limit, cutoff=0.6)]
