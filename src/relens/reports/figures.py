"""The figures of a report. Each ``draw_…`` function draws one figure and returns it for the page."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from relens.data.queries import DIRECTIONS
from relens.ensemble.learning_curves import Curve
from relens.ensemble.weights import EnsembleWeights
from relens.evaluation import Evaluation
from relens.reports.material import Training
from relens.reports.relations import RelationRow, all_equal
from relens.reports.style import (
    ACCENT,
    FAINT,
    INK,
    MARKERS,
    RULE,
    SERIES,
    Drawing,
    Sheet,
    keep,
    legend_above,
    method_label,
    shortened,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LARGEST = 40
"""Number of relations in a figure; the table has all."""
ROW = 0.235
"""Inches per row of labels."""
_TALL_ROW = 0.4
"""Inches per row whose label is above it."""
_NUMBERS_UP_TO = 7
"""Number of models up to which a cell has room for its weight."""
EQUAL, UNSEEN = "equal weights: nothing to choose", "equal weights: no validation queries"
"""Labels in place of equal weights, which do not say that the models are equally good."""


def draw_comparison(evaluations: Sequence[Evaluation], best_single: str, ensemble: str, folder: Path) -> Drawing:
    """Draw the MRR of every model and method with its interval, and the best single model as a line."""
    alt = "; ".join(f"{e.name} {e.overall.mrr:.4f}" for e in evaluations)
    return keep(
        lambda sheet: _comparison(evaluations, best_single, ensemble, sheet),
        "comparison",
        f"Test MRR with 95 % intervals: {alt}.",
        folder,
    )


def _comparison(evaluations: Sequence[Evaluation], best_single: str, ensemble: str, sheet: Sheet) -> "Figure":
    from matplotlib.figure import Figure

    n = len(evaluations)
    figure = Figure(figsize=(sheet.width, 0.7 + _row(sheet, 1.1 * ROW) * n), layout="constrained")
    axes = figure.subplots()
    reference = next(e.overall.mrr for e in evaluations if e.name == best_single)
    if sheet.narrow:  # the line is interrupted by the labels, which are between the rows
        axes.vlines([reference] * n, np.arange(n) - 0.22, np.arange(n) + 0.22, color=FAINT, linewidth=0.9, zorder=1)
    else:
        axes.axvline(reference, color=FAINT, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    for y, evaluation in enumerate(evaluations):
        colour = ACCENT if evaluation.name == ensemble else INK if evaluation.settings else FAINT
        low, high = evaluation.interval
        axes.plot([low, high], [y, y], color=colour, linewidth=1.8, solid_capstyle="round", zorder=2)
        axes.plot(evaluation.overall.mrr, y, "o", color=colour, markersize=6, zorder=3)
        axes.annotate(
            f"{evaluation.overall.mrr:.4f}", (1.0, y), xycoords=("axes fraction", "data"), xytext=(8, 0),
            textcoords="offset points", va="center", color=colour, fontsize=9,
            fontweight="bold" if evaluation.name == ensemble else "normal",
        )  # fmt: skip
    _rows(axes, range(len(evaluations)), shortened([method_label(e.name) for e in evaluations], 40), sheet)
    line = "\nupright stroke" if sheet.narrow else " dashed"
    axes.set_xlabel(f"test MRR with 95 % interval;{line}: best single model on validation")
    return figure


def draw_weights(
    named: tuple[str, EnsembleWeights], shared: EnsembleWeights | None, rows: Sequence[RelationRow], folder: Path
) -> Drawing:
    """Draw a heat map of ``named`` weights over relations and models for each direction, below ``shared`` weights."""
    name, weights = named
    models, relations = weights.models, list(dict.fromkeys(row.relation for row in rows))[:LARGEST]
    equal = sum(row.equal for row in rows if row.relation in relations)
    alt = f"Heat map of the weights of {name}: {len(relations)} relations by {len(models)} models, for each direction."
    if equal:
        alt += f" {equal} rows have equal weights, because there was nothing to choose."
    above = None if shared is None else (str(shared.settings["method"]), shared.normalised()[0])
    return keep(lambda sheet: _weights(models, relations, above, rows, sheet), "weights", alt, folder)


def _weights(
    models: Sequence[str],
    relations: Sequence[str],
    above: tuple[str, npt.NDArray[np.float64]] | None,
    rows: Sequence[RelationRow],
    sheet: Sheet,
) -> "Figure":
    from matplotlib.figure import Figure

    at = {(row.relation, row.direction): row for row in rows}
    height = 1.0 + _row(sheet, ROW) * (len(relations) + 2)
    figure = Figure(figsize=(sheet.width, height * (2 if sheet.narrow else 1)), layout="constrained")
    panels = figure.subplots(2, 1, gridspec_kw={"hspace": 0.08}) if sheet.narrow else figure.subplots(1, 2, sharey=True)
    top = 1 if above is None else 1.6
    ys, labels = [y + top for y in range(len(relations))], list(relations)
    if above is not None:
        ys, labels = [0.0, *ys], [f"{above[0]}: all relations", *labels]
    tall = 0.56 if sheet.narrow else 0.92
    for axes, direction in zip(panels, DIRECTIONS, strict=True):
        if above is not None:
            _cells(axes, above[1], 0.0, tall)
        for y, relation in enumerate(relations):
            row = at.get((relation, direction))
            if row is not None:
                _cells(axes, row.weights, y + top, tall, EQUAL if row.own else UNSEEN)
        axes.set_title(f"{direction} queries")
        _models_above(axes, models, sheet)
        axes.set_xlim(-0.5, len(models) - 0.5)
        axes.grid(visible=False)
        axes.spines["bottom"].set_visible(False)
    for axes in panels if sheet.narrow else panels[:1]:
        _rows(axes, ys, shortened(labels), sheet)
    return figure


def _models_above(axes: "Axes", models: Sequence[str], sheet: Sheet) -> None:
    """Write the models' names above the columns of a heat map, rotated if they do not fit side by side."""
    axes.set_xticks(range(len(models)), shortened(models, 14))
    axes.tick_params(axis="x", top=False, bottom=False, labeltop=True, labelbottom=False, pad=1)
    if max(map(len, models)) * len(models) > (22 if sheet.narrow else 28):
        angle = 40 if len(models) <= _NUMBERS_UP_TO else 90
        for label in axes.get_xticklabels():
            label.set(rotation=angle, rotation_mode="anchor", horizontalalignment="left")


