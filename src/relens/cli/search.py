"""``relens search``: weights from validation ranks."""

from pathlib import Path
from time import monotonic
from typing import Any

import click

from relens.cli.cluster import cluster_options, search_on
from relens.cli.console import TerminalProgress, emit, emit_json, note
from relens.cli.options import (
    hold,
    jobs_option,
    json_option,
    method_options,
    models_option,
    run_argument,
    search_options,
    settings_from,
    warn_of_few,
)
from relens.ensemble.objective import model_mrrs
from relens.ensemble.search import search as search_weights
from relens.metrics.mrr import mrr


@click.command()
@run_argument
@method_options
@search_options
@models_option
@cluster_options
@click.option("--name", help="Name of the weights.  [default: the method, and the searcher if it is not the default]")
@jobs_option
@json_option
def search(
    run_path: Path,
    models: list[str],
    backend: str | None,
    address: str | None,
    name: str | None,
    jobs: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Search ensemble weights on the validation ranks of RUN and keep them in the run.

    The default finds, for every relation and direction, the weights with the best validation MRR, shrunk towards the
    global weights as strongly as cross-validation inside the validation split advises. The test split is not read.
    """
    settings = settings_from(options)
    run = hold(run_path)
    path = run.weights_path(settings.default_name() if name is None else name)
    valid = run.ranks("valid")
    if models:
        valid = valid.select_models(models)
    begun = monotonic()
    with search_on(backend, address, run) as remote:
        weights = search_weights(valid, **settings.arguments(), jobs=jobs, remote=remote, progress=TerminalProgress())
        seconds = monotonic() - begun
        weights.save(path)
    single = dict(zip(valid.models, model_mrrs(valid, jobs=jobs).tolist(), strict=True))
    best = max(single, key=lambda model: single[model])
    reached = mrr(weights.answer_ranks(valid, jobs=jobs).realistic)
    for line in weights.notes:
        note(line)
    warn_of_few(valid, [weights])
    if as_json:
        emit_json(
            {
                "weights": str(path), "seconds": seconds, "settings": weights.settings, "notes": list(weights.notes),
                "validation": {"mrr": reached, "best_single": best, "best_single_mrr": single[best], "models": single},
            }
        )  # fmt: skip
        return
    chosen = {key: value for key, value in weights.settings.items() if key != "cross_validation"}
    emit(f"{path}: " + ", ".join(f"{key} {value}" for key, value in chosen.items()))
    candidates = valid.provenance.candidates
    among = "" if candidates == "all" else f" among candidates: {candidates}"
    emit(f"validation MRR{among} {reached:.4f} (best single model: {best}, {single[best]:.4f}); {seconds:.1f} s")
