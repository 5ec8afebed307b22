import matplotlib as mpl
import pytest

from relens.reports.style import figure_style, shortened

LONG = "/film/film/release_date_s./film/film_regional_release_date/film_release_distribution_medium"


def test_short_labels_stay_and_long_ones_keep_both_ends():
    short, long = shortened(["/film/film/genre", LONG], 20)
    assert short == "/film/film/genre"
    assert long == "/film/…bution_medium"
    assert len(long) == 20


@pytest.mark.parametrize("limit", [4, 10, 34])
def test_labels_that_differ_in_the_middle_stay_distinct(limit):
    labels = [f"a model called {number} that is long in itself" for number in range(12)]
    assert len(set(shortened(labels, limit))) == 12


def test_the_style_ends_with_the_context():
    before = dict(mpl.rcParams)
    with figure_style():
        assert mpl.rcParams["text.parse_math"] is False
    assert dict(mpl.rcParams) == before
