"""The verbs of the command line as Python functions.

The functions of this module and of ``relens.answers`` work on runs; each takes a ``Run`` or its path. ``search``,
``evaluate`` and ``compare`` work on packed ranks, such as ``open_run(path).ranks("valid")``. They are defined in
``relens.ensemble``, ``relens.evaluation`` and ``relens.comparison``. ``relens`` exports all of them.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relens.comparison import DEFAULT_SPECS
from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset
from relens.data.queries import EVALUATED
from relens.devices import pick_device, pick_devices
from relens.ensemble.inputs import INPUTS
from relens.ensemble.objective import model_mrrs
from relens.errors import InputError
from relens.evaluation import Evaluation, evaluate
from relens.pipeline.plan import Plan, load_graph
from relens.prediction import ranked_device
from relens.prediction.candidates import CandidatesOption, with_candidates
from relens.prediction.opening import check_models, check_ranks, graph_of
from relens.presets import default_preset
from relens.progress import SILENT, Advance, Progress
from relens.runs import Run, open_run

if TYPE_CHECKING:
    from relens.importers.layouts.pykeen import Missing
    from relens.pipeline.run import TrainingListener
    from relens.prediction.calibrating import Calibration
    from relens.training.log import LogRecord
    from relens.training.loop import TrainingObserver
    from relens.training.trained import TrainedModel


def run(
    dataset: str | Path | None = None,
    *,
    models: Sequence[str] | None = None,
    preset: str | None = None,
    run: Run | Path | str | None = None,
    device: str = "auto",
    jobs: int | None = None,
    seed: int = 0,
    seeds: int | None = None,
    budget: str | None = None,
    methods: Sequence[str] = DEFAULT_SPECS,
    changes: Sequence[str] = (),
    force: str | Collection[str] = (),
    offline: bool = False,
    report: bool = True,
    trust: bool = False,
    progress: Progress = SILENT,
    listener: "TrainingListener | None" = None,
) -> Run:
    """Train models on a graph, rank, search weights, evaluate, and write a report.

    The same call resumes an interrupted one, and skips everything that is complete and unchanged.

    Args:
        dataset: a name, or a folder with ``train.txt``, ``valid.txt`` and ``test.txt``; None for the graph that the run
            holds, or for ``patterns`` if there is no such run.
        models: names of models, in the order of the rank arrays; None for the members of the preset, which are the
            six models of the paper, or with ``strong`` a stronger set.
        preset: training settings to start from; None for ``demo`` on the CPU and ``best`` on a GPU.
        run: the run, which is made if missing; None for ``runs/`` and the name of the data set.
        device: ``auto``, ``cpu``, ``cuda``, or a list such as ``cuda:0,cuda:1``: each trains one model at a time.
        jobs: workers of the search, and of training on the CPU; None for all cores.
        seed: the root of all randomness.
        seeds: how many members each model is trained as, with seeds of their own: ``complex``, ``complex-2``, …; None
            for one, or for those that a budget has time for.
        budget: a time, such as ``15m``: members, sizes and steps are chosen so that the run takes it on this machine.
            What ``models``, ``preset``, ``changes`` and ``seeds`` fix stays fixed.
        methods: ensemble methods to compare, with settings: ``dsc`` or ``dsc:input=rank,regularise=none``.
        changes: settings to change: ``key=value`` for all models that have it, ``model.key=value`` for one.
        force: stages to repeat: ``train``, ``rank``, ``search``, ``report``, or ``all``.
        offline: never download the data set.
        report: write ``report/index.html``.
        trust: load members of others, if the run has some that must be ranked again.
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
    plan = Plan(
        None if dataset is None else str(dataset), names, preset, methods=tuple(methods), seed=seed, seeds=seeds,
        budget=budget,
    ).with_changes(changes)  # fmt: skip
    execution = Execution(
        devices=devices,
        jobs=cpu_count() if jobs is None else jobs,
        force=(force,) if isinstance(force, str) else force,
        offline=offline,
        report=report,
        trust=trust,
        progress=progress,
        listener=listener or ignore_update,
    )
    return run_plan(plan, _path(run), execution)


