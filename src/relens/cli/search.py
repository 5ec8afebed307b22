"""``relens search``: weights from validation ranks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from time import monotonic
from typing import Any

import click
from joblib import parallel_config

from relens.cli.console import TerminalProgress, emit, emit_json, note
from relens.cli.options import (
    device_option,
    hold,
    jobs_option,
    json_option,
    method_options,
    models_option,
    note_stale,
    run_argument,
    search_options,
    settings_from,
    trust_option,
    warn_of_few,
    weights_option,
)
from relens.clusters.engines import BACKENDS, connect
from relens.clusters.remote import PATIENCE, Remote
from relens.ensemble.context import SearchResult
from relens.ensemble.distributed import SearchJournal
from relens.ensemble.objective import model_mrrs
from relens.ensemble.search import search as search_weights
from relens.metrics.mrr import mrr
from relens.runs import Run

JOURNAL = "search.jsonl"
LOCAL = ("threading", "loky")


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for a search on other machines."""
    command = click.option(
        "--patience", type=click.FloatRange(min=0, min_open=True), default=PATIENCE, show_default=True,
        help="Least seconds without a result before workers of a cluster count as hanging.",
    )(command)  # fmt: skip
    command = click.option("--address", help="Address of the cluster's scheduler (dask) or head node (ray).")(command)
    return click.option(
        "--backend", type=click.Choice([*LOCAL, *BACKENDS]),
        help="Threads or processes here, or a running cluster; the weights are the same.  [default: threads]",
    )(command)  # fmt: skip


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
    patience: float,
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
    name = settings.default_name() if name is None else name
    path = run.weights_path(name)
    valid = run.ranks("valid")
    if models:
        valid = valid.select_models(models)
    begun = monotonic()
    with search_on(backend, address, patience, run) as remote:
        weights = search_weights(valid, **settings.arguments(), jobs=jobs, remote=remote, progress=TerminalProgress())
        seconds = monotonic() - begun
        run.keep_weights(name, weights)
    single = dict(zip(valid.models, model_mrrs(valid, jobs=jobs).tolist(), strict=True))
    best = max(single, key=lambda model: single[model])
    reached = mrr(weights.answer_ranks(valid, jobs=jobs).realistic)
    note(f"the search took {seconds:.1f} s")
    for line in weights.notes:
        note(line)
    warn_of_few(valid, [weights])
    note_stale(run)
    if as_json:
        emit_json(
            {
                "weights": str(path), "settings": weights.settings, "notes": list(weights.notes),
                "validation": {"mrr": reached, "best_single": best, "best_single_mrr": single[best], "models": single},
            }
        )  # fmt: skip
        return
    chosen = {key: value for key, value in weights.settings.items() if key != "cross_validation"}
    emit(f"{path}: " + ", ".join(f"{key} {value}" for key, value in chosen.items()))
    candidates = valid.provenance.candidates
    among = "" if candidates == "all" else f" among candidates: {candidates}"
    emit(f"validation MRR{among} {reached:.4f} (best single model: {best}, {single[best]:.4f})")


@click.command()
@run_argument
@weights_option
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Root of the sample of questions."
)
@device_option
@trust_option
@json_option
def calibrate(run_path: Path, name: str | None, seed: int, device: str, trust: bool, as_json: bool) -> None:
    """Calibrate answers by weights of RUN on its validation split: confidence, thresholds of verdicts, relations.

    The models judge the candidates of sampled questions with the answers of train. The confidence of a candidate is the
    share of such candidates that are facts of validation, by its place, the margins of its scores, and its relation and
    direction. Then `relens classify` gets a threshold per relation, and questions for relations get a scale on which
    relations are comparable. The run keeps all three. The test split is not read.
    """
    from relens import api
    from relens.prediction.confidence import KINDS, LEAST_QUESTIONS

    found = api.calibrate(run_path, weights=name, device=device, trust=trust, seed=seed, progress=TerminalProgress())
    confidence, thresholds, scale = found.confidence, found.thresholds, found.scale
    assert thresholds is not None  # nothing was left out
    assert scale is not None
    groups = {
        kind: 0 if part is None else int((part.questions >= LEAST_QUESTIONS).sum())
        for kind, part in zip(KINDS, confidence.parts, strict=True)
    }
    own, accuracy = int(thresholds.own.sum()), thresholds.tried[thresholds.statistic]
    if as_json:
        emit_json(
            {
                **confidence.counts, "groups": groups,
                "thresholds": {"statistic": thresholds.statistic, "protocol": thresholds.protocol, "relations": own,
                               "valid_accuracy": accuracy},
                "relation_scale": {"name": scale.name, "prior": scale.prior, "triples": scale.triples},
            }
        )  # fmt: skip
        return
    total = len(confidence.weights.grouping)
    emit(
        "{questions:,} questions, {candidates:,} candidates, {facts:,} facts of validation".format(**confidence.counts)
    )
    for kind, n in groups.items():
        emit(f"enough evidence on {kind} questions of {n:,} of {total:,} groups")
    emit(
        f"thresholds of verdicts for {own:,} of {len(thresholds.own):,} relations, by {thresholds.statistic}, "
        f"{thresholds.protocol}: accuracy {accuracy:.4f} on the other half of validation"
    )
    emit(f"scale of relations: {scale.describe()}, chosen on {scale.triples:,} triples")


@contextmanager
def search_on(
    backend: str | None, address: str | None, patience: float, run: Run
) -> Iterator[Remote[SearchResult] | None]:
    """Yield a connection to a cluster, or None for a search on this machine.

    Results of a cluster are kept in the run until the search is complete: the same command resumes from them.
    """
    if (backend in BACKENDS) != (address is not None):
        raise click.UsageError(f"--address goes with --backend {' or '.join(BACKENDS)}, and these need an --address")
    if address is None:
        with parallel_config(backend=backend) if backend else nullcontext():
            yield None
        return
    with connect(next(name for name in BACKENDS if name == backend), address) as cluster:
        remote = Remote(cluster, SearchJournal(run.path / JOURNAL), patience)
        yield remote
        remote.journal.remove()
