"""The application: guard, interface and pages put together."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import numpy as np
from fastapi import FastAPI

from relens import __version__
from relens.data.queries import DIRECTIONS
from relens.prediction import Ensemble
from relens.serve.api import look_ups, predictions
from relens.serve.guard import Guard
from relens.serve.limits import DEFAULT_LIMITS, Limits
from relens.serve.pages import add_pages
from relens.serve.refusals import add_refusals
from relens.serve.view import GraphView
from relens.serve.worker import Worker


def create_app(
    ensemble: Ensemble, run: str, *, limits: Limits = DEFAULT_LIMITS, hosts: Collection[str] | None = None
) -> FastAPI:
    """Return the service of one ensemble.

    Args:
        ensemble: what is asked; it is called from one thread only.
        run: how the page calls what it serves.
        limits: what a request may cost.
        hosts: the names a client may have used to get here, in lower case and without port; None for any.
    """
    view = GraphView(ensemble.dataset, ensemble.weights)
    worker = Worker(limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        del app
        yield
        worker.close()

    # FastAPI's own page of the interface loads scripts from elsewhere; /docs is one that does not.
    app = FastAPI(
        title="relens",
        summary=f"The ensemble of the run {run}",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.add_middleware(Guard, limits=limits, hosts=hosts)
    add_refusals(app)
    app.include_router(look_ups(view, run))
    app.include_router(predictions(ensemble, view, worker))
    add_pages(app)
    return app


def warm_up(ensemble: Ensemble) -> None:
    """Load every model that has a weight anywhere, and compile what predictions need, before the first client asks."""
    weights, anchor = ensemble.weights, ensemble.dataset.entities.labels[0]
    for of_model in weights.table.T:
        groups = np.flatnonzero(of_model)
        places = np.argwhere(np.isin(weights.grouping.table, groups[:1]))  # rows relation, direction
        for relation, direction in places[:1]:
            question = (anchor, weights.relations[relation], DIRECTIONS[direction])
            list(ensemble.predict_many([question], top=1))
