"""The members of a run that others made: what is needed to load them again, and when they are loaded.

A run keeps each of them in a folder ``models/NAME`` with a record, ``member.json``. Loading one runs code of its maker,
so it needs the user's trust each time. The record holds no trust.
"""

import json
import os
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args

from relens.checksums import file_checksum, verify_file
from relens.data.dataset import Dataset
from relens.errors import InputError, MemberError, nearest
from relens.files import disk_errors, json_text, whole_folder
from relens.importers.layouts.pykeen import Missing, PykeenFolder
from relens.ranking.scorers import CheckedScorer, Scorer, told
from relens.records import MEMBER, mapping, text

if TYPE_CHECKING:
    import torch

MEMBER_FILE = "member.json"
FILES = "pykeen"
"""The folder with copies of PyKEEN's files, in the folder of a member."""


class Origin(ABC):
    """Where a member comes from, and how it is loaded.

    Attributes:
        name: the origin in records.
    """

    name: ClassVar[str]

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return what the record of a member says about its origin."""

    @classmethod
    @abstractmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Rebuild from the result of ``to_json``."""

    @abstractmethod
    def describe(self) -> str:
        """Say what would be loaded, such as ``a pickle of PyKEEN``."""

    @abstractmethod
    def load(self, folder: Path, dataset: Dataset, device: "torch.device | str") -> Scorer:
        """Load the scorer of the member in ``folder``. The user trusts it."""


