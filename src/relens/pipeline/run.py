"""From a graph to a report: train, rank, search, evaluate, report; what is complete and unchanged is left alone."""

from collections.abc import Collection, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from relens import __version__
from relens.comparison import Comparison, compare, parse_spec
from relens.data.catalog import load_dataset
from relens.data.checks import check_splits, sampled_validation, suspicions
from relens.data.dataset import Dataset
from relens.data.queries import EVALUATED
from relens.ensemble.settings import SearchSettings
from relens.errors import InputError, nearest
from relens.files import read_json, write_json
from relens.models import MODELS
from relens.pipeline.devices import check_devices, training_places
from relens.pipeline.plan import Plan
from relens.pipeline.ranking import made_by, rank_models
from relens.pipeline.side_by_side import Listener, train_side_by_side
from relens.pipeline.stages import STAGES, Stage
from relens.pipeline.training import (
    report_kept_on_interrupt,
    request_retraining,
    tidy_models,
    trained_model,
    training_progress,
)
from relens.presets import default_preset
from relens.progress import SILENT, Progress
from relens.runs import COMPARISON, RECORD, Run, is_name
from relens.training.presets import resolve_settings
from relens.training.settings import FIELDS, TrainSettings
from relens.training.trained import TrainedModel


def run_plan(
    plan: Plan,
    path: Path | None,
    *,
    devices: Sequence[torch.device],
    jobs: int = 1,
    force: Collection[str] = (),
    offline: bool = False,
    report: bool = True,
    progress: Progress = SILENT,
    listener: Listener = lambda name, device, record: None,
) -> tuple[Run, Comparison]:
    """Do what a plan says, and return the run, and how models and methods compare on test.

    The same call goes on where an interrupted one stopped. A stage is done again where anything it is made from has
    changed; a model with other settings is refused, as training may have taken hours.

    Args:
        plan: what to do.
        path: of the run, which is made if it is not there; None for ``runs/`` and the name of the data set.
        devices: that models are trained on, a model at a time on each, all of one kind; the first one ranks, too. The
            CPU alone trains ``jobs`` models at a time.
        jobs: workers of the search, and of training on the CPU.
        force: stages to do again. A model stays until its successor is complete; if that is interrupted, a call without
            ``force`` finishes it.
        offline: never download the data set.
        report: write the report, too.
        progress: where to show it, and what is noted on the way: sizes, stages, and what is suspicious about the data.
        listener: is handed the records of training; it may be called in other processes.
    """
    _check(plan, force, report)
    check_devices(devices)
    dataset = load_dataset(plan.dataset, offline=offline, progress=progress)
    settings = settings_of(plan, dataset.name, on_cpu=devices[0].type == "cpu")
    for asked in settings.values():
        _check_options(asked)
    check_splits(dataset, "valid", "test")
    path = path or Path("runs") / dataset.name
    _announce(plan, dataset, path, devices, progress)
    run = open_or_create(path, dataset)
    with run.held(), report_kept_on_interrupt(run, settings):
        tidy_models(run)
        trained = _train(
            run, plan, dataset, settings, training_places(devices, jobs), "train" in force, progress, listener
        )
        candidates = {split: found.digest for split, found in dataset.candidates.items()}
        made_from = [made_by(trained, devices[0]), dataset.fingerprint, candidates, __version__]
        stage = Stage(run, "rank", made_from, lambda: _ranks(run))
        if "rank" in force or not stage.complete:
            stage.begin()
            progress.note("ranking the validation and test queries")
            rank_models(run, dataset, trained, device=devices[0], force=True, progress=progress)
            stage.done()
        stage = Stage(run, "search", [_ranks(run), plan.methods, plan.seed, __version__], lambda: _results(run))
        if "search" in force or not stage.complete:
            stage.begin()
            progress.note(f"searching weights by {len(plan.methods)} methods on validation, and judging all on test")
            _search(run, plan, jobs, progress)
            stage.done()
        if report:
            _report(run, "report" in force, progress)
        return run, Comparison.from_json(read_json(run.path / COMPARISON, "comparison"))


def preset_of(plan: Plan, *, on_cpu: bool) -> str:
    """Return the preset that the models of a plan start from."""
    return plan.preset or default_preset(on_cpu=on_cpu)


def settings_of(plan: Plan, dataset: str, *, on_cpu: bool) -> dict[str, TrainSettings]:
    """Return the settings of each model of a plan, by name; a change that no model understands is refused."""
    preset = preset_of(plan, on_cpu=on_cpu)
    base = {name: _base_model(plan, name) for name in plan.models}
    known = {name: {*FIELDS, *MODELS[model].options} for name, model in base.items()}
    every = sorted(set().union(*known.values()))
    for text in plan.changes:
        if not any(_key(text) in keys for keys in known.values()):
            raise InputError(
                f"{text!r} changes a setting that no model has; {nearest(_key(text), every, show_all=True)}"
            )
    return {
        name: resolve_settings(dataset, model, preset, [f"seed={plan.seed}", *_changes(plan, name, known[name])])
        for name, model in base.items()
    }


