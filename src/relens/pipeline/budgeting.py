"""The plan of a run with a time budget: the one that the run has, or a new one from measured paces."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from relens.data.dataset import Dataset
from relens.devices import training_places
from relens.errors import InputError
from relens.models import MODELS
from relens.pipeline.budget import AIM, BudgetPlan, Offer, make_plan, parse_budget
from relens.pipeline.measuring import Presets, measure_paces, rehearse_search
from relens.pipeline.plan import Plan
from relens.pipeline.planner import Room
from relens.pipeline.resolving import changes_of, check_options, key_of, settings_of, with_seeds
from relens.pipeline.sizes import sizes_of
from relens.pipeline.training import request_retraining
from relens.presets import LADDER
from relens.runs import PLAN, Run
from relens.training.settings import FIELDS, TrainSettings

if TYPE_CHECKING:
    from relens.pipeline.run import Execution

MOST_SEEDS = 8
"""The most seeds of a member that are added for time that is left."""
AFTER_SEARCH = 1.0
"""The time of calibration and report, as a share of that of the search."""


def check_budget(plan: Plan, dataset: str, *, on_cpu: bool) -> None:
    """Raise an error for a budget, a model or a setting that no plan can have, before anything is measured."""
    if plan.budget is not None:
        parse_budget(plan.budget)
        for presets in _presets_of(plan, dataset, on_cpu=on_cpu).values():
            for _, settings in presets:
                check_options(settings)


def settle(run: Run, plan: Plan, dataset: Dataset, execution: "Execution", began: float) -> BudgetPlan:
    """Return the plan of a run, which the caller holds: the one that it has for this request, or a new one.

    Args:
        run: the run, which keeps the plan.
        plan: the request, with a budget.
        dataset: the graph.
        execution: devices and workers.
        began: when the budget began, by ``time.time``.
    """
    assert plan.budget is not None
    request, progress = _request(plan, dataset, execution), execution.progress
    present = None if execution.repeats("train") else BudgetPlan.open(run)
    if present is not None:
        _check_same(run, present.request, request)
        progress.note(f"the plan for {plan.budget} goes on as it stands")
        made = present.carried_on(run)
    else:
        progress.note("measuring the pace of each model on this machine and this graph")
        made = _new_plan(plan, dataset, execution, began, request)
        if execution.repeats("train"):
            request_retraining(run, made.settings)
        made.save(run)
    progress.note("\n" + made.table().to_text())
    return made


def _new_plan(
    plan: Plan, dataset: Dataset, execution: "Execution", began: float, request: dict[str, Any]
) -> BudgetPlan:
    seconds = parse_budget(str(plan.budget))
    places = training_places(execution.devices, execution.jobs)
    presets = _presets_of(plan, dataset.name, on_cpu=execution.on_cpu)
    # The search first: the workers that measure the models then train them, and are not started again.
    search = rehearse_search(dataset, len(presets), plan.methods, execution.jobs) * (1 + AFTER_SEARCH)
    paces = measure_paces(dataset, _once(presets), places, seconds)
    paces = {name: paces.get(name) or paces[_twin(presets, name)] for name in presets}
    ranked = 2 * (len(dataset.valid) + len(dataset.test)) / max(1, 2 * len(dataset.valid))
    kept = {name: _kept(plan, name, found[0][1]) for name, found in presets.items()}
    first = {name: sizes_of(found, paces[name], ranked, kept[name]) for name, found in presets.items()}
    then = {}
    if plan.seeds is None:
        largest = {name: found[-1].settings for name, found in first.items()}
        seeded = with_seeds(largest, MOST_SEEDS)
        for name in (name for name in seeded if name not in first):
            twin = next(each for each in first if replace(seeded[name], seed=largest[each].seed) == largest[each])
            then[name] = [replace(first[twin][-1], settings=seeded[name])]
            paces[name] = paces[twin]
    left = AIM * seconds - (time.time() - began)
    room = Room(left, len(places), per_member=search / len(first))
    made = make_plan(Offer(first, then, paces, plan.models is not None), room, request, seconds)
    return replace(made, deadline=began + AIM * seconds - made.after)


def keep_lengths(run: Run, budget: BudgetPlan) -> Iterator[str]:
    """Keep a plan with the lengths that its trainings had; yield a sentence for each that differs from the plan."""
    done = budget.carried_on(run)
    done.save(run)
    for name, member in done.members.items():
        planned, steps = budget.members[name].settings.steps, member.settings.steps
        if steps != planned:
            why = "more time was left" if steps > planned else "less time was left"
            yield f"{name} was trained for {steps:,} steps instead of {planned:,}: {why} than planned"


def _presets_of(plan: Plan, dataset: str, *, on_cpu: bool) -> dict[str, Presets]:
    """Return the settings of each member in the presets that a budget may choose from."""
    ladder = (plan.preset,) if plan.preset else LADDER
    found = [settings_of(replace(plan, preset=preset), dataset, on_cpu=on_cpu) for preset in ladder]
    return {
        name: [(preset, settings[name]) for preset, settings in zip(ladder, found, strict=True)] for name in found[0]
    }


def _once(presets: Mapping[str, Presets]) -> dict[str, Presets]:
    """Return one member of those that differ in their seeds alone."""
    return {name: found for name, found in presets.items() if _twin(presets, name) == name}


def _twin(presets: Mapping[str, Presets], name: str) -> str:
    """Return the first member with the same settings as one but the seed."""

    def without_seed(found: Presets) -> list[TrainSettings]:
        return [replace(settings, seed=0) for _, settings in found]

    return next(other for other in presets if without_seed(presets[other]) == without_seed(presets[name]))


def _kept(plan: Plan, name: str, settings: TrainSettings) -> tuple[str, ...]:
    """Return the settings of a member that the user chose."""
    known = {*FIELDS, *MODELS.find(settings.model).options}
    return tuple(sorted({key_of(text) for text in changes_of(plan, name, known)}))


def _request(plan: Plan, dataset: Dataset, execution: "Execution") -> dict[str, Any]:
    """Return what the user fixed, and what a plan was measured on."""
    return {
        "budget": plan.budget,
        "models": None if plan.models is None else list(plan.models),
        "preset": plan.preset,
        "changes": list(plan.all_changes),
        "seed": plan.seed,
        "seeds": plan.seeds,
        "device": execution.devices[0].type,
        "fingerprint": dataset.fingerprint,
    }


def _check_same(run: Run, found: dict[str, Any], request: dict[str, Any]) -> None:
    changed = [key for key, value in request.items() if found.get(key) != value]
    if changed:
        was = ", ".join(f"{key} {found.get(key)!r} instead of {request[key]!r}" for key in changed)
        raise InputError(
            f"{run.path / PLAN} is a plan with {was}: choose another run with `run=PATH`, repeat the command that made "
            f"it, or pass `force=train` to plan and train anew"
        )
