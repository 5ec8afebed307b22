"""Methods: how the weights of all groups are found. Each module holds one; ``base`` says how to write another."""

from relens.ensemble.methods.base import Method
from relens.registry import Registry

METHODS: Registry[Method] = Registry("method", "methods", Method, __name__)  # type: ignore[type-abstract]  # a base class
