"""The presets there are, as they were checked in; their models, which need torch, are not looked at here."""

import tomllib
from importlib.resources import files
from typing import Any

_FOLDER = files("relens") / "presets"
PRESETS = tuple(sorted(file.name.removesuffix(".toml") for file in _FOLDER.iterdir() if file.name.endswith(".toml")))
"""Their names."""


def read_preset(preset: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Return a preset as it was checked in: by model, then by data set, then by key."""
    return tomllib.loads((_FOLDER / f"{preset}.toml").read_text(encoding="utf-8"))
