"""Clusters: connect to Dask or Ray, and run a function over parts of some work, with a journal."""

from relens.exports import lazy_exports

__getattr__ = lazy_exports(
    __name__,
    {
        "Remote": "relens.clusters.remote",
        "connect": "relens.clusters.engines",
    },
)
