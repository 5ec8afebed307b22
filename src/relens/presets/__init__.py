"""Presets: settings of every model for every data set, as TOML files of this folder. Reading them needs no torch."""

import tomllib
from importlib.resources import files
from typing import Any

_FOLDER = files(__name__)
PRESETS = tuple(sorted(file.name.removesuffix(".toml") for file in _FOLDER.iterdir() if file.name.endswith(".toml")))
"""The names of the presets."""
DEFAULT = "default"
"""The section of a model for data sets without a section of their own; the other sections build on it."""


def read_preset(preset: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the values of a preset: by model, then by data set, then by setting."""
    return tomllib.loads((_FOLDER / f"{preset}.toml").read_text(encoding="utf-8"))


def default_preset(*, on_cpu: bool) -> str:
    """Return the preset to use if none is named: on a CPU, ``best`` would take hours or days."""
    return "demo" if on_cpu else "best"
