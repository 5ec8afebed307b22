"""Control characters are shown, everything that people read stays as it is."""

import json

import pytest

from relens.visible import visible, visible_json, visible_lines
from tests.hostile import HOSTILE, raw


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("a\x00b\rc\nd\te\x7f", r"a\x00b\rc\nd\te\x7f"),
        ("\x80\x9b31m\x9f", r"\x80\x9b31m\x9f"),
        ("\u202eevil\u2066\u2069", r"\u202eevil\u2066\u2069"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("line\u2028paragraph\u2029", r"line\u2028paragraph\u2029"),
        ("\ud800 alone \udcff", r"\ud800 alone \udcff"),
        ("no XML: \ufffe\uffff", r"no XML: \ufffe\uffff"),
        ("tag \U000e0041", r"tag \U000e0041"),
    ],
)
def test_characters_that_act_or_hide_become_escapes(text, shown):
    assert visible(text) == shown
    assert visible(shown) == shown


@pytest.mark.parametrize(
    "text", ["", "Zürich", "東京", "עברית", "a\N{NO-BREAK SPACE}%", "e\u0301", "🙂", r"back\slash", "[b]"]
)
def test_everything_else_stays(text):
    assert visible(text) == text


def test_lines_stay_lines():
    assert visible_lines("a\x1b\nb\r\n") == "a\\x1b\nb\\r\n"


@pytest.mark.parametrize("indent", [None, 1])
def test_json_holds_the_same_value_and_no_such_character(indent):
    value = {label: [label, 1.5, None] for label in (*HOSTILE, "Zürich", "line\nend", "\ud800", "\U000e0041")}
    text = visible_json(value, indent)
    assert json.loads(text) == value
    assert raw(text) == []
    assert "Zürich" in text
    text.encode()


def test_json_never_holds_nan():
    with pytest.raises(ValueError, match="Out of range float values"):
        visible_json({"x": float("inf")})
