"""The verbs of the command line as Python functions.

``run``, ``train``, ``rank``, ``report``, ``predict`` and ``upgrade`` work on runs; each takes a ``Run`` or its path.
``search``, ``evaluate`` and ``compare`` work on packed ranks, such as ``open_run(path).ranks("valid")``. They are
defined in ``relens.ensemble``, ``relens.evaluation`` and ``relens.comparison``. ``relens`` exports all of them.
"""

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from relens.comparison import DEFAULT_SPECS
from relens.data.catalog import load_dataset
from relens.devices import pick_device, pick_devices
from relens.ensemble.inputs import INPUTS
from relens.ensemble.objective import model_mrrs
from relens.errors import InputError
from relens.evaluation import Evaluation, evaluate
from relens.pipeline.plan import Plan
from relens.prediction import Ensemble, Facts, KnownFacts, Predictions
from relens.prediction.candidates import CandidatesOption, with_candidates
from relens.prediction.opening import check_models, check_ranks, graph_of, ranked_device
from relens.presets import default_preset
from relens.progress import SILENT, Advance, Progress
from relens.runs import Run, open_run

if TYPE_CHECKING:
    from relens.pipeline.run import TrainingListener
    from relens.training.log import LogRecord
    from relens.training.loop import TrainingObserver
    from relens.training.trained import TrainedModel


def run(
    dataset: str | Path,
    *,
    models: Sequence[str] | None = None,
    preset: str | None = None,
    run: Run | Path | str | None = None,
    device: str = "auto",
    jobs: int | None = None,
    seed: int = 0,
    methods: Sequence[str] = DEFAULT_SPECS,
    changes: Sequence[str] = (),
    force: str | Collection[str] = (),
    offline: bool = False,
    report: bool = True,
    progress: Progress = SILENT,
    listener: "TrainingListener | None" = None,
) -> Run:
    """Train models on a graph, rank, search weights, evaluate, and write a report.

    The same call resumes an interrupted one, and skips everything that is complete and unchanged.

    Args:
        dataset: a name, or a folder with ``train.txt``, ``valid.txt`` and ``test.txt``.
        models: names of models, in the order of the rank arrays; None for the members of the preset, which are the
            six models of the paper, or with ``strong`` a stronger set.
        preset: training settings to start from; None for ``demo`` on the CPU and ``best`` on a GPU.
        run: the run, which is made if missing; None for ``runs/`` and the name of the data set.
        device: ``auto``, ``cpu``, ``cuda``, or a list such as ``cuda:0,cuda:1``: each trains one model at a time.
        jobs: workers of the search, and of training on the CPU; None for all cores.
        seed: the root of all randomness.
        methods: ensemble methods to compare, with settings: ``dsc`` or ``dsc:input=rank,regularise=none``.
        changes: settings to change: ``key=value`` for all models that have it, ``model.key=value`` for one.
        force: stages to repeat: ``train``, ``rank``, ``search``, ``report``, or ``all``.
        offline: never download the data set.
        report: write ``report/index.html``.
        progress: receives progress and notes.
        listener: receives each training record, perhaps in another process.

    Returns:
        The run. ``run.comparison()`` has the results on test, ``run.weights("dsc")`` the weights.

    For example::

        run = relens.run("patterns", models=["transe", "complex"], changes=["steps=200", "complex.dim=64"])
        print(run.comparison().best_single)
    """
    devices = pick_devices(device)  # first: it says how to install torch
    from joblib import cpu_count

    from relens.pipeline.run import Execution, ignore_update, run_plan

    names = None if models is None else tuple(models)
    plan = Plan(str(dataset), names, preset, methods=tuple(methods), seed=seed).with_changes(changes)
    execution = Execution(
        devices=devices,
        jobs=cpu_count() if jobs is None else jobs,
        force=(force,) if isinstance(force, str) else force,
        offline=offline,
        report=report,
        progress=progress,
        listener=listener or ignore_update,
    )
    return run_plan(plan, _path(run), execution)


