"""Text for people: characters that act on a terminal, or hide in a page, are written as escapes.

Labels and file names may contain any character. Programs get them unchanged; people see ``\\x1b`` for an escape.
"""

import json
import unicodedata
from collections.abc import Callable
from typing import Any

_ACTING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of control characters, invisible marks such as overrides of the direction, and line separators."""
_NOT_IN_XML = "\ufffe\uffff"


class _Escapes(dict[int, str]):
    """What to write for each character, by its code; filled as characters occur."""

    def __init__(self, escape: Callable[[str], str]) -> None:
        super().__init__()
        self._escape = escape

    def __missing__(self, code: int) -> str:
        character = chr(code)
        acts = unicodedata.category(character) in _ACTING or character in _NOT_IN_XML
        self[code] = self._escape(character) if acts else character
        return self[code]


_FOR_PEOPLE = _Escapes(lambda character: character.encode("unicode_escape").decode())
_IN_JSON = _Escapes(lambda character: json.dumps(character)[1:-1])
_IN_JSON[ord("\n")] = "\n"  # between values; inside a string it is an escape already


def visible(text: str) -> str:
    """Return a text with an escape such as ``\\x1b`` or ``\\u202e`` in place of each character that acts or hides."""
    return text if text.isprintable() else text.translate(_FOR_PEOPLE)


def visible_lines(text: str) -> str:
    """Return a text of several lines; ``visible`` in each line."""
    return "\n".join(map(visible, text.split("\n")))


def visible_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON that holds no such character itself. A program reads the same value as without escapes."""
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False).translate(_IN_JSON)
