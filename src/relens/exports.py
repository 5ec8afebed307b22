"""Names that a package exports from its modules, imported when they are first used."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package that exports names.

    Args:
        package: the ``__name__`` of the package.
        names: the module of each name, or ``module:attribute`` if the module calls it differently.
    """

    def export(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, attribute = names[name].partition(":")
        value = getattr(import_module(module), attribute or name)
        setattr(sys.modules[package], name, value)
        return value

    return export
