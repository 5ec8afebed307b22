"""``relens serve``: the ensemble of a run as a web page and a JSON interface."""

from pathlib import Path

import click

from relens.cli.console import note
from relens.cli.device import device_option
from relens.cli.options import run_argument
from relens.errors import MissingExtraError
from relens.runs import Run


@click.command()
@run_argument
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Port; 0 picks a free one."
)
@click.option("--weights", "name", help="Weights of the run.  [default: dsc, or the only ones there are]")
@device_option
def serve(run_path: Path, host: str, port: int, name: str | None, device: str) -> None:
    """Serve the ensemble of RUN: a web page for people, a JSON interface for programs.

    The page asks for a relation and a head or a tail. It shows the answers with the vote of every model, and each
    answer can be the next question. /docs lists the requests of the JSON interface. Models run on the device that the
    run was ranked on, if it is here. Ctrl-C stops the service.
    """
    try:
        from relens.serve import server
        from relens.serve.app import create_app, warm_up
    except ImportError as error:
        raise MissingExtraError("serving an ensemble", "serve") from error
    from relens.cli.predict import open_ensemble
    from relens.prediction.ensemble import check_models

    run = Run.open(run_path)
    check_models(run)
    with server.listen(host, port) as listener:
        note(f"loading the models of {run.path}")
        ensemble = open_ensemble(run, name, device)
        warm_up(ensemble)
        app = create_app(ensemble, run.name, hosts=server.hosts_of(listener, host))
        if not server.is_loopback(listener):
            note(f"{host} can be reached from other machines: anyone can use the service, there is no password")
        note(f"serving at {server.address(listener)} (Ctrl-C stops it)")
        server.serve(app, listener)
    note("stopped")
