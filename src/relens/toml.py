"""Read TOML that people write: a text that no person writes ends with an error, not with the stack or the memory."""

import re
import tomllib
from typing import Any

from relens.errors import InputError

MOST_CHARACTERS = 2**20
DEEPEST = 30
"""Most tables and arrays inside each other."""
MOST_BITS = 64
_DOTTED = re.compile(rf"""(?<![\w-])(?:(?:[A-Za-z0-9_-]++|"[^"\n]*"|'[^'\n]*')[ \t]*+\.[ \t]*+){{{DEEPEST}}}""")
"""A key of many parts. Reading one takes the square of its length."""


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Return the table in a TOML text; ``where`` names it in errors."""
    try:
        if len(text) > MOST_CHARACTERS:
            raise ValueError(f"it has {len(text):,} characters, expected at most {MOST_CHARACTERS:,}")
        if _DOTTED.search(text):
            raise ValueError(f"it has a key of more than {DEEPEST} parts")
        found = tomllib.loads(text)
        _check_values(found)
    except (ValueError, RecursionError) as error:
        problem = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"{where} cannot be read as TOML: {problem}") from error
    return found


def _check_values(table: dict[str, Any]) -> None:
    """Raise an error for values that messages cannot show: nested deep, or whole numbers of many digits."""
    level: list[Any] = [table]
    for _ in range(DEEPEST):
        if any(type(value) is int and value.bit_length() > MOST_BITS for value in level):
            raise ValueError(f"it has a whole number of more than {MOST_BITS} bits")
        containers = [value for value in level if isinstance(value, dict | list)]
        level = [inner for value in containers for inner in (value.values() if isinstance(value, dict) else value)]
    if level:
        raise ValueError(f"it has more than {DEEPEST} tables and arrays inside each other")