def _base_model(plan: Plan, name: str) -> str:
    """Return the model behind a name: the one that its change ``model=…`` says, or its namesake."""
    own = (text.partition("=")[2].strip() for text in plan.model_changes.get(name, ()) if _key(text) == "model")
    return MODELS.find(next(own, name)).name


def _changes(plan: Plan, name: str, known: Collection[str]) -> list[str]:
    """Return the changes that concern a model, those for all before its own."""
    shared = [text for text in plan.changes if _key(text) in known]
    return shared + [text for text in plan.model_changes.get(name, ()) if _key(text) != "model"]


def _key(change: str) -> str:
    return change.partition("=")[0].strip()


def open_or_create(path: Path, dataset: Dataset) -> Run:
    """Open the run at a path, or make it; one of another data set is refused."""
    if not (path / RECORD).is_file():
        return Run.create(path, dataset.name)
    run = Run.open(path)
    if run.dataset != dataset.name:
        raise InputError(f"{path} is a run on {run.dataset!r}, not on {dataset.name!r}: choose another with --run")
    return run


def _announce(plan: Plan, dataset: Dataset, path: Path, devices: Sequence[torch.device], progress: Progress) -> None:
    """Say what is about to be done, and what is suspicious about the data."""
    sizes = ", ".join(f"{n:,} {what}" for what, n in dataset.counts.items())
    progress.note(f"data set {dataset.name}: {sizes} triples")
    preset, where = preset_of(plan, on_cpu=devices[0].type == "cpu"), ", ".join(map(str, devices))
    progress.note(f"run {path}: {', '.join(plan.models)}; preset {preset}, seed {plan.seed}, on {where}")
    for text in sampled_validation(dataset):
        progress.note(text)
    for text in suspicions(dataset):
        progress.note(f"warning: {text}")


def _train(
    run: Run,
    plan: Plan,
    dataset: Dataset,
    settings: dict[str, TrainSettings],
    places: Sequence[torch.device],
    force: bool,
    progress: Progress,
    listener: Listener,
) -> dict[str, TrainedModel]:
    """Train what is not trained yet, or all with ``force``, and return all models by name."""
    if force:
        request_retraining(run, settings)
    wanted = {name: asked for name, asked in settings.items() if trained_model(run, name, asked, dataset) is None}
    found = {name: training_progress(run, name, asked) for name, asked in settings.items()}
    if any(found.values()):
        for name, how in found.items():
            progress.note(f"{name}: {'begins' if not how else how if name not in wanted else f'goes on at {how}'}")
    if wanted:
        progress.note(f"training {len(wanted)} {'model' if len(wanted) == 1 else 'models'}")
        train_side_by_side(run, dataset, plan.dataset, wanted, places=places, listener=listener)
    return {name: TrainedModel.open(run.model_path(name) / "trained") for name in settings}


def _search(run: Run, plan: Plan, jobs: int, progress: Progress) -> None:
    """Fit every method on validation, judge all on test, and keep weights and results."""
    settings = SearchSettings(seed=plan.seed)
    found = compare(
        run.ranks("valid"), run.ranks("test"), plan.methods, settings=settings, jobs=jobs, progress=progress
    )
    for name, weights in found.weights.items():
        weights.save(run.weights_path(_file_name(name)))
    write_json(run.path / COMPARISON, found.to_json())


def _file_name(method: str) -> str:
    """Return a method's name as the name of a file: ``dsc:input=rank`` becomes ``dsc+input-rank``."""
    return method.replace(":", "+").replace(",", "+").replace("=", "-").replace(" (ensemble)", "+ensemble")


def _report(run: Run, force: bool, progress: Progress) -> None:
    from relens.reports import write_report

    page = run.path / "report" / "index.html"
    stage = Stage(run, "report", [_results(run), __version__], page.is_file)
    if force or not stage.complete:
        stage.begin()
        progress.note("writing the report")
        write_report(run, page.parent, progress=progress)
        stage.done()


def _ranks(run: Run) -> dict[str, Any]:
    """Return the identity of the run's ranks."""
    return {split: run.ranks(split).digest for split in EVALUATED if run.has_ranks(split)}


def _results(run: Run) -> list[str]:
    """Return the identity of what the search left: digests of the comparison and of all weights."""
    paths = [run.path / COMPARISON, *map(run.weights_path, run.weights_names())]
    return [sha256(path.read_bytes()).hexdigest() if path.is_file() else "" for path in paths]


def _check_options(settings: TrainSettings) -> None:
    """Refuse options that do not go together before any model is trained: a model of two entities tells."""
    MODELS.find(settings.model).build(2, 1, settings.options, torch.tensor([[0, 0, 1]]))


def _check(plan: Plan, force: Collection[str], report: bool) -> None:
    """Refuse now what would be refused after hours of training."""
    for name in force:
        if name not in STAGES:
            raise InputError(f"unknown stage {name!r}; {nearest(name, STAGES)}")
    for method in plan.methods:
        parse_spec(method, SearchSettings())
        if not is_name(_file_name(method)):
            raise InputError(f"the weights of {method!r} cannot be kept: its settings have signs that file names lack")
    if report:
        from relens.reports import check_extra

        check_extra()
