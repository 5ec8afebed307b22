"""``relens serve``: the ensemble of a run as a web service."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import click

from relens.cli.console import note
from relens.cli.opening import open_ensemble, opening_options
from relens.errors import InputError, MissingExtraError
from relens.prediction import Ensemble
from relens.prediction.fitted import lacking
from relens.runs import Run
from relens.visible import visible


@click.command()
@opening_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Port; 0 picks a free one."
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with a token that clients must send. RELENS_TOKEN, an environment variable, holds the token itself.",
)
@click.option(
    "--no-token", is_flag=True, help="Serve other machines without a token: anyone there can use the service."
)
@click.option(
    "--access-log",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File to append a line to for each request.  [default: stderr]",
)
def serve(
    host: str,
    port: int,
    token_file: Path | None,
    no_token: bool,
    access_log: Path | None,
    **options: Any,
) -> None:
    """Serve the ensemble of RUN: a web page for people, a JSON interface for programs.

    The page asks for a relation and a head or a tail. It shows the answers with the vote of every model, and each
    answer can be the next question. /docs lists the requests of the JSON interface. Models run on the device that the
    run was ranked on, if it is here. Ctrl-C stops the service.

    With --host, other machines can reach the service. It then needs a token, or --no-token.
    """
    try:
        from relens.serve import server
        from relens.serve.access import read_token
        from relens.serve.app import create_app, warm_up
    except ImportError as error:
        raise MissingExtraError("serving an ensemble", "serve") from error
    from relens.prediction.opening import check_models

    run = Run.open(options["run_path"])
    check_models(run)
    token = read_token(token_file)
    with server.listen(host, port) as listener, _request_log(access_log) as log:
        server.check_reach(listener, host, token, no_token=no_token)
        note(f"loading the models of {run.path}")
        ensemble = open_ensemble(options)
        _note_lacking(ensemble)
        warm_up(ensemble)
        app = create_app(ensemble, visible(run.name), hosts=server.hosts_of(listener, host), token=token, log=log)
        if token is None and not server.is_loopback(listener):
            note(f"{host} can be reached from other machines: anyone can use the service, there is no token")
        note(f"serving at {server.address(listener)} (Ctrl-C stops it)")
        server.serve(app, listener)
    note("stopped")


def _note_lacking(ensemble: Ensemble) -> None:
    """Note what the first requests have to wait for, because the run does not keep it."""
    if ensemble.facts is not None:
        return
    run, name = ensemble.run, str(ensemble.name)
    if missing := lacking(run, name, ensemble.weights, ensemble.dataset):
        note(
            f"{run.path} keeps no {' and no '.join(missing)} for these weights: the first requests that need them wait "
            f"for the fit; `relens calibrate {run.path} --weights {name}` does it once"
        )


@contextmanager
def _request_log(file: Path | None) -> Iterator[TextIO]:
    """Yield stderr, or a file to append to."""
    if file is None:
        yield sys.stderr
        return
    try:
        log = file.open("a", encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot write the request log {file}: {error.strerror or error}. Choose another `access_log=FILE`."
        ) from error
    with log:
        yield log
