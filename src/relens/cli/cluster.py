"""``--backend`` and ``--address``: the machines that a search runs on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import click
from joblib import parallel_config

from relens.clusters.engines import BACKENDS, connect
from relens.clusters.remote import Remote
from relens.ensemble.context import SearchResult
from relens.ensemble.distributed import SearchJournal
from relens.runs import Run

JOURNAL = "search.jsonl"
LOCAL = ("threading", "loky")


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for a search on other machines."""
    command = click.option("--address", help="Address of the cluster's scheduler (dask) or head node (ray).")(command)
    return click.option(
        "--backend", type=click.Choice([*LOCAL, *BACKENDS]),
        help="Threads or processes here, or a running cluster; the weights are the same.  [default: threads]",
    )(command)  # fmt: skip


@contextmanager
def search_on(backend: str | None, address: str | None, run: Run) -> Iterator[Remote[SearchResult] | None]:
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
        remote = Remote(cluster, SearchJournal(run.path / JOURNAL))
        yield remote
        remote.journal.remove()
