"""The style of a report: how it writes numbers and names, and how its figures look.

Files of figures have the colours below; the page replaces them by its own, light or dark.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from relens.tables.table import NOTHING
from relens.visible import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def method_label(name: str) -> str:
    """Return a method's name for readers: ``dsc:input=rank`` becomes ``dsc (input=rank)``."""
    method, _, options = name.partition(":")
    return f"{method} ({options.replace(',', ', ')})" if options else method


def mrr(value: float) -> str:
    """Return an MRR with four digits; a dash for NaN."""
    return NOTHING if np.isnan(value) else f"{value:.4f}"


def signed(value: float) -> str:
    """Return a difference of MRRs with its sign; a dash for NaN."""
    return NOTHING if np.isnan(value) else minus(f"{value:+z.4f}")


def minus(number: str) -> str:
    """Return a number with a real minus sign."""
    return number.replace("-", "−")


def count(value: int) -> str:
    """Return a whole number with a comma between thousands."""
    return f"{value:,}"


def share(value: float) -> str:
    """Return a fraction in per cent."""
    return f"{value:.0%}".replace("%", "\N{NO-BREAK SPACE}%")


def p(value: float) -> str:
    """Return a p-value for a cell."""
    return f"{value:.2g}" if value >= 0.0001 else "< 0.0001"


def p_equals(value: float) -> str:
    """Return a p-value for a sentence."""
    return f"p {p(value)}" if value < 0.0001 else f"p = {p(value)}"


INK, FAINT, RULE, ACCENT = "#1c2127", "#68717b", "#d8dde2", "#0072b2"
_VARIABLES = {INK: "var(--ink)", FAINT: "var(--faint)", RULE: "var(--rule)", ACCENT: "var(--accent)"}
"""CSS variables of the page for these colours."""

SERIES = (ACCENT, "#e08a00", "#009e73", "#cc6594", "#d55e00", "#4fa8dc")
"""Colours that people with any colour vision can distinguish (after Okabe and Ito); markers differ as well."""
MARKERS = ("o", "s", "^", "v", "P", "X", "<")


@dataclass(frozen=True)
class Sheet:
    """The format of a drawing; the page scales it to its column.

    Attributes:
        width: inches.
        narrow: whether labels go above their rows and panels above each other, for lack of room.
    """

    width: float
    narrow: bool = False


_LINE, _NARROW_LINE, _HANDLE = 100, 50, 7
"""Characters that fit into a line of a legend, wide and narrow, and the room for the handle of an entry."""
WIDE, NARROW = Sheet(8.0), Sheet(3.9, narrow=True)

_STYLE: Any = {
    "axes.edgecolor": RULE,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelcolor": FAINT,
    "axes.labelsize": 9,
    "axes.linewidth": 0.8,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titlecolor": INK,
    "figure.dpi": 72,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "relens",
    "text.color": INK,
    # Labels are plain text: a $ does not begin a formula.
    "text.parse_math": False,
    "xtick.color": RULE,
    "xtick.labelcolor": FAINT,
    "xtick.labelsize": 9,
    "ytick.color": RULE,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 9,
    "ytick.major.size": 0,
}


@dataclass(frozen=True)
class Drawing:
    """A figure as the page shows it.

    Attributes:
        name: stem of its files.
        alt: description in words.
        svg: an ``<svg>`` element in the page's colours.
        narrow: the same for a narrow screen.
    """

    name: str
    alt: str
    svg: str
    narrow: str


@contextmanager
def figure_style() -> Iterator[None]:
    """Apply the style of relens inside the context, and restore the style of the process afterwards."""
    import matplotlib as mpl

    with mpl.rc_context(), warnings.catch_warnings():
        # Characters that the font lacks become boxes in the PNG; in the SVG the reader's own fonts show them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def keep(draw: "Callable[[Sheet], Figure]", name: str, alt: str, folder: Path) -> Drawing:
    """Draw a figure, write it as PNG and SVG below ``folder``, and return it for the page, wide and narrow."""
    figure, alt = draw(WIDE), visible(alt)
    figure.savefig(folder / f"{name}.png", dpi=160, facecolor="white", metadata={"Software": "relens"})
    figure.set_layout_engine("none")  # keep the layout of the first drawing
    svg = _svg(figure, alt)
    root = svg.index(">", svg.index("<svg")) + 1
    paper = '<rect width="100%" height="100%" fill="#ffffff"/>'
    (folder / f"{name}.svg").write_text(f"{svg[:root]}{paper}{svg[root:]}", encoding="utf-8")
    return Drawing(name, alt, _for_page(svg, name), _for_page(_svg(draw(NARROW), alt), f"{name}-narrow"))


def _svg(figure: "Figure", alt: str) -> str:
    text = StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Title": alt})
    return text.getvalue()


def _for_page(svg: str, name: str) -> str:
    """Return the ``<svg>`` element in the page's colours, with ids that no other figure has."""
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg[svg.index("<svg") :], flags=re.DOTALL)

    def rewritten(tag: re.Match[str]) -> str:
        text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", tag[0]).replace("xlink:href", "href")
        if text.startswith("<svg"):
            text = re.sub(r' (width|height|version)="[^"]*"', "", text).replace("<svg", '<svg aria-hidden="true"')
        text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", text)
        for colour, variable in _VARIABLES.items():
            text = text.replace(colour, variable)
        return text

    # Rewrite only tags: the text between them is labels.
    return re.sub(r"<[^>]*>", rewritten, svg)


def shortened(labels: Sequence[str], limit: int = 34) -> list[str]:
    """Return labels for a figure: control characters as escapes, and long labels by their beginning and end.

    Labels that show differently stay distinct.
    """
    labels = list(map(visible, labels))
    while True:
        head, tail = limit // 3, limit - limit // 3 - 1
        short = [label if len(label) <= limit else f"{label[:head]}…{label[-tail:]}" for label in labels]
        if len(set(short)) == len(set(labels)):
            return short
        limit += 4


def legend_above(figure: "Figure", axes: "Axes", sheet: Sheet, columns: int = 6) -> None:
    """Put the legend above the panels, in one line if the labels are short, otherwise in ``columns`` columns."""
    handles, labels = axes.get_legend_handles_labels()
    one_line = sum(map(len, labels)) + _HANDLE * len(labels) <= _LINE
    wide = len(labels) if one_line else min(columns, len(labels))
    narrow = max(1, _NARROW_LINE // (max(map(len, labels), default=1) + _HANDLE))
    figure.legend(
        handles, labels, loc="outside upper left", ncols=min(narrow, wide) if sheet.narrow else wide,
        columnspacing=1.4, handletextpad=0.5,
    )  # fmt: skip
