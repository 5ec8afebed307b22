"""The reliability of the confidence in a report: its tables and its figure."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from relens.prediction.reliability import POPULATIONS, Reliability
from relens.reports.style import FAINT, MARKERS, SERIES, Drawing, Sheet, keep, legend_above
from relens.tables import Column, Row, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWN = ("all", "missing")
"""The populations of the figure; the others are parts of the first."""


def reliability_table(found: Mapping[str, Reliability]) -> Table:
    """Return the calibration error of each population, and its share of answers without a number."""
    columns = (
        Column("answers", align="left"),
        Column("number", ",.0f"),
        Column("mean confidence", ".1%"),
        Column("facts of test", ".1%"),
        Column("expected calibration error", ".4f"),
        Column("without a number", ".1%"),
    )
    rows = []
    for key, each in found.items():
        total = sum(bin.weight for bin in each.bins)
        sums = sum(bin.weight * bin.stated for bin in each.bins), sum(bin.weight * bin.observed for bin in each.bins)
        means = (value / total if total else None for value in sums)
        rows.append(Row((POPULATIONS[key], total, *means, each.ece if each.bins else None, each.without)))
    return Table("Confidence and facts of the test split", columns, tuple(rows))


def bin_table(found: Mapping[str, Reliability]) -> Table:
    """Return a row for each bin of each population."""
    columns = (
        Column("answers", align="left"),
        Column("confidence", align="left"),
        Column("number", ",.0f"),
        Column("judged", ",d"),
        Column("mean confidence", ".1%"),
        Column("facts of test", ".1%"),
    )
    rows = [
        Row((POPULATIONS[key], f"{bin.low:.0%}–{bin.high:.0%}", bin.weight, bin.answers, bin.stated, bin.observed))
        for key, each in found.items()
        for bin in each.bins
    ]
    return Table("Confidence and facts of the test split, by bins", columns, tuple(rows))


def draw_reliability(found: Mapping[str, Reliability], folder: Path) -> Drawing:
    """Draw the share of facts over the mean confidence of each bin."""
    alt = "; ".join(f"{POPULATIONS[key]}: expected calibration error {found[key].ece:.4f}" for key in DRAWN)
    return keep(lambda sheet: _reliability(found, sheet), "reliability", f"Reliability on test: {alt}.", folder)


def _reliability(found: Mapping[str, Reliability], sheet: Sheet) -> "Figure":
    from matplotlib.figure import Figure

    side = min(sheet.width, 5.0)
    figure = Figure(figsize=(sheet.width, side), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color=FAINT, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    most = max((bin.weight for key in DRAWN for bin in found[key].bins), default=1.0)
    for key, colour, marker in zip(DRAWN, SERIES, MARKERS, strict=False):
        bins = found[key].bins
        axes.plot([b.stated for b in bins], [b.observed for b in bins], color=colour, label=POPULATIONS[key], zorder=2)
        sizes = [12 + 60 * (b.weight / most) ** 0.25 for b in bins]
        axes.scatter([b.stated for b in bins], [b.observed for b in bins], sizes, color=colour, marker=marker, zorder=3)
    axes.set_xlim(-0.03, 1.03)
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlabel("mean confidence")
    axes.set_ylabel("share of facts of test")
    legend_above(figure, axes, sheet, columns=1)
    return figure
