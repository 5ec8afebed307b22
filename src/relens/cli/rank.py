"""``relens rank``: from the trained models of a run to packed ranks."""

from pathlib import Path

import click

from relens.cli.console import TerminalProgress, emit, emit_json
from relens.cli.device import device_option, pick_device
from relens.cli.options import hold, json_option, models_option, run_argument
from relens.data.candidate_files import with_candidates
from relens.data.catalog import load_dataset
from relens.data.queries import EVALUATED
from relens.errors import InputError
from relens.ranking.answer_ranks import mrr


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
    chosen = pick_device(device)  # first: it says how to install torch
    from relens.evaluation import model_ranks
    from relens.pipeline.ranking import rank_models
    from relens.pipeline.run import open_or_create
    from relens.training.trained import TrainedModel

    run = hold(run_path)
    names = models or run.model_names()
    if not names:
        raise InputError(f"{run.path} has no trained models: train some with `relens train {run.dataset} --model NAME`")
    trained = {name: TrainedModel.open(run.model_path(name) / "trained") for name in names}
    dataset = load_dataset(trained[names[0]].source)
    if candidates is not None:
        dataset = with_candidates(dataset, candidates)
    if into is not None:
        run = click.get_current_context().with_resource(open_or_create(into, dataset).held())
    rank_models(run, dataset, trained, device=chosen, gaps=gaps, force=force, progress=TerminalProgress())
    found = {split: {name: mrr(model_ranks(run.ranks(split), name).realistic) for name in names} for split in EVALUATED}
    if as_json:
        emit_json({"run": str(run.path), "candidates": run.ranks("test").provenance.candidates, "mrr": found})
        return
    sampled = {split: chosen.n_columns for split, chosen in dataset.candidates.items()}
    among = f" (sampled: among {sampled['test']:,} candidates, not all entities)" if sampled else ""
    for name in names:
        emit(f"{name}: validation MRR {found['valid'][name]:.4f}, test MRR {found['test'][name]:.4f}{among}")
