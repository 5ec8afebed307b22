"""Options of models: the annotations of a constructor give their types and ranges."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from relens.errors import InputError, nearest


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to below ``high``."""

    low: float
    high: float = math.inf

    def __contains__(self, value: float) -> bool:
        return self.low <= value < self.high

    def __str__(self) -> str:
        return f"of at least {self.low}" + (f" and below {self.high}" if self.high < math.inf else "")


Size = Annotated[int, Range(1)]
Number = Annotated[int, Range(0)]
Probability = Annotated[float, Range(0, 1)]
Margin = Annotated[float, Range(0)]

MOST = 2**31
"""Whole numbers stay below it, as sizes of tables must."""

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def option_defaults(constructor: Callable[..., object]) -> dict[str, Any]:
    """Return the keyword-only arguments of a constructor and their defaults."""
    parameters = inspect.signature(constructor).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def resolve_options(constructor: Callable[..., object], given: Mapping[str, object], owner: str) -> dict[str, Any]:
    """Return all keyword-only arguments of a constructor: the given ones, checked, and defaults for the others.

    ``owner`` names the model in errors.
    """
    hints = get_type_hints(constructor, include_extras=True)
    defaults = option_defaults(constructor)
    for option in given:
        if option not in defaults:
            raise InputError(f"{owner} has no option {option!r}; {nearest(option, defaults)}")
    return defaults | {option: _checked(option, value, hints[option], owner) for option, value in given.items()}


def _checked(option: str, value: object, hint: Any, owner: str) -> object:
    """Return the value as its hint requires: a number in its range, a bool, a text, one of some names, or None."""
    if isinstance(value, int) and abs(value) >= MOST:
        raise InputError(f"`{option}` of {owner} is a whole number beyond ±{MOST:,}, expected a smaller one")
    found = f"`{option}={value!r}` of {owner}"
    if get_origin(hint) in (Union, UnionType):
        if value is None:
            return None
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        if value not in choices:
            raise InputError(f"{found}: {nearest(str(value), choices)}")
        return value
    kind, *limits = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind or any(value not in limit for limit in limits):
        raise InputError(f"{found}: expected {' '.join(map(str, (_WORDS[kind], *limits)))}")
    return value
