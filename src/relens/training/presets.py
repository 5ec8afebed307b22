"""Settings of a model for a data set: from a preset, changed by ``key=value`` texts."""

import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from relens.errors import InputError, nearest
from relens.models import MODELS, ModelEntry
from relens.presets import DEFAULT, PRESETS, read_preset
from relens.training.settings import FIELDS, OPTIONAL, TrainSettings

RESERVED = frozenset({"model", "options"})
"""Fields of ``TrainSettings`` that a ``key=value`` text cannot change."""


def resolve_settings(dataset: str, model: str, preset: str, overrides: Iterable[str] = ()) -> TrainSettings:
    """Return the settings of a model for a data set: the preset's, changed by ``key=value`` texts.

    A model without a section in the preset's file brings its own (``ModelEntry.presets``), or gets the defaults of
    ``TrainSettings``. Keys are settings (``lr``) or options of the model (``dim``). Values are read as TOML, for
    instance ``1e-3``, ``true`` or ``[100, 200]``; other text is taken as it is. ``none`` switches a setting off.
    """
    entry = MODELS.find(model)
    if preset not in PRESETS:
        raise InputError(f"unknown preset {preset!r}; {nearest(preset, PRESETS)}")
    sections = read_preset(preset).get(entry.name) or entry.presets.get(preset, {})
    values = {**sections.get(DEFAULT, {}), **sections.get(dataset.lower(), {}), **dict(map(_override, overrides))}
    return settings_from_values(entry, values)


def settings_from_values(entry: ModelEntry, values: Mapping[str, Any]) -> TrainSettings:
    """Sort flat values into settings and options of the model; an unknown key raises an error."""
    options = entry.options
    settings = {key: value for key, value in values.items() if key not in options}
    for key, value in settings.items():
        if key not in FIELDS or key in RESERVED:
            available = sorted({*options, *FIELDS} - RESERVED)
            raise InputError(f"unknown setting {key!r} of {entry.name}; {nearest(key, available, show_all=True)}")
        if key in OPTIONAL and value == "none":
            settings[key] = None
    chosen = {key: value for key, value in values.items() if key in options}
    return TrainSettings(model=entry.name, options=entry.resolve_options(chosen), **settings)


def _override(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f"{text!r} changes no setting: expected key=value, for instance dim=500")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()
