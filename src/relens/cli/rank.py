"""``relens rank``: from the trained models of a run to packed ranks."""

from pathlib import Path

import click

from relens import api
from relens.cli.console import TerminalProgress, emit, emit_json
from relens.cli.device import device_option
from relens.cli.options import json_option, models_option, run_argument
from relens.data.queries import EVALUATED
from relens.evaluation import model_ranks
from relens.metrics.mrr import mrr


@click.command()
@run_argument
@models_option
@device_option
@click.option(
    "--candidates",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Rank only among the candidates in this folder, written by `relens data sample-negatives`.",
)
@click.option(
    "--into", type=click.Path(path_type=Path), help="Keep the ranks in this run, created if necessary, instead of RUN."
)
@click.option("--gaps/--no-gaps", default=True, show_default=True, help="Keep score gaps beside the ranks.")
@click.option("--force", is_flag=True, help="Replace ranks that are there already.")
@json_option
def rank(
    run_path: Path,
    models: list[str],
    device: str,
    candidates: Path | None,
    into: Path | None,
    gaps: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Rank the validation and test queries with all trained models of RUN, and keep packed ranks.

    All models score each query together, so no matrix of ranks is written. Known answers of train, valid and test are
    left out. Where the data set has candidates of its own (as OGB's), answers compete only with those.
    """
    run = api.rank(
        run_path, models=models or None, device=device, candidates=candidates, into=into, gaps=gaps, force=force,
        progress=TerminalProgress(),
    )  # fmt: skip
    test = run.ranks("test")
    names = test.models
    found = {split: {name: mrr(model_ranks(run.ranks(split), name).realistic) for name in names} for split in EVALUATED}
    if as_json:
        emit_json({"run": str(run.path), "candidates": test.provenance.candidates, "mrr": found})
        return
    sampled = test.provenance.candidates != "all"
    among = f" (sampled: among {int(test.n_candidates.max()):,} candidates, not all entities)" if sampled else ""
    for name in names:
        emit(f"{name}: validation MRR {found['valid'][name]:.4f}, test MRR {found['test'][name]:.4f}{among}")
