"""The settings of each member of a plan: those of the preset, changed by the plan, once for each seed."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import count

import torch

from relens.errors import InputError, nearest
from relens.models import MODELS
from relens.pipeline.plan import Plan
from relens.presets import Preset, default_preset, read_preset
from relens.training.presets import resolve_settings
from relens.training.settings import FIELDS, TrainSettings


def preset_of(plan: Plan, *, on_cpu: bool) -> Preset:
    """Return the preset that the models of a plan start from."""
    return read_preset(plan.preset or default_preset(on_cpu=on_cpu))


def settings_of(plan: Plan, dataset: str, *, on_cpu: bool) -> dict[str, TrainSettings]:
    """Return the settings of each model of a run, by name; a change that no model has raises an error."""
    preset = preset_of(plan, on_cpu=on_cpu)
    names = preset.members_for(dataset) if plan.models is None else plan.models
    for name, (text, *_) in plan.model_changes.items():
        if name not in names:
            raise InputError(f"'{name}.{text}' changes a model that is not in the run; {nearest(name, names)}")
    base = {name: _base_model(plan, preset, name) for name in names}
    known = {name: {*FIELDS, *MODELS[model].options} for name, model in base.items()}
    every = sorted(set().union(*known.values()))
    for text in plan.changes:
        if not any(key_of(text) in keys for keys in known.values()):
            raise InputError(
                f"{text!r} changes a setting that no model has; {nearest(key_of(text), every, show_all=True)}"
            )
    changes = {name: [f"seed={plan.seed}", *changes_of(plan, name, known[name])] for name in names}
    found = {
        name: resolve_settings(dataset, model, preset.name, changes[name], member=name) for name, model in base.items()
    }
    return with_seeds(found, plan.seeds or 1)


def with_seeds(settings: Mapping[str, TrainSettings], n_seeds: int) -> dict[str, TrainSettings]:
    """Return settings with further members that differ in their seed alone: ``complex``, ``complex-2``, …

    The seeds of one member follow its own, and leave out those of members that are equal otherwise.
    """
    found = dict(settings)
    for name, first in settings.items():
        numbers, seed = count(2), first.seed
        for _ in range(n_seeds - 1):
            seed += 1
            while replace(first, seed=seed) in found.values():
                seed += 1
            free = next(f"{name}-{k}" for k in numbers if f"{name}-{k}" not in found)
            found[free] = replace(first, seed=seed)
    return found


def _base_model(plan: Plan, preset: Preset, name: str) -> str:
    """Return the base model of a name: the value of its change ``model=…``, or that of the preset's member."""
    own = (text.partition("=")[2].strip() for text in plan.model_changes.get(name, ()) if key_of(text) == "model")
    return MODELS.find(next(own, preset.model_of(name))).name


def changes_of(plan: Plan, name: str, known: Collection[str]) -> list[str]:
    """Return the changes of a model: those for all models first, then its own."""
    shared = [text for text in plan.changes if key_of(text) in known]
    return shared + [text for text in plan.model_changes.get(name, ()) if key_of(text) != "model"]


def key_of(change: str) -> str:
    """Return the key of a change ``key=value``."""
    return change.partition("=")[0].strip()


def check_options(settings: TrainSettings) -> None:
    """Raise an error for incompatible options before any model is trained, by building a model of two entities."""
    MODELS.find(settings.model).build(2, 1, settings.options, torch.tensor([[0, 0, 1]]))
