"""The table of importers: each reads one layout of files, with options of its own.

Another distribution adds an importer through an entry point, for instance in its ``pyproject.toml``::

    [project.entry-points."relens.importers"]
    mine = "my_package.mine:MINE"
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset
from relens.errors import InputError, nearest
from relens.importers.dense import Dense
from relens.progress import SILENT, Progress
from relens.registry import AFTER_OURS, Registry


@dataclass(frozen=True)
class Option:
    """An option of an importer: a keyword in Python, and an option on the command line.

    Attributes:
        name: the keyword.
        help: one line for help texts.
        type: the type of the value: ``str``, ``int`` (at least 1), ``bool``, ``Sequence`` (of names) or ``Dataset``.
        default: the value where the option is not given.
        choices: the values that are allowed; empty for all.
        flag: the spelling on the command line, where it is not the keyword.
        metavar: what help texts show for the value.
    """

    name: str
    help: str
    type: Any = str
    default: Any = None
    choices: tuple[str, ...] = ()
    flag: str = ""
    metavar: str | None = None

    def resolve(self, value: Any, progress: Progress = SILENT) -> Any:
        """Return a checked value; a data set may be given by its name or folder."""
        if value is None or value == self.default:
            return self.default
        if self.type is Dataset:
            return value if isinstance(value, Dataset) else load_dataset(value, progress=progress)
        if self.choices and value not in self.choices:
            raise InputError(f"unknown {self.name} {value!r}; {nearest(str(value), self.choices)}")
        if not isinstance(value, self.type) or (self.type is int and value < 1):
            raise InputError(f"`{self.name}={value}` is not valid: expected {_EXPECTED[self.type]}")
        return value


DATA = Option("data", "Data set, for labels and known answers.", Dataset, metavar="DATASET")
MODELS = Option(
    "models", "Use these models only, in this order.  [default: all]", Sequence, default=(), metavar="A,B,…"
)
RELATIONS = Option("n_relations", "Number of relations.  [default: found from the ids]", int, flag="relations")
FILTER = Option(
    "filtered",
    "Leave out known answers and rank the rest again.  [default: scores with --data]",
    bool,
    flag="filter",
)
GAPS = Option("gaps", "Keep score gaps beside the ranks.  [default: for scores]", bool)
TRUST = Option("trust", "Load pickles, which can run any code: you know who made them.", bool, default=False)


_EXPECTED = {str: "text", int: "a whole number from 1 on", bool: "True or False", Sequence: "a list of names"}


class Importer:
    """A layout of files that relens can import.

    Attributes:
        name: what users type, in lower case.
        description: the files of a folder DIR, in one line.
        order: position in lists.
        options: what can be set, beside the options that follow from the two needs.
        needs_data: a data set must be given.
        needs_trust: its files can run code when they are loaded, so the user must trust them explicitly.
    """

    name: str
    description: str
    order: int = AFTER_OURS
    options: tuple[Option, ...] = ()
    needs_data: bool = False
    needs_trust: bool = False

    def read(self, folder: Path, **options: Any) -> dict[str, Dense]:
        """Return the arrays to pack, by split.

        Args:
            folder: the folder to read.
            options: a value for each of ``all_options``.
        """
        raise NotImplementedError

    @property
    def all_options(self) -> tuple[Option, ...]:
        """The options in the order of help texts, with those that the needs add."""
        needed = [option for option, needs in ((DATA, self.needs_data), (TRUST, self.needs_trust)) if needs]
        return (*(option for option in needed if option not in self.options), *self.options)

    def resolve(self, values: Mapping[str, Any], progress: Progress = SILENT) -> dict[str, Any]:
        """Return a value for each option; raise an error for options of other layouts, and for missing ones."""
        own = {option.name: option for option in self.all_options}
        for name, value in values.items():
            if name not in own and value not in (None, False):
                raise InputError(self._not_an_option(name, value, own))
        if self.needs_data and values.get("data") is None:
            raise InputError(f"the layout {self.name} needs a data set: pass `data=…`")
        return {name: option.resolve(values.get(name), progress) for name, option in own.items()}

    def _not_an_option(self, name: str, value: Any, own: Mapping[str, Option]) -> str:
        shown = f"`{name}={value if isinstance(value, str | int) else '…'}`"
        others = [other.name for other in IMPORTERS.values() if name in {option.name for option in other.all_options}]
        hint = f"it belongs to {' and '.join(others)}" if others else nearest(name, own)
        return f"{shown} is not an option of the layout {self.name}: {hint}"


IMPORTERS: Registry[Importer] = Registry("layout", "importers", Importer, "relens.importers.layouts")


def read_ranks(layout: str, folder: Path | str, *, progress: Progress = SILENT, **options: Any) -> dict[str, Dense]:
    """Read a folder in one of the layouts of ``IMPORTERS``; return the arrays to pack, by split.

    Args:
        layout: the name of the layout.
        folder: the folder to read.
        progress: shows the download of a data set.
        options: those of the layout; see ``IMPORTERS[layout].all_options``.
    """
    importer, folder = IMPORTERS.find(layout), Path(folder)
    values = importer.resolve(options, progress)
    if importer.needs_trust:
        require_trust(folder, trust=values["trust"])
    return importer.read(folder, **values)


def require_trust(place: Path, *, trust: bool) -> None:
    """Raise an error unless the user trusts the pickles at ``place``."""
    if not trust:
        raise InputError(
            f"{place}: loading a pickle runs whatever code its maker put into it. If you made it, or trust the person "
            f"who did, pass `trust=True`."
        )
