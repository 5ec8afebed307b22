"""Learning curves of the search in a report: kept in the run, drawn, and listed in a table."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from relens.ensemble.learning_curves import Curve, curves_from_json, curves_to_json, measure_curves
from relens.files import read_json, write_json
from relens.progress import Progress
from relens.reports.material import Material
from relens.reports.style import ACCENT, FAINT, SERIES, Drawing, Sheet, keep, legend_above
from relens.tables import Column, Row, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = "curves.json"
"""The file of a run that keeps its curves."""
_COLOURS = {
    ("simple", "tpe"): SERIES[1],
    ("basic", "tpe"): SERIES[3],
    ("dsc", "tpe"): SERIES[2],
    ("simple", "sweep"): FAINT,
    ("dsc", "sweep"): ACCENT,
}
"""Colour by method and searcher."""
_DASHES = {1: "-", 2: (0, (5, 2)), 5: (0, (1.5, 1.5))}


def draw_curves(curves: Sequence[Curve], folder: Path) -> Drawing:
    """Draw the best validation MRR so far against seconds, a panel for each number of trials."""
    ends = "; ".join(f"{c.label}, Q {c.trials}: {c.mrr[-1]:.4f} in {c.seconds[-1]:.2f} s" for c in curves)
    alt = f"Learning curves of the search. At the end: {ends}."
    return keep(lambda sheet: _curves(curves, sheet), "curves", alt, folder)


def _curves(curves: Sequence[Curve], sheet: Sheet) -> "Figure":
    from matplotlib.figure import Figure

    numbers = sorted({curve.trials for curve in curves} - {0})
    n = len(numbers)
    figure = Figure(figsize=(sheet.width, 1.2 + 2.6 * n if sheet.narrow else 3.6), layout="constrained")
    panels = figure.subplots(n, 1) if sheet.narrow else figure.subplots(1, n, sharey=True)
    positive = [s for curve in curves for s in curve.seconds if s > 0]
    left, right = min(positive) / 1.5, max(positive) * 1.3
    for axes, trials in zip(panels, numbers, strict=True):
        for curve in curves:
            if curve.trials in (0, trials):
                seconds = np.maximum([*curve.seconds, right], left)
                axes.step(
                    seconds, [*curve.mrr, curve.mrr[-1]], where="post", color=_COLOURS[curve.method, curve.searcher],
                    linestyle=_DASHES[curve.workers], label=curve.label,
                )  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlim(left, right)
        axes.set_title(f"Q = {trials}")
        axes.set_xlabel("seconds, logarithmic")
        axes.tick_params(axis="y", labelcolor=FAINT)
        axes.minorticks_off()
        axes.xaxis.set_major_formatter("{x:g}")
    panels[0].set_ylabel("best validation MRR so far")
    legend_above(figure, panels[0], sheet, columns=4)
    return figure


def curve_table(curves: Sequence[Curve]) -> Table:
    """Return the end of each learning curve."""
    return Table(
        "Where each search ended",
        (
            Column("search", align="left"),
            Column("Q", "d"),
            Column("seconds", ".3g"),
            Column("validation MRR", ".4f"),
        ),
        tuple(Row((curve.label, curve.trials or None, curve.seconds[-1], curve.mrr[-1])) for curve in curves),
    )


def kept_or_measured(material: Material, progress: Progress, *, measure: bool) -> list[Curve]:
    """Return the learning curves that the run keeps for its ranks, or ``measure`` and keep them."""
    path = material.run.path / CURVES
    if measure:
        seed = material.evaluation(material.ensemble).seed
        curves = measure_curves(material.valid, seed=seed, progress=progress)
        write_json(path, curves_to_json(curves, material.valid))
        return curves
    kept = curves_from_json(read_json(path, "learning curves"), material.valid) if path.is_file() else None
    return kept or []
