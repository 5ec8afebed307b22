"""Presets: settings by name, checked in as TOML, for every model and data set."""

import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from relens.errors import InputError, nearest
from relens.models import resolve_name, resolve_options
from relens.training.preset_files import PRESETS as PRESETS
from relens.training.preset_files import read_preset as read_preset
from relens.training.settings import FIELDS, OPTIONAL, TrainSettings

DEFAULT = "default"
"""The section of a model that data sets without one of their own use, and that the others build on."""
RESERVED = frozenset({"model", "options"})


def resolve(dataset: str, model: str, preset: str, overrides: Iterable[str] = ()) -> TrainSettings:
    """Return the settings of a model for a data set: the preset's, changed by ``key=value`` texts.

    Keys are settings (``lr``) or options of the model (``dim``). Values are read as TOML, so ``1e-3``, ``true`` and
    ``[100, 200]`` mean what they look like; other text stands for itself, and ``none`` for a setting not used.
    """
    model = resolve_name(model)
    if preset not in PRESETS:
        raise InputError(f"unknown preset {preset!r}; {nearest(preset, PRESETS)}")
    sections = read_preset(preset)[model]
    values = {**sections[DEFAULT], **sections.get(dataset.lower(), {}), **dict(map(_override, overrides))}
    return from_values(model, values)


def from_values(model: str, values: Mapping[str, Any]) -> TrainSettings:
    """Sort flat values into settings and options of the model; unknown keys are refused with the nearest name."""
    options = resolve_options(model, {})
    settings = {key: value for key, value in values.items() if key not in options}
    for key, value in settings.items():
        if key not in FIELDS or key in RESERVED:
            known = sorted({*options, *FIELDS} - RESERVED)
            raise InputError(f"unknown setting {key!r} for {model}; {nearest(key, known, show_all=True)}")
        if key in OPTIONAL and value == "none":
            settings[key] = None
    chosen = {key: value for key, value in values.items() if key in options}
    return TrainSettings(model=model, options=resolve_options(model, chosen), **settings)


def _override(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f"{text!r} changes no setting: expected key=value, for instance dim=500")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()