def _cells(axes: "Axes", weights: npt.NDArray[np.float64], y: float, tall: float, equal: str = EQUAL) -> None:
    """Draw a row of cells, darker for larger weights, with numbers if there is room; equal weights become one cell."""
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Rectangle

    if all_equal(weights):
        n = len(weights)
        axes.add_patch(Rectangle((-0.48, y - tall / 2), n - 0.04, tall, facecolor=to_rgba(RULE, 0.35), linewidth=0))
        label = axes.text((n - 1) / 2, y + 0.02, equal, ha="center", va="center", fontsize=7.5, color=FAINT)
        label.set_in_layout(False)
        return
    for x, weight in enumerate(weights.tolist()):
        # Opacity instead of a colour scale works on a light and on a dark page.
        colour = to_rgba(ACCENT, 0.04 + 0.6 * weight)
        axes.add_patch(Rectangle((x - 0.48, y - tall / 2), 0.96, tall, facecolor=colour, linewidth=0))
        if len(weights) <= _NUMBERS_UP_TO:
            text = f"{weight:.2f}".removeprefix("0") if weight >= 0.005 else "·"
            label = axes.text(x, y + 0.02, text, ha="center", va="center", fontsize=7.5)
            label.set_in_layout(False)  # it fits into its cell, and measuring hundreds of labels takes seconds


def draw_relations(spread: Mapping[str, Any], ours: Mapping[str, float], folder: Path) -> Drawing:
    """Draw the MRR of every model and of the ensemble (``ours``, by relation) on the largest relations."""
    models = spread["models"]
    largest = dict(sorted(spread["relations"].items(), key=lambda item: -item[1]["queries"])[:LARGEST])
    alt = f"Test MRR of {', '.join(models)} and the ensemble on each of the {len(largest)} largest relations."
    return keep(lambda sheet: _relations(models, largest, ours, sheet), "relations", alt, folder)