def train(
    dataset: str | Path,
    *,
    model: str,
    preset: str | None = None,
    changes: Sequence[str] = (),
    run: Run | Path | str | None = None,
    name: str | None = None,
    device: str = "auto",
    seed: int = 0,
    offline: bool = False,
    force: bool = False,
    progress: Progress = SILENT,
) -> "TrainedModel":
    """Train one model and keep it in a run. The parameters with the best validation MRR are kept.

    The same call resumes an interrupted training, and returns a complete model at once.

    Args:
        dataset: a name, or a folder with ``train.txt``, ``valid.txt`` and ``test.txt``.
        model: the name of a base model, such as ``complex``.
        preset: training settings to start from; None for ``demo`` on the CPU and ``best`` on a GPU.
        changes: settings to change, ``key=value``.
        run: the run, which is made if missing; None for ``runs/`` and the name of the data set.
        name: the name of the model in the run; None for that of the base model.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        seed: the root of all randomness.
        offline: never download the data set.
        force: train again from the beginning.
        progress: receives progress and notes.

    Returns:
        The trained model; ``load`` returns it as a torch module.

    For example::

        trained = relens.train("patterns", model="complex", preset="demo", changes=["dim=64"])
        print(trained.result["best_mrr"])
    """
    chosen = pick_device(device)  # first: it says how to install torch
    from relens.data.checks import check_splits, sampled_validation
    from relens.pipeline.training import (
        request_retraining,
        retrain_damaged,
        tidy_models,
        train_in_run,
        training_progress,
    )
    from relens.training.presets import resolve_settings

    graph = load_dataset(dataset, offline=offline, progress=progress)
    preset = preset or default_preset(on_cpu=chosen.type == "cpu")
    settings = resolve_settings(graph.name, model, preset, [*changes, f"seed={seed}"])
    check_splits(graph, "valid")
    target = Run.open_or_create(_path(run) or Path("runs") / graph.name, graph.name)
    tidy_models(target)
    name = name or settings.model
    if force:
        request_retraining(target, [name])
    retrain_damaged(target, [name], progress)
    state = training_progress(target, name, settings)
    if state == "complete":
        progress.note(f"{target.model_path(name)} is already trained")
        return train_in_run(target, graph, str(dataset), settings, name=name)
    resuming = f", resuming at {state}" if state else ""
    progress.note(f"training {name}: preset {preset}, {settings.steps:,} steps on {chosen}{resuming}")
    for text in sampled_validation(graph):
        progress.note(text)
    with progress.task(f"training {name}", settings.steps) as advance:
        observer = _observer(progress, advance)
        return train_in_run(target, graph, str(dataset), settings, name=name, device=chosen, observer=observer)


def _observer(progress: Progress, advance: Advance) -> "TrainingObserver":
    """Return an observer that advances a task and notes each validation, and training that takes long."""
    from relens.training.log import readable_duration
    from relens.training.loop import TrainingObserver

    done = 0

    def record(found: "LogRecord") -> None:
        nonlocal done
        advance(found.step - done)
        done = found.step
        if found.mrr is not None:
            progress.note(found.describe())

    def takes_long(seconds_left: float) -> None:
        progress.note(
            f"warning: about {readable_duration(seconds_left)} left at this pace. `preset=demo`, for CPUs, has smaller "
            f"models and fewer steps. An interruption keeps a checkpoint."
        )

    return TrainingObserver(record=record, takes_long=takes_long)


def rank(
    run: Run | Path | str,
    *,
    models: Sequence[str] | None = None,
    device: str = "auto",
    candidates: CandidatesOption | None = None,
    into: Run | Path | str | None = None,
    gaps: bool = True,
    force: bool = False,
    progress: Progress = SILENT,
) -> Run:
    """Rank the validation and test queries with trained models of a run, and keep packed ranks.

    All models rank a query at the same time, so no (queries, entities) matrix is ever written. Known answers of train,
    valid and test are removed. If the data set has its own candidates (OGB's do), answers compete with those only.

    Args:
        run: a run with trained models.
        models: names of trained models, in the order of the rank arrays; None for all, sorted.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        candidates: rank among these only: ``observed`` (the entities that train has on that side of the relation),
            ``types`` (those that share a type with one of them, by the data set's ``types.tsv``), a file or a list of
            entities, or a folder that ``relens data sample-negatives`` made.
        into: the run that receives the ranks, made if missing; None for ``run`` itself.
        gaps: keep score gaps beside the ranks.
        force: replace existing ranks.
        progress: receives progress and notes.

    Returns:
        The run with the ranks: ``ranks("valid")`` and ``ranks("test")``.

    For example::

        run = relens.rank("runs/patterns", models=["complex", "rotate"], force=True)
        weights = relens.search(run.ranks("valid"))
    """
    chosen = pick_device(device)  # first: it says how to install torch
    from relens.pipeline.ranking import rank_models

    with open_run(run).held() as source:
        names = models or source.model_names
        if not names:
            raise InputError(
                f"{source.path} has no trained models: train some with `relens train {source.dataset} --model NAME`"
            )
        trained = {name: source.model(name) for name in names}
        dataset = load_dataset(trained[names[0]].source)
        dataset = with_candidates(dataset, candidates)
        target = source if into is None else Run.open_or_create(_path(into) or Path(), dataset.name)
        with nullcontext() if into is None else target.held():
            rank_models(target, dataset, trained, device=chosen, gaps=gaps, force=force, progress=progress)
    return Run.open(target.path)


