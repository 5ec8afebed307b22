"""Options: values that users may set by name, with their help texts and limits.

The fields of ``SearchSettings`` carry one each; methods, searchers and importers declare their own as
``{name: Option}``. Checks, options of the command line and ``METHOD:key=value`` texts all follow from them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field
from typing import Any

from relens.errors import InputError, nearest
from relens.registry import Entry

KINDS: dict[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    Sequence: "a list of names",
}


@dataclass(frozen=True)
class Option:
    """One value that users may set.

    Attributes:
        help: one sentence for the command line.
        default: the value unless set; None if unset means something else, see ``unset``.
        kind: type of the value: a key of ``KINDS``, or a type that only the entry with this option understands.
        minimum: smallest number allowed.
        table: entries to choose from, described in the help text.
        words: words to choose from, before those of the table.
        metavar: how the help text shows a free value.
        flag: the spelling on the command line, where it is not the name.
        unset: what None means, for help texts.
        users: returns the names of the entries that use the value, for help texts; None if all do.
    """

    help: str
    default: Any = None
    kind: Any = str
    minimum: float | None = None
    table: Mapping[str, Entry] | None = None
    words: tuple[str, ...] = ()
    metavar: str | None = None
    flag: str = ""
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
        if value is None and self.default is None:
            return
        # A text may be given as a number or a path, and a number as a whole number.
        if self.kind is not str and not isinstance(value, int | float if self.kind is float else self.kind):
            raise InputError(f"{name} is {value!r}, expected {KINDS[self.kind]}")
        if self.minimum is not None and not value >= self.minimum:
            raise InputError(f"{name} is {value}, expected at least {self.minimum:g}")


def option_of(settings_field: "Field[Any]") -> Option:
    """Return the option behind a dataclass field."""
    option: Option = settings_field.metadata["option"]
    return option
