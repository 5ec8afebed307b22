"""From a graph to a report: train, rank, search, evaluate, report. Complete and unchanged stages are skipped."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from relens import __version__
from relens.checksums import file_checksum
from relens.comparison import compare, parse_spec, weights_name
from relens.data.checks import check_splits, sampled_validation, suspicions
from relens.data.dataset import Dataset
from relens.data.queries import EVALUATED
from relens.devices import check_devices, training_places
from relens.ensemble.settings import SearchSettings
from relens.errors import InputError, WeightsError, counted, nearest
from relens.files import write_json
from relens.packs.store import MANIFEST
from relens.pipeline.budget import BudgetPlan
from relens.pipeline.budgeting import check_budget, keep_lengths, settle
from relens.pipeline.measuring import expected_seconds
from relens.pipeline.narrower import check_losses
from relens.pipeline.plan import Plan, load_graph
from relens.pipeline.planner import makespan
from relens.pipeline.ranking import made_by, rank_models
from relens.pipeline.resolving import check_options, preset_of, settings_of
from relens.pipeline.stages import STAGES, Stage
from relens.pipeline.training import (
    report_kept_on_interrupt,
    request_retraining,
    retrain_damaged,
    tidy_models,
    train_side_by_side,
    trained_model,
    training_progress,
)
from relens.progress import SILENT, Progress
from relens.runs import Run, is_name
from relens.training.checkpoint import newest_step
from relens.training.log import LOG, LogRecord, read_log, readable_duration, rising
from relens.training.settings import TrainSettings
from relens.training.trained import TrainedModel

LONG_TRAINING_S = 600.0
"""Training on a CPU that takes longer than this is announced before it begins."""


@dataclass(frozen=True)
class TrainingUpdate:
    """A record of the training of one model of a run.

    Attributes:
        model: the name of the model in the run.
        number: its position among the models of the run, from 1.
        n_models: how many models the run has.
        steps: how many steps it trains at most.
        device: the device it is trained on.
        record: the record of its log.
    """

    model: str
    number: int
    n_models: int
    steps: int
    device: torch.device
    record: LogRecord

    @property
    def seconds_left(self) -> float:
        """The time that the remaining steps take at the speed so far; early stopping may need less."""
        return self.record.seconds * (self.steps - self.record.step) / max(1, self.record.step)


TrainingListener = Callable[[TrainingUpdate], None]
"""A function that receives updates. It may be called in other processes."""


def ignore_update(update: TrainingUpdate) -> None:
    """Do nothing."""
    del update


@dataclass(frozen=True)
class Execution:
    """How a plan is carried out; results do not depend on it, except for the kind of device.

    Attributes:
        devices: where models are trained, one model at a time on each, all of one kind. The first one also ranks. A
            single CPU trains ``jobs`` models at a time.
        jobs: workers of the search, and of training on the CPU.
        force: stages to repeat, or ``all``. A model stays until its successor is complete; if that training is
            interrupted, a call without ``force`` finishes it.
        offline: never download the data set.
        report: write the report.
        trust: load members of others, which runs their code, if the run has some that must be ranked again.
        progress: receives progress and notes: sizes, stages, and suspicious properties of the data.
        listener: receives the records of training.
    """

    devices: Sequence[torch.device]
    jobs: int = 1
    force: Collection[str] = ()
    offline: bool = False
    report: bool = True
    trust: bool = False
    progress: Progress = SILENT
    listener: TrainingListener = ignore_update

    def repeats(self, stage: str) -> bool:
        """Say whether a stage is repeated even if it is complete."""
        return stage in self.force or "all" in self.force

    @property
    def on_cpu(self) -> bool:
        """Whether models run on the CPU."""
        return self.devices[0].type == "cpu"


def run_plan(plan: Plan, path: Path | None, execution: Execution) -> Run:
    """Carry out a plan and return the run, whose ``comparison()`` has the results on test.

    The same call resumes an interrupted one. A stage is repeated if any of its inputs has changed. A trained model with
    other settings raises an error instead, because its training may have taken hours.

    Args:
        plan: what to do.
        path: the folder of the run, which is made if missing; None for ``runs/`` and the name of the data set.
        execution: devices, workers, stages to repeat, and where progress goes.
    """
    began = time.time()
    _check(plan, execution)
    check_devices(execution.devices)
    dataset = load_graph(plan.dataset, path, offline=execution.offline, progress=execution.progress)
    settings = settings_of(plan, dataset.name, on_cpu=execution.on_cpu)
    for model_settings in settings.values():
        check_options(model_settings)
    check_budget(plan, dataset.name, on_cpu=execution.on_cpu)
    check_splits(dataset, "valid", "test")
    path = path or Path("runs") / dataset.name
    _announce(plan, dataset, list(settings), path, execution)
    run = Run.open_or_create(path, dataset.name)
    with run.held():
        budget = None if plan.budget is None else settle(run, plan, dataset, execution, began)
        _carry_out(run, plan, dataset, budget or settings, execution)
    if budget is not None:
        execution.progress.note(budget.used(time.time() - began))
    return run


def _carry_out(
    run: Run, plan: Plan, dataset: Dataset, planned: BudgetPlan | dict[str, TrainSettings], execution: Execution
) -> None:
    """Do the stages of a run, which the caller holds, that are not complete."""
    settings = planned.settings if isinstance(planned, BudgetPlan) else planned
    with report_kept_on_interrupt(run, settings):
        check_losses(
            run, [*settings, *_others(run)], plan.methods, STAGES if "all" in execution.force else execution.force
        )
        tidy_models(run)
        trained = _train(run, dataset, planned, execution)
        _rank(run, dataset, trained, execution)
        _search(run, plan, execution)
        _calibrate(run, execution)
        if execution.report:
            _report(run, execution)


def _announce(plan: Plan, dataset: Dataset, models: list[str], path: Path, execution: Execution) -> None:
    """Note what is about to be done, and suspicious properties of the data."""
    progress = execution.progress
    sizes = ", ".join(f"{n:,} {what}" for what, n in dataset.counts.items())
    progress.note(f"data set {dataset.name}: {sizes} triples")
    preset, where = preset_of(plan, on_cpu=execution.on_cpu).name, ", ".join(map(str, execution.devices))
    if plan.budget is None:
        progress.note(f"run {path}: {', '.join(models)}; preset {preset}, seed {plan.seed}, on {where}")
    else:
        progress.note(f"run {path}: a budget of {plan.budget} for {', '.join(models)}; seed {plan.seed}, on {where}")
    for text in sampled_validation(dataset):
        progress.note(text)
    for text in suspicions(dataset):
        progress.note(f"warning: {text}")


def _train(
    run: Run, dataset: Dataset, planned: BudgetPlan | dict[str, TrainSettings], execution: Execution
) -> dict[str, TrainedModel]:
    """Train the models that are not trained yet, or all if the stage is repeated; return all models by name."""
    budget = planned if isinstance(planned, BudgetPlan) else None
    settings = planned.settings if isinstance(planned, BudgetPlan) else planned
    if execution.repeats("train") and budget is None:  # a new plan has done it
        request_retraining(run, settings)
    retrain_damaged(run, settings, execution.progress)
    wanted = {name: asked for name, asked in settings.items() if trained_model(run, name, asked, dataset) is None}
    run.keep_graph(dataset)
    found = {name: training_progress(run, name, asked) for name, asked in settings.items()}
    if any(found.values()):
        for name, how in found.items():
            state = "begins" if not how else how if name not in wanted else f"resumes at {how}"
            execution.progress.note(f"{name}: {state}")
    if wanted:
        execution.progress.note(f"training {counted(len(wanted), 'model')}")
        places = training_places(execution.devices, execution.jobs)
        if budget is None and execution.on_cpu:
            _announce_time(run, dataset, wanted, len(places), execution)
        listener = partial(_pass_on, execution.listener, settings)
        timetable = None if budget is None else budget.timetable(run, list(wanted))
        if timetable is not None:
            wanted = {name: wanted[name] for name in timetable.expected}  # the longest first
        train_side_by_side(
            run, dataset, wanted, places=places, listener=listener, timetable=timetable, progress=execution.progress
        )
    if budget is not None and wanted:
        for text in keep_lengths(run, budget):
            execution.progress.note(text)
    for name in wanted:
        if text := rising(name, read_log(run.model_path(name) / LOG)):
            execution.progress.note(text)
    return {name: run.model(name) for name in settings}


def _announce_time(
    run: Run, dataset: Dataset, wanted: dict[str, TrainSettings], places: int, execution: Execution
) -> None:
    """Note how long training on a CPU will take, before it begins, if it takes long."""
    expected = expected_seconds(dataset, wanted, execution.devices[0])
    left = {name: expected[name] * (1 - newest_step(run.model_path(name)) / wanted[name].steps) for name in expected}
    total = makespan(list(left.values()), places)
    if total >= LONG_TRAINING_S:
        parts = ", ".join(f"{name} {readable_duration(seconds)}" for name, seconds in left.items())
        execution.progress.note(
            f"warning: training will take about {readable_duration(total)} on this machine, {places} at a time: "
            f"{parts}. `preset=demo` takes less, and `budget=15m` chooses sizes that take 15 minutes. An interruption "
            f"keeps checkpoints."
        )


def _pass_on(
    listener: TrainingListener,
    settings: dict[str, TrainSettings],
    name: str,
    device: torch.device,
    record: LogRecord,
) -> None:
    """Tell a listener about a record, with the position of the model in the run."""
    number = list(settings).index(name) + 1
    listener(TrainingUpdate(name, number, len(settings), record.steps, device, record))


def _rank(run: Run, dataset: Dataset, trained: dict[str, TrainedModel], execution: Execution) -> None:
    """Rank the validation and test queries with all models, and with the members of others that the run has."""
    device = execution.devices[0]
    members = {**trained, **{name: run.member(name) for name in _others(run)}}
    candidates = {split: found.digest for split, found in dataset.candidates.items()}
    made_from = [made_by(members, device.type), dataset.fingerprint, candidates, __version__]

    def work() -> list[Path]:
        execution.progress.note("ranking the validation and test queries")
        rank_models(
            run, dataset, models=members, device=device, force=True, trust=execution.trust, progress=execution.progress
        )
        return _files(run.path / "ranks")

    stage = Stage(run, "rank", made_from, lambda: (made_from, _digests_of_answers(run)))
    stage.ensure(work, repeat=execution.repeats("rank"))


def _others(run: Run) -> list[str]:
    """Return the names of the members that relens did not train."""
    return [name for name in run.member_names if name not in run.model_names]


def _search(run: Run, plan: Plan, execution: Execution) -> None:
    """Fit every method on validation, evaluate all on test, and keep weights and results."""

    def work() -> list[Path]:
        methods = counted(len(plan.methods), "method")
        execution.progress.note(f"searching weights by {methods} on validation, and evaluating all on test")
        found = compare(
            run.ranks("valid"), run.ranks("test"), plan.methods,
            settings=SearchSettings(seed=plan.seed), jobs=execution.jobs, progress=execution.progress,
        )  # fmt: skip
        for name, weights in found.weights.items():
            run.keep_weights(weights_name(name), weights)
        write_json(run.comparison_path, found.to_json())
        return [run.comparison_path, *(run.weights_path(weights_name(name)) for name in found.weights)]

    def described(ranks: Any) -> list[Any]:
        return [ranks, plan.methods, plan.seed, __version__]

    # The stage before this one has verified the arrays, whose checksums are in the manifests.
    manifests = {split: file_checksum(run.ranks_path(split) / MANIFEST) for split in EVALUATED}
    stage = Stage(run, "search", described(manifests), lambda: (described(_digests_of_answers(run)), _results(run)))
    stage.ensure(work, repeat=execution.repeats("search"))


def _calibrate(run: Run, execution: Execution) -> None:
    """Calibrate the confidence of predictions by the default weights, unless ranks are among sampled candidates."""
    if run.ranks("valid").provenance.candidates != "all":
        return
    from relens.prediction.calibrating import calibrate_run

    try:
        name = run.choose_weights()
    except WeightsError:  # several, and none is the default
        execution.progress.note(
            f"the confidence is not calibrated: `relens calibrate {run.path} --weights NAME` does it"
        )
        return
    if set(run.weights(name).models) & set(_others(run)):
        execution.progress.note(
            f"the confidence is not calibrated, which would run code of others: `relens calibrate {run.path} --trust`"
        )
        return

    def work() -> list[Path]:
        execution.progress.note("calibrating the confidence of predictions on validation")
        device = str(execution.devices[0])
        found = calibrate_run(run, name, device, costly=False, progress=execution.progress)
        if found.thresholds is None:
            execution.progress.note(
                f"thresholds of verdicts and the scale of relations take a pass of a model for each question: `relens "
                f"calibrate {run.path}` fits them, or the first question that needs them"
            )
        return list(found.files)

    made_from = [file_checksum(run.weights_path(name)), (run.made_by() or {}).get("models"), __version__]
    stage = Stage(run, "calibrate", made_from, lambda: (None, None))
    stage.ensure(work, repeat=execution.repeats("calibrate"))


def _report(run: Run, execution: Execution) -> None:
    """Write the report."""
    from relens.reports import write_report
    from relens.reports.write import CURVES

    folder, curves = run.report_path, run.path / CURVES

    def work() -> list[Path]:
        execution.progress.note("writing the report")
        write_report(run, folder, progress=execution.progress)
        return [*_files(folder), *_files(run.path / "reliability"), *([curves] if curves.is_file() else [])]

    made_from = [file_checksum(run.comparison_path), _calibrations(run), __version__]
    stage = Stage(run, "report", made_from, lambda: ([_results(run), __version__], (folder / "index.html").is_file()))
    repeat = execution.repeats("report")
    if stage.lists(curves) and not curves.is_file() and not repeat:
        raise InputError(
            f"{curves} is missing, and the report shows these learning curves: measure them again with `relens report "
            f"{run.path} --curves`, or pass `force=report` for a report without them."
        )
    stage.ensure(work, repeat=repeat)


def _calibrations(run: Run) -> list[str]:
    """Return the checksums of the calibrations that the run keeps."""
    return [file_checksum(path) for path in sorted((run.path / "calibrations").glob("*.json"))]


def _files(folder: Path) -> list[Path]:
    """Return all files in a folder and below it."""
    return [path for path in folder.rglob("*") if path.is_file()]


def _digests_of_answers(run: Run) -> dict[str, Any]:
    """Return what the records of an older relens say about the run's ranks."""
    return {split: run.ranks(split).digest_of_answers for split in EVALUATED if run.has_ranks(split)}


def _results(run: Run) -> list[str]:
    """Return what the records of an older relens say about the comparison and the weights."""
    paths = [run.comparison_path, *map(run.weights_path, run.weights_names)]
    return [sha256(path.read_bytes()).hexdigest() if path.is_file() else "" for path in paths]


def _check(plan: Plan, execution: Execution) -> None:
    """Raise errors now that would otherwise come after hours of training."""
    for name in execution.force:
        if name not in (*STAGES, "all"):
            raise InputError(f"unknown stage {name!r}; {nearest(name, (*STAGES, 'all'))}")
    for method in plan.methods:
        parse_spec(method, SearchSettings())
        if not is_name(weights_name(method)):
            raise InputError(
                f"the weights of {method!r} cannot be kept: its settings have characters that file names lack"
            )
    if execution.report:
        from relens.reports import check_extra

        check_extra()
