"""TOML that no person writes ends with a sentence, soon."""

import pytest

from relens.errors import InputError
from relens.toml import parse_toml

DEEP = 100_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = " + "[" * DEEP, "it is nested too deep"),
        ("x = " + "{a=" * DEEP, "it is nested too deep"),
        ("x = " + "[" * 40 + "]" * 40, "more than 30 tables and arrays inside each other"),
        ("x = " + "9" * 4301, r"Exceeds the limit \(4300 digits\)"),
        ("x = 0x" + "f" * 17, "a whole number of more than 64 bits"),
        ("x = [[1, {y = 99999999999999999999}]]", "a whole number of more than 64 bits"),
        ("a." * DEEP + "b = 1", "a key of more than 30 parts"),
        ("[" + "'a' . " * 31 + "b]", "a key of more than 30 parts"),
        ("x = '" + "y" * 2**20 + "'", "it has 1,048,582 characters, expected at most 1,048,576"),
        ("x = ", "Invalid value"),
    ],
    ids=range(10),
)
def test_what_no_person_writes_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"^plan\.toml cannot be read as TOML: .*{message}"):
        parse_toml(text, "plan.toml")


def test_plans_of_people_are_read() -> None:
    text = "x = 18446744073709551615\n[a.b.c]\nlist = [[1, 2], [3.5]]\nversion = '1.2.3.4'\n"
    expected = {"x": 2**64 - 1, "a": {"b": {"c": {"list": [[1, 2], [3.5]], "version": "1.2.3.4"}}}}
    assert parse_toml(text, "plan.toml") == expected
    assert parse_toml("x = '" + "y" * 10**6 + "'", "plan.toml")["x"] == "y" * 10**6
