"""Finding labels: prefixes first, then substrings, quickly."""

from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relens.serve.labels import LabelIndex

LABELS = ("Berlin", "Bern", "Aberdeen", "bergen", "Oslo", "/m/01", "Zürich", "STRASSE 1")


def found(typed: str, limit: int = 10) -> list[str]:
    index = LabelIndex(LABELS, {"/m/01": "Bernese Alps"})
    return [LABELS[number] for number in index.matches(typed, limit)]


def test_labels_that_begin_so_come_before_labels_that_contain_it():
    assert found("ber") == ["bergen", "Berlin", "Bern", "/m/01", "Aberdeen"]


def test_a_readable_name_is_found_like_a_label_and_once():
    assert found("alps") == ["/m/01"]
    assert found("/m") == ["/m/01"]
    assert found("/") == ["/m/01"]


def test_case_does_not_matter():
    assert found("BERN") == ["Bern", "/m/01"]
    assert found("straße") == ["STRASSE 1"]
    assert found("zÜ") == ["Zürich"]


def test_nothing_typed_finds_the_first_ones():
    assert found("", 3) == ["/m/01", "Aberdeen", "bergen"]


@pytest.mark.parametrize("typed", ["xyz", "bern\nberl", "\n", "n\nb", "\ud800", "\0"])
def test_what_is_nowhere_finds_nothing(typed):
    assert found(typed) == []


@given(st.lists(st.text("aAb.", min_size=1, max_size=5), unique=True), st.text("ab.", max_size=3), st.integers(1, 6))
def test_matches_are_those_of_a_loop(labels, typed, limit):
    folded = sorted((label.casefold(), number) for number, label in enumerate(labels))
    first = [number for text, number in folded if text.startswith(typed)]
    then = [number for text, number in folded if typed in text and number not in first]
    assert LabelIndex(labels).matches(typed, limit) == (first + then)[:limit]


def test_exactly_takes_labels_and_names_in_any_case():
    index = LabelIndex(("a", "A", "b"), {"b": "Bee", "a": "bee"})
    assert index.exactly("A") == [0, 1]
    assert index.exactly("BEE") == [0, 2]
    assert index.exactly("be") == []


@pytest.mark.parametrize(("typed", "label"), [("Berlim", "Berlin"), ("xerlin", "Berlin"), ("osol", "Oslo")])
def test_the_closest_label_comes_first(typed, label):
    assert LabelIndex(LABELS).closest(typed)[0] == label


def test_nothing_is_close_to_nonsense():
    assert LabelIndex(LABELS).closest("qqqqqqqqqqqq") == []
    assert LabelIndex(()).closest("a") == []


def test_a_hundred_thousand_labels_are_searched_in_a_blink():
    labels = [f"entity number {number:06d} of many" for number in range(100_000)]
    index = LabelIndex(labels)
    begun = perf_counter()
    assert index.matches("entity number 0999", 5) == [99_900, 99_901, 99_902, 99_903, 99_904]
    assert index.matches("99999 of", 5) == [99_999]
    assert index.matches("not there", 5) == []
    assert index.closest("entity numbre 012345 of many")
    assert index.closest("x" * 500) == []
    assert perf_counter() - begun < 1