def train(
    dataset: str | Path | None = None,
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
        dataset: a name, or a folder with ``train.txt``, ``valid.txt`` and ``test.txt``; None for the graph that the run
            holds, or for ``patterns`` if there is no such run.
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

    graph = load_graph(dataset, _path(run), offline=offline, progress=progress)
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
        return train_in_run(target, graph, settings, name=name)
    resuming = f", resuming at {state}" if state else ""
    progress.note(f"training {name}: preset {preset}, {settings.steps:,} steps on {chosen}{resuming}")
    for text in sampled_validation(graph):
        progress.note(text)
    with progress.task(f"training {name}", settings.steps) as advance:
        observer = _observer(progress, advance)
        return train_in_run(target, graph, settings, name=name, device=chosen, observer=observer)


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
    trust: bool = False,
    progress: Progress = SILENT,
) -> Run:
    """Rank the validation and test queries with members of a run, and keep packed ranks.

    All models rank a query at the same time, so no (queries, entities) matrix is ever written. Known answers of train,
    valid and test are removed. If the data set has its own candidates (OGB's do), answers compete with those only.

    Args:
        run: a run with trained models, or models of others.
        models: names of members, in the order of the rank arrays; None for all, sorted.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        candidates: rank among these only: ``observed`` (the entities that train has on that side of the relation),
            ``types`` (those that share a type with one of them, by the data set's ``types.tsv``), a file or a list of
            entities, or a folder that ``relens data sample-negatives`` made.
        into: the run that receives the ranks, made if missing; None for ``run`` itself.
        gaps: keep score gaps beside the ranks.
        force: replace existing ranks.
        trust: load members of others, which runs their code: pickles of PyKEEN, and Python objects.
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
        names = models or source.member_names
        if not names:
            raise InputError(
                f"{source.path} has no trained models: train some with `relens train {source.dataset} --model NAME`"
            )
        members = {name: source.member(name) for name in names}
        dataset = with_candidates(source.graph(candidates=candidates is None), candidates)
        target = source if into is None else Run.open_or_create(_path(into) or Path(), dataset.name)
        with nullcontext() if into is None else target.held():
            if into is not None:
                target.copy_graph(source)
            rank_models(
                target, dataset, models=members, device=chosen, gaps=gaps, force=force, trust=trust, progress=progress
            )
    return Run.open(target.path)


def add_members(
    run: Run | Path | str,
    *,
    pykeen: Mapping[str, Path | str] | None = None,
    scorers: Mapping[str, str | tuple[str, Mapping[str, Any]]] | None = None,
    models: Sequence[str] = (),
    dataset: str | Path | Dataset | None = None,
    candidates: CandidatesOption | None = None,
    missing: "Missing" = "refuse",
    device: str = "auto",
    trust: bool = False,
    progress: Progress = SILENT,
) -> Run:
    """Add members to a run, and rank them beside those that it has. No model is trained, and no other one changes.

    The run keeps all that is needed to load the members again: copies of PyKEEN's files, or import paths with their
    arguments. If anything fails, the run is left as it was. Search weights again afterwards.

    Args:
        run: the run; it is made if it is missing and ``dataset`` is given.
        pykeen: folders that PyKEEN's ``save_to_directory`` wrote, by the name of the member.
        scorers: Python scorers by name: an import path ``package.module:object``, or a pair of a path and a mapping of
            arguments. The object is called with the data set and the arguments, and returns an object with ``score``.
        models: members of the run that are not ranked yet, such as models trained later.
        dataset: the data set, for a run without a graph: a name, a folder, or a ``Dataset``.
        candidates: the candidates that the run was ranked with, if any, as in ``rank``.
        missing: the treatment of entities that a model of PyKEEN was not trained with: ``refuse`` the model, or rank
            them ``last``.
        device: where models run; ``auto`` for the device that the run was ranked on.
        trust: load members of others, which runs their code: pickles of PyKEEN, and Python objects.
        progress: receives progress and notes.

    Returns:
        The run, with the ranks of all members.

    For example::

        relens.add_members("runs/patterns", scorers={"frequency": "my_models:Frequency"}, trust=True)
        relens.search(relens.open_run("runs/patterns").ranks("valid"))
    """
    from relens.importers.layouts.pykeen import PykeenFolder
    from relens.importers.members import NewMember, PythonObject
    from relens.pipeline.members import add_to_run

    given = None if dataset is None else dataset if isinstance(dataset, Dataset) else load_dataset(dataset)
    target = open_run(run) if given is None else Run.open_or_create(_path(run) or Path(), given.name)
    with target.held():
        if given is not None:
            target.keep_graph(given)
        graph = target.graph()
        new: dict[str, NewMember] = {
            name: PykeenFolder.open(Path(folder), graph, missing=missing) for name, folder in (pykeen or {}).items()
        }
        for name, scorer in (scorers or {}).items():
            path, arguments = (scorer, {}) if isinstance(scorer, str) else scorer
            if name in new:
                raise InputError(f"two members are called {name!r}: rename one")
            new[name] = PythonObject(path, arguments)
        graph = with_candidates(graph, candidates)
        ranked = any(map(target.has_ranks, EVALUATED))
        chosen = pick_device(ranked_device(target) if ranked and device == "auto" else device)
        add_to_run(target, new, models, graph, device=chosen, trust=trust, progress=progress)
    return target


def evaluate_among(
    run: Run | Path | str,
    candidates: CandidatesOption,
    *,
    weights: str | None = None,
    model: str | None = None,
    split: str = "test",
    device: str = "auto",
    trust: bool = False,
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
        trust: load members of others, which runs their code, see ``predict``.
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
    from relens.pipeline.ranking import load_ranker, ranked_among

    found = None if model is not None else source.weights(weights)
    models = source.model_names if found is None else found.models
    if model is not None and model not in models:
        source.model(model)  # an error that lists the models
    members = {name: source.member(name) for name in models}
    dataset = source.graph() if found is None else graph_of(source, found)
    if found is not None:
        check_ranks(source, found)
    scales = found.gap_scales if found is not None and INPUTS[found.input].needs_gaps else None
    splits = tuple(dict.fromkeys(("valid", split)))
    ranker = load_ranker(members, with_candidates(dataset, candidates), chosen, trust=trust)
    with ranked_among(source, ranker, scales, splits, progress) as ranks:
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


def calibrate(
    run: Run | Path | str,
    *,
    weights: str | None = None,
    device: str = "auto",
    trust: bool = False,
    seed: int = 0,
    progress: Progress = SILENT,
) -> "Calibration":
    """Fit on validation all that answers need beside the weights, and keep it in the run; test is not read.

    This is the confidence of predictions, the thresholds of verdicts, and the scale of relations. ``relens.run`` does
    this for its default weights. Repeat it after a new search or a new ranking.

    Args:
        run: a run with trained models, ranks and weights.
        weights: the name of the weights in the run; None for ``dsc``, or the only ones there are.
        device: where models run; ``auto`` for the device that the run was ranked on, if it is here.
        trust: load members of other origin, whose code runs, see ``predict``.
        seed: root of the sampled questions, and of sampled negatives.
        progress: where progress is shown.

    For example::

        found = relens.calibrate("runs/patterns")
        print(found.confidence.counts, found.scale.describe())
    """
    from relens.prediction.calibrating import calibrate_run

    with open_run(run).held() as source:
        name = source.choose_weights(weights)
        return calibrate_run(source, name, device, trust=trust, seed=seed, progress=progress)


def upgrade(run: Run | Path | str, *, data: Path | str | None = None, progress: Progress = SILENT) -> list[str]:
    """Convert a run of an older relens to the current format, without training again, and add its graph.

    An interrupted call is resumed by the next one; a current run is left as it is.

    Args:
        run: the path of the run.
        data: the data set of the run, a name or a folder. None to look for it where the models were trained on it.
        progress: receives a note if the graph is not found.

    Returns:
        A line for each file or folder that was changed; empty if the run was current.

    For example::

        print(*relens.upgrade("runs/patterns"), sep="\\n")
    """
    from relens.pipeline.upgrade import upgrade_run

    return upgrade_run(_path(run) or Path(), data, progress)


def _path(run: Run | Path | str | None) -> Path | None:
    return run.path if isinstance(run, Run) else None if run is None else Path(run)
