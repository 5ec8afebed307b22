"""The application: guard, JSON interface and web page."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import TextIO

import numpy as np
from fastapi import FastAPI, Request, Response

from relens import __version__
from relens.data.queries import DIRECTIONS
from relens.prediction import Ensemble
from relens.serve.access import Access
from relens.serve.api import look_ups, predictions, status
from relens.serve.guard import DEFAULT_LIMITS, Guard, Limits
from relens.serve.lookup import GraphLookup
from relens.serve.metrics import MEDIA_TYPE, Metrics
from relens.serve.monitor import Monitor, Monitored
from relens.serve.questions import other_questions
from relens.serve.refusals import add_refusals
from relens.serve.worker import Worker

PAGES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/docs": ("docs.html", "text/html; charset=utf-8"),
    "/static/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/static/combobox.js": ("combobox.js", "text/javascript; charset=utf-8"),
    "/static/discover.js": ("discover.js", "text/javascript; charset=utf-8"),
    "/static/elements.js": ("elements.js", "text/javascript; charset=utf-8"),
    "/static/visible.js": ("visible.js", "text/javascript; charset=utf-8"),
    "/static/docs.js": ("docs.js", "text/javascript; charset=utf-8"),
    "/static/requests.js": ("requests.js", "text/javascript; charset=utf-8"),
    "/static/style.css": ("style.css", "text/css; charset=utf-8"),
    "/static/icon.svg": ("icon.svg", "image/svg+xml"),
}
"""The files of the web page by path: name and media type."""
HEALTH, METRICS, DESCRIPTION = "/api/health", "/metrics", "/openapi.json"


def create_app(
    ensemble: Ensemble,
    run: str,
    *,
    limits: Limits = DEFAULT_LIMITS,
    hosts: Collection[str] | None = None,
    token: str | None = None,
    log: TextIO | None = None,
) -> FastAPI:
    """Return the service of one ensemble, an ASGI application.

    Args:
        ensemble: the ensemble, which is called from one thread only.
        run: the name of the run on the page.
        limits: limits of a request.
        hosts: host names that clients may use, in lower case and without port; None for any.
        token: the token that clients must send; None if there is none.
        log: gets a line for each request; None if there is no request log.
    """
    graph = GraphLookup(ensemble.dataset, ensemble.weights)
    worker = Worker(limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        del app
        yield
        worker.close()

    # FastAPI's own documentation page loads scripts from other sites; ours at /docs does not.
    app = FastAPI(
        title="relens",
        summary=f"The ensemble of the run {run}",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=DESCRIPTION,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    add_refusals(app)
    app.include_router(status(worker))
    app.include_router(look_ups(graph, run, explains=bool(ensemble.propagating)))
    app.include_router(predictions(ensemble, graph, worker))
    app.include_router(other_questions(ensemble, graph, worker))
    _add_pages(app)
    _add_metrics(app, worker, log)
    app.add_middleware(Guard, limits=limits, access=Access(hosts, token, PAGES, {HEALTH}))
    app.add_middleware(Monitored, monitor=app.state.monitor)  # the last one added sees requests first
    return app


def warm_up(ensemble: Ensemble) -> None:
    """Load every model that has a weight, and compile the code of predictions, before the first request."""
    weights, anchor = ensemble.weights, ensemble.dataset.entities.labels[0]
    for of_model in weights.table.T:
        groups = np.flatnonzero(of_model)
        places = np.argwhere(np.isin(weights.grouping.table, groups[:1]))  # rows relation, direction
        for relation, direction in places[:1]:
            question = (anchor, weights.relations[relation], DIRECTIONS[direction])
            list(ensemble.predict_many([question], top=1))
    head, relation, tail = ensemble.dataset.train[0].tolist()
    labels = ensemble.dataset.entities.labels
    ensemble.score([(labels[head], ensemble.dataset.relations.labels[relation], labels[tail])])


def _add_pages(app: FastAPI) -> None:
    """Add the page, its scripts and style, and the list of requests. No path from a client reaches the file system."""
    for path, (name, media_type) in PAGES.items():
        content = files("relens.serve").joinpath("static", name).read_bytes()
        app.add_route(path, _sender(content, media_type), methods=["GET"], include_in_schema=False)


def _add_metrics(app: FastAPI, worker: Worker, log: TextIO | None) -> None:
    """Add the monitor of all requests, as ``app.state.monitor``, and the path of its metrics."""
    metrics = Metrics([*PAGES, *app.openapi()["paths"], DESCRIPTION, METRICS])
    app.state.monitor = Monitor(metrics, log)

    async def send(request: Request) -> Response:
        del request
        return Response(metrics.text(worker.in_line), media_type=MEDIA_TYPE)

    app.add_route(METRICS, send, methods=["GET"], include_in_schema=False)


def _sender(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def send(request: Request) -> Response:
        del request
        return Response(content, media_type=media_type)

    return send