@dataclass(frozen=True)
class SavedByPykeen(Origin):
    """Copies of the files of a model that PyKEEN saved.

    Attributes:
        missing: the treatment of entities that the model was not trained with.
        files: the checksums of the copies by their names.
    """

    missing: Missing
    files: Mapping[str, str]
    name: ClassVar[str] = "pykeen"

    @classmethod
    def of(cls, source: PykeenFolder) -> Self:
        """Return the origin of a checked model, for copies of its files."""
        return cls(source.missing, {file: file_checksum(source.path / file) for file in source.files})

    def to_json(self) -> dict[str, Any]:  # noqa: D102
        return {"missing": self.missing, "files": dict(self.files)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:  # noqa: D102
        missing, files = text(value["missing"]), mapping(value["files"])
        if missing not in get_args(Missing):
            raise ValueError(f"found missing={missing!r}")
        if any(PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts for file in files):
            raise ValueError("a file is outside the folder of the member")
        return cls(missing, {file: text(checksum) for file, checksum in files.items()})  # type: ignore[arg-type]

    def describe(self) -> str:  # noqa: D102
        return "a pickle that PyKEEN saved"

    def load(self, folder: Path, dataset: Dataset, device: "torch.device | str") -> Scorer:  # noqa: D102
        for file, checksum in self.files.items():
            verify_file(folder / FILES / file, checksum, MEMBER.remedy)
        return PykeenFolder.open(folder / FILES, dataset, missing=self.missing).load(device, trust=True)


@dataclass(frozen=True)
class PythonObject(Origin):
    """A class or function of a Python module; called with the data set and the arguments, it returns a scorer.

    Attributes:
        path: the import path, ``package.module:object``.
        arguments: keyword arguments of the call, plain JSON values.
    """

    path: str
    arguments: Mapping[str, Any]
    name: ClassVar[str] = "scorer"

    def __post_init__(self) -> None:
        module, _, attribute = self.path.partition(":")
        if not all(part.isidentifier() for part in (*module.split("."), *attribute.split("."))):
            raise InputError(
                f"{self.path!r} is not an import path: expected package.module:object, such as my_models:Frequency"
            )

    def to_json(self) -> dict[str, Any]:  # noqa: D102
        return {"object": self.path, "arguments": dict(self.arguments)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:  # noqa: D102
        return cls(text(value["object"]), mapping(value["arguments"]))

    def describe(self) -> str:  # noqa: D102
        return f"the Python object {self.path}"

    def load(self, folder: Path, dataset: Dataset, device: "torch.device | str") -> Scorer:  # noqa: D102
        del device
        make, place = self._import(), f"{folder.name!r} ({self.path})"
        if not callable(make):
            raise MemberError(
                f"{place} is {type(make).__name__}, which cannot be called: expected a class, or a function that "
                f"returns the scorer. It is called with the data set and the arguments."
            )
        try:
            scorer: Scorer = make(dataset, **self.arguments)
        except (Exception, SystemExit) as error:  # code of others can fail in any way
            shown = ", ".join(("data set", *(f"{name}={value!r}" for name, value in self.arguments.items())))
            raise MemberError(f"{place} failed when it was called with ({shown}): {told(error)}") from error
        if not callable(getattr(scorer, "score", None)):
            raise MemberError(
                f"{place} returned {type(scorer).__name__} without a method score: expected an object with "
                f"score(queries)."
            )
        return scorer

    def _import(self) -> Any:
        """Import the object. Modules are found where Python finds them, and in the current folder."""
        module, _, attribute = self.path.partition(":")
        if os.getcwd() not in sys.path and "" not in sys.path:
            sys.path.append(os.getcwd())
        try:
            found: Any = import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise MemberError(f"{self.path}: importing {module} failed: {told(error)}") from error
            raise MemberError(
                f"{self.path}: there is no module {error.name!r} here. Install it, put its folder on PYTHONPATH, or "
                f"run relens where {error.name.partition('.')[0]}.py is."
            ) from error
        except (Exception, SystemExit) as error:  # code of others can fail in any way
            raise MemberError(f"{self.path}: importing {module} failed: {told(error)}") from error
        for name in attribute.split("."):
            if not hasattr(found, name):
                public = [known for known in dir(found) if not known.startswith("_")]
                raise MemberError(f"{self.path}: {module} has no {attribute}; {nearest(name, public)}")
            found = getattr(found, name)
        return found


ORIGINS: dict[str, type[Origin]] = {kind.name: kind for kind in (SavedByPykeen, PythonObject)}


@dataclass(frozen=True)
class Member:
    """A member of a run that others made; its model is loaded by ``load``.

    Attributes:
        folder: its place on disk, named like the member.
        origin: where it comes from, and how it is loaded.
        dataset: the name of the data set that it scores.
        fingerprint: that of the data set, see ``Dataset.fingerprint``.
    """

    folder: Path
    origin: Origin
    dataset: str
    fingerprint: str

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Read the record of a member. Nothing is imported or unpickled."""
        file = folder / MEMBER_FILE
        record = MEMBER.read(file)
        with MEMBER.parsing(str(file)):
            kind = text(record["origin"])
            if kind not in ORIGINS:
                known = " and ".join(ORIGINS)
                raise InputError(f"{file} has the origin {kind!r}, this relens knows {known}: use a newer relens")
            return cls(folder, ORIGINS[kind].from_json(record), text(record["dataset"]), text(record["fingerprint"]))

    @property
    def name(self) -> str:
        """The name of the member in the run."""
        return self.folder.name

    @property
    def digest(self) -> str:
        """The identity of what is loaded, as far as the record knows it."""
        content = json.dumps({"origin": self.origin.name, **self.origin.to_json()}, sort_keys=True)
        return sha256(content.encode()).hexdigest()[:16]

    def load(self, dataset: Dataset, device: "torch.device | str" = "cpu", *, trust: bool) -> CheckedScorer:
        """Load the model, which runs code of its maker; raise an error without ``trust``."""
        check_trust([self], trust=trust)
        if self.fingerprint != dataset.fingerprint:
            raise InputError(
                f"{self.folder} scores {self.dataset} (fingerprint {self.fingerprint}), not this {dataset.name} "
                f"(fingerprint {dataset.fingerprint}): use the data set that it was added with"
            )
        return CheckedScorer(self.name, self.origin.load(self.folder, dataset, device), dataset)


NewMember = PykeenFolder | PythonObject
"""The sources that a member can be made from."""


def keep_member(folder: Path, new: NewMember, dataset: Dataset) -> Member:
    """Write a member into a folder, which appears when it is complete."""
    with whole_folder(folder) as aside, disk_errors(folder):
        origin = _origin(new)
        if isinstance(new, PykeenFolder):
            for file in new.files:
                copied = aside / FILES / file
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(new.path / file, copied)
        known = {"dataset": dataset.name, "fingerprint": dataset.fingerprint}
        record = MEMBER.stamp({"origin": origin.name, **known, **origin.to_json()})
        (aside / MEMBER_FILE).write_text(json_text(record), encoding="utf-8")
    return Member.open(folder)


def is_kept(folder: Path, new: NewMember, dataset: Dataset) -> bool:
    """Say whether a folder holds the member that ``keep_member`` would write there."""
    if not (folder / MEMBER_FILE).is_file():
        return False
    found = Member.open(folder)
    return found.fingerprint == dataset.fingerprint and found.origin == _origin(new)


def _origin(new: NewMember) -> Origin:
    return SavedByPykeen.of(new) if isinstance(new, PykeenFolder) else new


def check_trust(members: Iterable[Member], *, trust: bool) -> None:
    """Raise an error that lists the members that run code of others when they are loaded, unless the user trusts it."""
    listed = [f"{member.name!r} is {member.origin.describe()}" for member in members]
    if listed and not trust:
        raise InputError(
            f"{' and '.join(listed)}: loading {'it' if len(listed) == 1 else 'them'} runs whatever code is there. If "
            f"you made it, or trust the person who did, pass `trust=True`. Trust is not stored."
        )