def _relations(
    models: Sequence[str], relations: Mapping[str, Any], ours: Mapping[str, float], sheet: Sheet
) -> "Figure":
    from matplotlib.figure import Figure

    legend = shortened(models, 20)
    figure = Figure(figsize=(sheet.width, 0.9 + _row(sheet, ROW) * len(relations)), layout="constrained")
    axes = figure.subplots()
    ys = np.arange(len(relations))
    values = np.array([[entry["mrr"][model] for model in models] for entry in relations.values()])  # (rows, N)
    axes.hlines(ys, values.min(axis=1), values.max(axis=1), color=RULE, linewidth=2.5, zorder=1)
    for i in range(len(models)):
        axes.plot(
            values[:, i], ys, MARKERS[i % len(MARKERS)], color=SERIES[i % len(SERIES)], markersize=5.5,
            linestyle="none", label=legend[i], alpha=0.9,
        )  # fmt: skip
    axes.plot(
        [ours[label] for label in relations], ys, "D", color=INK, markerfacecolor="none", markeredgewidth=1.4,
        markersize=4.5, linestyle="none", label="ensemble", zorder=4,
    )  # fmt: skip
    labels = zip(shortened(list(relations)), relations.values(), strict=True)
    _rows(axes, range(len(relations)), [f"{label} · {entry['queries']:,}" for label, entry in labels], sheet)
    axes.set_xlim(-0.02, 1.02)
    between = "\n" if sheet.narrow else " "
    axes.set_xlabel(f"test MRR, both directions; the number of{between}test queries follows each relation")
    legend_above(figure, axes, sheet)
    return figure


def draw_training(trainings: Mapping[str, Training], folder: Path) -> Drawing | None:
    """Draw loss and validation MRR against steps; return None if no model recorded either."""
    if not any(r.get(key) is not None for t in trainings.values() for r in t.records for key in ("loss", "mrr")):
        return None
    alt = f"Loss and validation MRR of {', '.join(trainings)} while they were trained."
    return keep(lambda sheet: _training(trainings, sheet), "training", alt, folder)


def _training(trainings: Mapping[str, Training], sheet: Sheet) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(sheet.width, 5.4 if sheet.narrow else 3.1), layout="constrained")
    axes = figure.subplots(2, 1) if sheet.narrow else figure.subplots(1, 2)
    legend = shortened(list(trainings), 20)
    for i, training in enumerate(trainings.values()):
        for panel, key in zip(axes, ("loss", "mrr"), strict=True):
            points = [(r["step"], r[key]) for r in training.records if r.get(key) is not None]
            if points:
                panel.plot(*zip(*points, strict=True), color=SERIES[i % len(SERIES)], label=legend[i],
                           marker=MARKERS[i % len(MARKERS)] if key == "mrr" else None, markersize=4)  # fmt: skip
    axes[0].set_title("loss")
    axes[1].set_title("validation MRR")
    losses = [r["loss"] for t in trainings.values() for r in t.records if r.get("loss")]
    if losses and min(losses) > 0 and max(losses) > 20 * min(losses):
        axes[0].set_yscale("log")
        axes[0].set_title("loss, logarithmic")
    for panel in axes:
        panel.set_xlabel("steps")
        panel.tick_params(axis="y", labelcolor=FAINT)
    legend_above(figure, axes[1], sheet)
    return figure


def _row(sheet: Sheet, wide: float) -> float:
    """Return the height of a row in inches; ``wide`` is the height of a row whose label is beside it."""
    return _TALL_ROW if sheet.narrow else wide


def _rows(axes: "Axes", ys: Sequence[float], labels: Sequence[str], sheet: Sheet) -> None:
    """Write the labels of the rows, beside them or, on a narrow sheet, above them."""
    axes.grid(visible=False, axis="y")
    if not sheet.narrow:
        axes.set_yticks(ys, labels)
        axes.set_ylim(ys[-1] + 0.6, ys[0] - 0.6)
        return
    axes.set_yticks([])
    axes.set_ylim(ys[-1] + 0.4, ys[0] - 0.75)
    for y, label in zip(ys, labels, strict=True):
        axes.annotate(label, (0.0, y - 0.42), xycoords=("axes fraction", "data"), va="center", fontsize=9)


_COLOURS = (FAINT, ACCENT, SERIES[1], SERIES[3], SERIES[2])
"""Colours of the learning curves, by method and searcher in the order in which they are measured."""
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
    colours = dict(zip(dict.fromkeys((curve.method, curve.searcher) for curve in curves), cycle(_COLOURS)))
    positive = [s for curve in curves for s in curve.seconds if s > 0]
    left, right = min(positive) / 1.5, max(positive) * 1.3
    for axes, trials in zip(panels, numbers, strict=True):
        for curve in curves:
            if curve.trials in (0, trials):
                seconds = np.maximum([*curve.seconds, right], left)
                axes.step(
                    seconds, [*curve.mrr, curve.mrr[-1]], where="post", color=colours[curve.method, curve.searcher],
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