def evaluate_among(
    run: Run | Path | str,
    candidates: CandidatesOption,
    *,
    weights: str | None = None,
    model: str | None = None,
    split: str = "test",
    device: str = "auto",
    seed: int = 0,
    jobs: int = 1,
    progress: Progress = SILENT,
) -> Evaluation:
    """Evaluate the weights of a run, or one of its models, among other candidates than its ranks.

    The models rank the queries again; the ranks of the run stay as they are, and nothing is written into it. An answer
    competes with the candidates that are no other known answers, whether it is one of them or not. The provenance of
    the result names the candidates, and counts the answers outside of them.

    Args:
        run: a run with trained models, and weights unless ``model`` is given.
        candidates: as in ``rank``.
        weights: the name of the weights; None for ``dsc``, or the only ones there are.
        model: evaluate this model alone.
        split: the split to evaluate on.
        device: where models run; ``auto`` for the device that the run was ranked on, if it is here.
        seed: seed of the resampling.
        jobs: number of threads.
        progress: shows how many queries are ranked.

    For example::

        among = relens.evaluate_among("runs/patterns", "observed", weights="dsc")
        print(among.overall.mrr, among.provenance.candidates, among.provenance.outside)
    """
    source = open_run(run)
    check_models(source)
    chosen = pick_device(ranked_device(source) if device == "auto" else device)
    from relens.pipeline.ranking import ranked_among

    found = None if model is not None else source.weights(weights)
    models = source.model_names if found is None else found.models
    if model is not None and model not in models:
        source.model(model)  # an error that lists the models
    trained = {name: source.model(name) for name in models}
    dataset = load_dataset(trained[models[0]].source) if found is None else graph_of(source, found)
    if found is not None:
        check_ranks(source, found)
    scales = found.gap_scales if found is not None and INPUTS[found.input].needs_gaps else None
    splits = tuple(dict.fromkeys(("valid", split)))
    with ranked_among(
        source, with_candidates(dataset, candidates), trained, scales, splits=splits, device=chosen, progress=progress
    ) as ranks:
        best = models[int(model_mrrs(ranks["valid"], jobs=jobs).argmax())]
        name = model if found is None else source.choose_weights(weights)
        return evaluate(ranks[split], found or str(model), name=name, reference=best, seed=seed, jobs=jobs)


def report(
    run: Run | Path | str, *, output: Path | str | None = None, curves: bool = False, progress: Progress = SILENT
) -> Path:
    """Write the report of a run: ``index.html``, which needs no other file, and its figures as PNG and SVG.

    A run without a comparison is compared first, and the comparison is kept in the run.

    Args:
        run: a run with ranks of valid and test.
        output: the folder to write; an earlier report there is replaced. None for ``report`` in the run.
        curves: measure learning curves of the search, which takes minutes. Later reports show them too.
        progress: receives progress and notes.

    Returns:
        The path of the page.

    For example::

        page = relens.report("runs/patterns")
    """
    from relens.reports import write_report

    with open_run(run).held() as source:
        folder = source.report_path if output is None else Path(output)
        return write_report(source, folder, curves=curves, progress=progress)


def predict(
    run: Run | Path | str,
    *,
    relation: str,
    head: str | None = None,
    tail: str | None = None,
    top: int = 10,
    known: KnownFacts = "mark",
    explain: bool = False,
    facts: Facts | None = None,
    candidates: CandidatesOption | None = None,
    weights: str | None = None,
    device: str = "auto",
) -> Predictions:
    """Return the best answers to one question: tails if ``head`` is given, heads if ``tail`` is.

    ``Ensemble.open(run)`` keeps the models in memory, for several questions.

    Args:
        run: a run with trained models and weights.
        relation: the label or readable name of the relation.
        head, tail: the given entity, one of the two; its label or readable name.
        top: how many new answers.
        known: ``mark`` adds the best known facts, at most ``top``, with their split; ``drop`` leaves them out.
        explain: add the paths that carried the score of each answer; the run needs a model that propagates.
        facts: more facts, also of new entities, for models that propagate: a file of tab-separated triples, or rows
            (head, relation, tail).
        candidates: the entities that may be answers: ``observed`` (those that train has on that side of the relation),
            ``types`` (those that share a type with one of them), a file or a list of entities. None for all.
        weights: the name of the weights in the run; None for ``dsc``, or the only ones there are.
        device: where models run; ``auto`` for the device that the run was ranked on, if it is here.

    Returns:
        A sequence of predictions, best first, each with rank, confidence and the votes of the models.

    For example::

        found = relens.predict("runs/patterns", head="site_11_20", relation="northeast_neighbour", top=3)
        print(found[0].entity, found[0].rank)
    """
    ensemble = Ensemble.open(run, weights, device, facts=facts, candidates=candidates)
    return ensemble.predict(head=head, tail=tail, relation=relation, top=top, known=known, explain=explain)


def upgrade(run: Run | Path | str) -> list[str]:
    """Convert a run of an older relens to the current format, without training again.

    An interrupted call is resumed by the next one; a current run is left as it is.

    Args:
        run: the path of the run.

    Returns:
        A line for each file that was changed; empty if the run was current.

    For example::

        print(*relens.upgrade("runs/patterns"), sep="\\n")
    """
    from relens.pipeline.upgrade import upgrade_run

    return upgrade_run(_path(run) or Path())


def _path(run: Run | Path | str | None) -> Path | None:
    return run.path if isinstance(run, Run) else None if run is None else Path(run)
