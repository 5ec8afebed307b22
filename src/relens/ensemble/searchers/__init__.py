"""Searchers: how the weights of one group are searched. Each module holds one; ``base`` says how to write another."""

from relens.ensemble.searchers.base import Searcher
from relens.registry import Registry

SEARCHERS: Registry[Searcher] = Registry("searcher", "searchers", Searcher, __name__)  # type: ignore[type-abstract]  # a base class
