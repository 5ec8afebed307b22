"""Settings of a model for a data set: from a preset, changed by ``key=value`` texts."""

from collections.abc import Iterable, Mapping
from typing import Any

from relens.errors import InputError, nearest
from relens.models import MODELS, ModelEntry
from relens.presets import read_preset, section_values
from relens.toml import parse_toml
from relens.training.settings import FIELDS, OPTIONAL, TrainSettings

RESERVED = frozenset({"model", "options"})
"""Fields of ``TrainSettings`` that a ``key=value`` text cannot change."""


def resolve_settings(
    dataset: str, model: str, preset: str, overrides: Iterable[str] = (), *, member: str | None = None
) -> TrainSettings:
    """Return the settings of a model for a data set: the preset's, changed by ``key=value`` texts.

    A model without settings in the preset's file brings its own (``ModelEntry.presets``), or gets the defaults of
    ``TrainSettings``. Keys are settings (``lr``) or options of the model (``dim``). Values are read as TOML, for
    instance ``1e-3``, ``true`` or ``[100, 200]``; other text is taken as it is. ``none`` switches a setting off.

    Args:
        dataset: the name of the data set.
        model: the name of the model.
        preset: the name of the preset.
        overrides: the changes.
        member: the member whose settings the preset has; None for the one called like the model.
    """
    entry, found = MODELS.find(model), read_preset(preset)
    member = entry.name if member is None else member
    if found.model_of(member) != entry.name:
        member = entry.name
    # The sections that a model brings itself come below those of the files.
    own = next((entry.presets[step.name] for step in found.lineage if step.name in entry.presets), {})
    values = {**section_values(own, dataset), **found.values(member, dataset)}
    return settings_from_values(entry, {**values, **dict(map(_override, overrides))})


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
    return key.strip(), _value(value.strip())


def _value(text: str) -> Any:
    """Return a text as TOML, or as a number that TOML spells differently (``.5``), or as it is."""
    try:
        return parse_toml(f"value = {text}", text)["value"]
    except InputError:
        try:
            return float(text)
        except ValueError:
            return text
