"""Tables of objects that users choose by name: models, methods, searchers, inputs, importers, metrics.

Each table has its own package. The modules of that package hold the entries; nothing else lists them.
Other distributions add entries through entry points of the table's group, for instance in their ``pyproject.toml``::

    [project.entry-points."relens.methods"]
    median = "my_package.median:MEDIAN"
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from typing import Generic, Protocol, TypeVar

from relens.errors import InputError, RelensError, nearest

AFTER_OURS = 100
"""The ``order`` of entries that set none: after relens's own."""


class Entry(Protocol):
    """An object in a table.

    Attributes:
        name: the name that users type, in lower case.
        description: one line for help texts and docs.
        order: position in lists; equal positions are sorted by name.
    """

    @property
    def name(self) -> str:  # noqa: D102
        ...

    @property
    def description(self) -> str:  # noqa: D102
        ...

    @property
    def order(self) -> int:  # noqa: D102
        ...


E = TypeVar("E", bound=Entry)


class Registry(Mapping[str, E], Generic[E]):
    """A table of entries by name, loaded when it is first used."""

    def __init__(self, kind: str, plural: str, base: type[E], package: str) -> None:
        """Name the table.

        Args:
            kind: the word for one entry in messages, such as ``method``.
            plural: the word for several; the entry-point group is ``relens.`` and this word.
            base: the class of the entries.
            package: dotted name of the package whose modules hold relens's own entries.
        """
        self.kind, self.group = kind, f"relens.{plural}"
        self._base, self._package = base, package
        self._entries: dict[str, E] | None = None

    def find(self, name: str) -> E:
        """Return the entry of a name, in upper or lower case, or raise an error that lists similar names."""
        if name.lower() not in self._loaded:
            raise InputError(f"unknown {self.kind} {name!r}; {nearest(name, self._loaded)}")
        return self._loaded[name.lower()]

    def __getitem__(self, name: str) -> E:
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded)

    def __len__(self) -> int:
        return len(self._loaded)

    @property
    def _loaded(self) -> dict[str, E]:
        if self._entries is None:
            found = {entry.name: entry for entry in self._own()}
            for point in entry_points(group=self.group):
                entry = self._load(point)
                if found.setdefault(entry.name, entry) is not entry:
                    raise RelensError(
                        f"{_distribution(point)} adds the {self.kind} {entry.name!r}, but there is one of that name: "
                        f"rename it, or uninstall the package"
                    )
            ordered = sorted(found.values(), key=lambda entry: (entry.order, entry.name))
            self._entries = {entry.name: entry for entry in ordered}
        return self._entries

    def _own(self) -> Iterator[E]:
        """Yield the entries that the modules of the table's package define."""
        package = import_module(self._package)
        for module in iter_modules(package.__path__):
            values = vars(import_module(f"{self._package}.{module.name}")).values()
            yield from (value for value in values if isinstance(value, self._base))

    def _load(self, point: EntryPoint) -> E:
        """Load the object of an entry point; an error names the distribution."""
        try:
            entry = point.load()
        except Exception as error:  # foreign code can fail in any way
            raise RelensError(
                f"{_distribution(point)} adds the {self.kind} {point.name!r}, which cannot be loaded "
                f"({type(error).__name__}: {error}): update or uninstall the package"
            ) from error
        if not isinstance(entry, self._base):
            raise RelensError(
                f"{_distribution(point)} adds the {self.kind} {point.name!r} as {type(entry).__name__}, expected an "
                f"instance of {self._base.__module__}.{self._base.__qualname__}"
            )
        return entry


def _distribution(point: EntryPoint) -> str:
    return f"the package {point.dist.name if point.dist else point.value!r}"
