"""Labels that act on a terminal or break a page where they are written raw, and a search for such characters."""

import unicodedata

HOSTILE = (
    "clear\x1b[2J\x1b[H",
    "title\x1b]0;owned\x07",
    "bell\x07nul\x00.",
    "c1\x9b31mred\x85\x80\x9f",
    "bidi\u202eevil\u202c\u2066x\u2069",
    "zero\u200bwidth\ufeff",
    "[bold]x[/bold]",
    "[link=https://example.org]y[/link]",
    "not xml \ufffe\uffff & <b>z</b>",
)
"""Labels that a file of triples can hold."""


def raw(text: str) -> list[str]:
    """Return the characters of a text, except newlines, that act on a terminal or hide."""
    return [
        character
        for character in text
        if character != "\n"
        and (unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") or character in "\ufffe\uffff")
    ]
