"""Presets: the members of a run and their settings for every data set, as TOML files. Reading them needs no torch.

A file has a table for each member, with a section for each data set and one called ``default``. A member is called like
its model, or its default section names the ``model``. Two keys stand before the tables: ``extends``, the preset that
the settings build on, and ``members``, the members of a run by data set.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from relens.errors import InputError, nearest

_FOLDER = files(__name__)
PRESETS = tuple(sorted(file.name.removesuffix(".toml") for file in _FOLDER.iterdir() if file.name.endswith(".toml")))
"""The names of the presets."""
DEFAULT = "default"
"""The section of a member for data sets without a section of their own; the other sections build on it."""
LADDER = ("demo", "small", "best")
"""The presets of different sizes that a time budget chooses from, the smallest first."""
PAPER = ("transe", "rotate", "house", "complex", "conve", "compgcn")
"""The models of the paper, in its order: the members unless a preset names others."""

Sections = Mapping[str, Mapping[str, Any]]
"""Settings by data set (or ``DEFAULT``), then by key."""


@dataclass(frozen=True)
class Preset:
    """The content of a preset's file.

    Attributes:
        name: the name of the file.
        sections: settings by member, then by data set, then by key.
        members: names of the members by data set; empty for those of the preset that this one extends.
        extends: the preset that the settings build on, or None.
    """

    name: str
    sections: Mapping[str, Sections]
    members: Mapping[str, tuple[str, ...]]
    extends: "Preset | None" = None

    def members_for(self, dataset: str) -> tuple[str, ...]:
        """Return the members of a run on a data set."""
        if self.members:
            return self.members.get(dataset.lower(), self.members[DEFAULT])
        return self.extends.members_for(dataset) if self.extends else PAPER

    def model_of(self, member: str) -> str:
        """Return the name of a member's model."""
        return str(self.sections.get(member, {}).get(DEFAULT, {}).get("model", member))

    @property
    def lineage(self) -> "tuple[Preset, ...]":
        """This preset, and those that it extends."""
        return (self, *(self.extends.lineage if self.extends else ()))

    def values(self, member: str, dataset: str) -> dict[str, Any]:
        """Return the settings of a member for a data set, by key."""
        own = section_values(self.sections.get(member, {}), dataset)
        own.pop("model", None)
        return {**(self.extends.values(self.model_of(member), dataset) if self.extends else {}), **own}


def section_values(sections: Sections, dataset: str) -> dict[str, Any]:
    """Return the default section, changed by that of a data set."""
    return {**sections.get(DEFAULT, {}), **sections.get(dataset.lower(), {})}


@cache
def read_preset(preset: str) -> Preset:
    """Return the preset of that name."""
    if preset not in PRESETS:
        raise InputError(f"unknown preset {preset!r}; {nearest(preset, PRESETS)}")
    sections = tomllib.loads((_FOLDER / f"{preset}.toml").read_text(encoding="utf-8"))
    extends, members = sections.pop("extends", None), sections.pop("members", {})
    by_dataset = {dataset: tuple(names) for dataset, names in members.items()}
    return Preset(preset, sections, by_dataset, read_preset(extends) if extends else None)


def default_preset(*, on_cpu: bool) -> str:
    """Return the preset to use if none is named: on a CPU, ``best`` would take hours or days."""
    return "demo" if on_cpu else "best"
