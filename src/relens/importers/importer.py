"""The table of importers: each reads one layout of files, with options of its own.

Another distribution adds an importer through an entry point, for instance in its ``pyproject.toml``::

    [project.entry-points."relens.importers"]
    mine = "my_package.mine:MINE"
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset
from relens.errors import InputError, nearest
from relens.importers.dense import Dense
from relens.options import Option
from relens.progress import SILENT, Progress
from relens.registry import AFTER_OURS, Registry

if TYPE_CHECKING:
    from relens.importers.members import NewMember

DATA = Option("Data set, for labels and known answers.", kind=Dataset, metavar="DATASET")
MODELS = Option("Use these models only, in this order.", (), Sequence, metavar="A,B,…", unset="all")
RELATIONS = Option("Number of relations.", None, int, minimum=1, unset="found from the ids", flag="relations")
FILTER = Option(
    "Leave out known answers and rank the rest again.", None, bool, unset="scores with --data", flag="filter"
)
GAPS = Option("Keep score gaps beside the ranks.", None, bool, unset="for scores")
TRUST = Option("Load pickles, which can run any code: you know who made them.", False, bool)


class Importer(ABC):
    """A layout of files that relens can import.

    Attributes:
        name: what users type, in lower case.
        description: the files of a folder DIR, in one line.
        order: position in lists.
        options: the options by name, beside those that follow from the two needs.
        needs_data: a data set must be given.
        needs_trust: its files can run code when they are loaded, so the user must trust them explicitly.
    """

    name: str
    description: str
    order: int = AFTER_OURS
    options: Mapping[str, Option] = {}
    needs_data: bool = False
    needs_trust: bool = False

    @abstractmethod
    def read(self, folder: Path, **options: Any) -> dict[str, Dense]:
        """Return the arrays to pack, by split.

        Args:
            folder: the folder to read.
            options: a value for each of ``all_options``.
        """

    def members(self, folder: Path, **options: Any) -> "dict[str, NewMember]":
        """Return what loads the models again, by name, so that they can answer questions; files of ranks cannot.

        The arguments are those of ``read``, which was called before.
        """
        del folder, options
        return {}

    @property
    def all_options(self) -> dict[str, Option]:
        """The options in the order of help texts, with those that the needs add."""
        needed = {"data": DATA} if self.needs_data else {}
        needed |= {"trust": TRUST} if self.needs_trust else {}
        return {name: option for name, option in needed.items() if name not in self.options} | dict(self.options)

    def resolve(self, values: Mapping[str, Any], progress: Progress = SILENT) -> dict[str, Any]:
        """Return a checked value for each option; a data set may be given by its name or folder.

        Raises:
            InputError: if an option belongs to another layout, has a wrong value or is missing.
        """
        own = self.all_options
        for name, value in values.items():
            if name not in own and value not in (None, False):
                raise InputError(self._not_an_option(name, value, own))
        if self.needs_data and values.get("data") is None:
            raise InputError(f"the layout {self.name} needs a data set: pass `data=…`")
        resolved = {name: option.default for name, option in own.items()}
        for name, value in values.items():
            if name not in own or value is None:
                continue
            if own[name].kind is Dataset and not isinstance(value, Dataset):
                value = load_dataset(value, progress=progress)
            own[name].check(name, value)
            resolved[name] = value
        return resolved

    def _not_an_option(self, name: str, value: Any, own: Mapping[str, Option]) -> str:
        shown = f"`{name}={value if isinstance(value, str | int) else '…'}`"
        others = [other.name for other in IMPORTERS.values() if name in other.all_options]
        hint = f"it belongs to {' and '.join(others)}" if others else nearest(name, own)
        return f"{shown} is not an option of the layout {self.name}: {hint}"


IMPORTERS: Registry[Importer] = Registry(
    "layout",
    "importers",
    Importer,  # type: ignore[type-abstract]  # a base class
    "relens.importers.layouts",
)


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
