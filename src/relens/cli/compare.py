"""``relens compare`` and ``relens simulate``: all methods side by side, on the ranks of a run or simulated ones."""

import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from relens.cli.console import TerminalProgress, note
from relens.cli.options import (
    format_option,
    hold,
    jobs_option,
    json_option,
    models_option,
    note_stale,
    output_option,
    run_argument,
    search_options,
    seed_option,
    settings_from,
    show,
    warn_of_few,
)
from relens.comparison import DEFAULT_SPECS, Comparison
from relens.comparison import compare as compare_methods
from relens.data.queries import EVALUATED
from relens.ensemble.settings import SearchSettings
from relens.errors import InputError
from relens.packs.pack import PackedRanks
from relens.packs.simulation import Simulation
from relens.packs.store import save_pack
from relens.run_comparison import compare_runs
from relens.runs import RECORD, Run
from relens.tables import comparison_table, run_comparison_table, spread_table


@click.command()
@run_argument
@click.argument("methods", nargs=-1, metavar="[METHOD[:key=value,…]]...")
@search_options
@models_option
@click.option("--spread", is_flag=True, help="Add a table of how the models' MRR differs relation by relation.")
@click.option(
    "--with",
    "other_path",
    type=click.Path(path_type=Path),
    metavar="OTHER_RUN",
    help="Compare the ensemble of RUN with that of another run on the same test queries instead.",
)
@click.option("--weights", "name", help="With --with: weights of both runs.  [default: as for evaluate]")
@click.option("--other-weights", "other_name", help="With --with: weights of OTHER_RUN, if they have another name.")
@jobs_option
@format_option
@json_option
@output_option
def compare(
    run_path: Path,
    methods: tuple[str, ...],
    models: list[str],
    spread: bool,
    other_path: Path | None,
    name: str | None,
    other_name: str | None,
    jobs: int,
    form: str,
    as_json: bool,
    output: Path | None,
    **options: Any,
) -> None:
    """Fit every METHOD on the validation ranks of RUN; evaluate methods and single models on its test ranks.

    A METHOD may have its own settings: 'dsc:input=rank,regularise=none' is the paper's form. The default compares the
    paper's baselines, its methods in that form, and its methods with relens's defaults.

    With --with, nothing is fitted: the saved weights of two runs are compared on the same test queries, paired query by
    query, overall and by relation. The runs may have different models.
    """
    form = "json" if as_json else form
    if other_path is not None:
        _check_alone(("name", "other_name", "other_path", "run_path", "seed", "jobs", "form", "as_json", "output"))
        pair = compare_runs(
            run_path, other_path, weights=name, other_weights=other_name, seed=options["seed"], jobs=jobs
        )
        for path in (run_path, other_path):
            note_stale(Run.open(path))
        show([run_comparison_table(pair)], form, output, pair.to_json())
        return
    if name or other_name:
        raise click.UsageError("--weights and --other-weights choose saved weights to compare: add --with OTHER_RUN")
    run = Run.open(run_path)
    valid, test = run.ranks("valid"), run.ranks("test")
    if models:
        valid, test = valid.select_models(models), test.select_models(models)
    comparison = compare_methods(
        valid,
        test,
        methods or DEFAULT_SPECS,
        settings=settings_from(options),
        jobs=jobs,
        progress=TerminalProgress(),
    )
    present(comparison, valid, form, output, spread=spread)


def _check_alone(allowed: Collection[str]) -> None:
    """Raise an error for parameters that are given, but have no meaning with --with."""
    context = click.get_current_context()
    for param in context.command.get_params(context):
        given = param.name and context.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
        if given and param.name not in allowed and context.params.get(str(param.name)):
            shown = "METHOD" if isinstance(param, click.Argument) else param.opts[0]
            raise click.UsageError(f"{shown} is for fitting methods: it has no meaning with --with")


def present(
    comparison: Comparison, valid: PackedRanks, form: str, output: Path | None = None, *, spread: bool = False
) -> None:
    """Print a comparison of weights that were fitted on ``valid``, in a form of ``show``."""
    for name, weights in comparison.weights.items():
        if "cross_validation" in weights.settings:
            kappa = f", κ {weights.settings['kappa']}" if "kappa" in weights.settings else ""
            note(f"{name}: cross-validation chose the input {weights.input}{kappa}")
        for line in weights.notes:
            note(f"{name}: {line.removeprefix(weights.settings['method'] + ': ')}")
    for line in comparison.notes:
        note(line)
    warn_of_few(valid, comparison.weights.values())
    tables = [comparison_table(comparison.evaluations)]
    if spread:
        tables.append(spread_table(comparison.spread, comparison.evaluations))
    value = {
        "best_single": comparison.best_single,
        "evaluations": [evaluation.to_json() for evaluation in comparison.evaluations],
        "settings": {name: weights.settings for name, weights in comparison.weights.items()},
        "spread": comparison.spread,
        "notes": list(comparison.notes),
    }
    show(tables, form, output, value)


DATASET = "simulated"
MODELS = ("translation", "rotation", "bilinear", "convolution", "graph")
TRIPLES = (400, 320, 260, 220, 180, 150, 120, 100, 80, 60, 40, 20)


@click.command()
@click.option(
    "--run", "run_path", type=click.Path(path_type=Path), default=Path("runs/simulated"), show_default=True,
    help="The run for ranks and weights; an earlier simulation there is replaced.",
)  # fmt: skip
@seed_option
@jobs_option
@json_option
def simulate(run_path: Path, seed: int, jobs: int, as_json: bool) -> None:
    """Simulate five models that are good at different relations, and compare methods to combine them.

    The scores of the models are random numbers, with a skill that depends on the relation. The later stages are real:
    packing, search on the validation split, evaluation on the test split.
    """
    if (run_path / RECORD).is_file() and Run.open(run_path).dataset != DATASET:
        raise InputError(f"{run_path} holds ranks that are not simulated: choose another place with --run")
    simulation = Simulation(
        MODELS, TRIPLES, n_entities=2000, level=(2.4, 1.1), skill=0.45, noise=0.5, agreement=0.6, seed=seed
    )
    note(f"simulating {len(MODELS)} models on {2 * sum(TRIPLES):,} queries per split, {len(TRIPLES)} relations")
    progress = TerminalProgress()
    packed = {split: simulation.packed(split, jobs=jobs, progress=progress) for split in EVALUATED}
    with Run.receive_ranks(run_path, DATASET, force=True) as folder:
        for split, ranks in packed.items():
            save_pack(ranks, folder / split)
    settings = SearchSettings(seed=seed)
    comparison = compare_methods(packed["valid"], packed["test"], settings=settings, jobs=jobs, progress=progress)
    run = hold(run_path)
    name = settings.default_name()
    run.keep_weights(name, comparison.weights[name])
    present(comparison, packed["valid"], "json" if as_json else "text")
    where = shlex.quote(str(run_path))
    note(f"next: relens weights show {where}; relens evaluate {where} --by relation; relens ranks show {where}")
