"""Metrics: each reduces the ranks of the answers to one number.

The modules of this package hold the entries of ``METRICS``.
"""

from relens.metrics.base import Metric
from relens.registry import Registry

__all__ = ["METRICS", "Metric"]

METRICS: Registry[Metric] = Registry(
    "metric",
    "metrics",
    Metric,  # type: ignore[type-abstract]  # the registry compares with the class and never instantiates it
    "relens.metrics",
)
"""All metrics by name, in the order of tables and records."""
