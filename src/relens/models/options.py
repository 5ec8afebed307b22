"""Options of models: types and ranges stand in the constructors' annotations, and are checked from there."""

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

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def resolve(constructor: Callable[..., object], options: Mapping[str, object], name: str) -> dict[str, Any]:
    """Return all keyword-only arguments of a constructor: those in ``options``, checked, and defaults otherwise."""
    hints = get_type_hints(constructor, include_extras=True)
    parameters = inspect.signature(constructor).parameters.values()
    known = {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
    for option in options:
        if option not in known:
            raise InputError(f"{name} has no option {option!r}: {nearest(option, known)}")
    return known | {option: _checked(value, hints[option], f"{option} of {name}") for option, value in options.items()}


def _checked(value: object, hint: Any, where: str) -> object:
    """Return the value as its hint wants it: a number in its range, a bool, a text, one of some names, or None."""
    if get_origin(hint) in (Union, UnionType):
        if value is None:
            return None
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        if value not in choices:
            raise InputError(f"{where} is {value!r}: {nearest(str(value), choices)}")
        return value
    kind, *limits = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind or any(value not in limit for limit in limits):
        raise InputError(f"{where} is {value!r}, expected {' '.join(map(str, (_WORDS[kind], *limits)))}")
    return value
