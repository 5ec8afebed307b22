"""Options: named values of a search that users may set, with their help texts and limits.

The fields of ``SearchSettings`` carry one each, and methods and searchers may declare more. Checks, options of the
command line and ``METHOD:key=value`` texts all follow from them.
"""

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field
from typing import Any

from relens.errors import InputError, nearest
from relens.registry import Entry

KINDS = {str: "a text", int: "a whole number", float: "a number"}


@dataclass(frozen=True)
class Option:
    """One value that users may set.

    Attributes:
        help: one sentence for the command line.
        default: the value unless set; None if unset means something else, see ``unset``.
        kind: type of the value: ``str``, ``int`` or ``float``.
        minimum: smallest number allowed.
        table: entries to choose from, described in the help text.
        words: words to choose from, before those of the table.
        metavar: how the help text shows a free value.
        unset: what None means, for help texts.
        users: returns the names of the entries that use the value, for help texts; None if all do.
    """

    help: str
    default: Any = None
    kind: type = str
    minimum: float | None = None
    table: Mapping[str, Entry] | None = None
    words: tuple[str, ...] = ()
    metavar: str | None = None
    unset: str | None = None
    users: Callable[[], list[str]] | None = None

    @property
    def choices(self) -> list[str]:
        """All words to choose from; empty for a free value."""
        return [*self.words, *(self.table or ())]

    @property
    def full_help(self) -> str:
        """The help text, with a few words about each entry of the table, or the names of the entries that use it."""
        entries = self.table.values() if self.table is not None else ()
        users = [f"Used by {', '.join(self.users())}."] if self.users is not None else []
        return " ".join([self.help, *(f"{entry.name}: {entry.description}." for entry in entries), *users])

    def field(self) -> Any:
        """Return a dataclass field with this default, from which ``option_of`` gives the option back."""
        return field(default=self.default, metadata={"option": self})

    def parse(self, name: str, text: str) -> Any:
        """Return a text as a value of the option called ``name``."""
        try:
            return self.kind(text)
        except ValueError:
            raise InputError(f"{name} is {text!r}, expected {KINDS[self.kind]}") from None

    def check(self, name: str, value: Any) -> None:
        """Raise an error if ``value`` is not allowed for the option called ``name``."""
        if self.choices and value not in self.choices:
            raise InputError(f"unknown {name} {value!r}; {nearest(str(value), self.choices)}")
        if self.minimum is None or (value is None and self.default is None):
            return
        if not isinstance(value, int if self.kind is int else int | float):
            raise InputError(f"{name} is {value!r}, expected {KINDS[self.kind]}")
        if not value >= self.minimum:
            raise InputError(f"{name} is {value}, expected at least {self.minimum:g}")


def option_of(settings_field: "Field[Any]") -> Option:
    """Return the option behind a dataclass field."""
    option: Option = settings_field.metadata["option"]
    return option
