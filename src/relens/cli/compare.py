"""``relens compare``: all methods side by side."""

from pathlib import Path
from typing import Any

import click

from relens.cli.console import TerminalProgress, note
from relens.cli.options import (
    format_option,
    jobs_option,
    json_option,
    models_option,
    output_option,
    run_argument,
    search_options,
    settings_from,
    show,
    warn_of_few,
)
from relens.comparison import DEFAULT_SPECS, Comparison
from relens.comparison import compare as compare_methods
from relens.packs.pack import PackedRanks
from relens.runs import Run
from relens.tables import comparison_table, spread_table


@click.command()
@run_argument
@click.argument("methods", nargs=-1, metavar="[METHOD[:key=value,…]]...")
@search_options
@models_option
@click.option("--spread", is_flag=True, help="Add a table of how the models' MRR differs relation by relation.")
@jobs_option
@format_option
@json_option
@output_option
def compare(
    run_path: Path,
    methods: tuple[str, ...],
    models: list[str],
    spread: bool,
    jobs: int,
    form: str,
    as_json: bool,
    output: Path | None,
    **options: Any,
) -> None:
    """Fit every METHOD on the validation ranks of RUN; evaluate methods and single models on its test ranks.

    A METHOD may have its own settings: 'dsc:input=rank,regularise=none' is the paper's form. The default compares the
    paper's baselines, its methods in that form, and its methods with relens's defaults.
    """
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
    present(comparison, valid, "json" if as_json else form, output, spread=spread)


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
