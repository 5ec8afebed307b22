"""The reliability of a report: its tables and its figure."""

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'relens[report]'")

from relens.prediction.reliability import POPULATIONS, Reliability
from relens.reports.reliability import bin_table, draw_reliability, reliability_table
from relens.reports.style import figure_style

STATED = np.array([0.0, 0.25, 0.25, 0.95, np.nan])
FOUND = {
    key: Reliability.measure(STATED, np.array([False, True, False, True, True]), np.array([6.0, 1, 1, 2, 10]))
    for key in POPULATIONS
}


def test_tables_have_the_numbers_of_the_bins():
    (first, *_) = reliability_table(FOUND).rows
    error = (2 * 0.25 + 2 * 0.05) / 10
    assert first.values[:2] == (POPULATIONS["all"], 10.0)
    assert first.values[2:] == pytest.approx(((2 * 0.25 + 2 * 0.95) / 10, 3 / 10, error, 0.5))
    bins = [row.values for row in bin_table(FOUND).rows]
    assert len(bins) == 3 * len(POPULATIONS)
    assert bins[1] == (POPULATIONS["all"], "20%–30%", 2.0, 2, 0.25, 0.5)


def test_the_table_shows_dashes_where_no_answer_got_a_number():
    none = Reliability.measure(np.full(2, np.nan), np.array([True, False]), np.ones(2))
    (row,) = reliability_table({"all": none}).rows
    assert row.values == (POPULATIONS["all"], 0, None, None, None, 1.0)


def test_the_figure_says_its_errors(tmp_path):
    with figure_style():
        drawing = draw_reliability(FOUND, tmp_path)
    assert "expected calibration error 0.0600" in drawing.alt
    assert "mean confidence" in drawing.svg
    assert (tmp_path / "reliability.svg").is_file()
