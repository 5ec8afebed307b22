"""One kind of table, shown as text, Markdown, LaTeX, CSV or JSON."""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any, Literal, NamedTuple

from rich import box
from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from relens.significance import Interval

Value = str | float | Interval | None

NOTHING = "–"
MIN_LABEL_WIDTH = 16
COLUMN_GAP = 3

_MARKDOWN_SPECIAL = re.compile(r"([\\`*_\[\]<>|~$&#])")
_LATEX_SPECIAL = str.maketrans(
    {character: f"\\{character}" for character in "{}$&%#_"}
    # LaTeX takes a [ or * that begins a row for an argument of the row break before it.
    | {character: f"{{{character}}}" for character in "[*"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
    | {"–": "--", "−": "$-$", "↑": r"$\uparrow$", "Δ": r"$\Delta$"}
)


_BREAKS = (" ,:;/|", " ,:;/|_.-=+")
"""Characters that a line of a label may end with: the better ones, and those that will do."""


@dataclass(frozen=True)
class Column:
    """A column: ``spec`` formats its numbers, ``better`` says which of them win.

    ``spare`` says when a narrow terminal does without it: the columns with the least number first, those with 0 never.
    """

    heading: str
    spec: str = ""
    align: Literal["left", "right"] = "right"
    better: Literal["higher", "lower"] | None = None
    spare: int = 0


@dataclass(frozen=True)
class Row:
    """One value per column. A ``spec`` of its own makes it a summary row: set apart, and never the best."""

    values: tuple[Value, ...]
    spec: str | None = None


class Cell(NamedTuple):
    """A value as shown; ``label`` where it is the data's text and not a number of ours."""

    text: str
    label: bool
    best: bool


@dataclass(frozen=True)
class Table:
    """Rows under columns, and the ``facts`` that every number needs beside it (data set, split, tie rule, …).

    Text, Markdown and LaTeX round and, with ``mark_best``, mark the best values; CSV and JSON keep values exact.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    facts: Mapping[str, str]
    notes: tuple[str, ...] = ()
    mark_best: bool = False

    @property
    def caption(self) -> str:
        """The facts in one line."""
        return "; ".join(f"{name}: {value}" for name, value in self.facts.items())

    def cells(self) -> list[list[Cell]]:
        """Return the cells as shown, row by row."""
        best = [self._best(position) for position in range(len(self.columns))]

        def cell(row: Row, position: int) -> Cell:
            value = row.values[position]
            text = _show(value, row.spec or self.columns[position].spec)
            return Cell(text, label=isinstance(value, str), best=row.spec is None and text == best[position])

        return [[cell(row, position) for position in range(len(self.columns))] for row in self.rows]

    def to_text(self, width: int = 100, *, terminal: bool = False) -> str:
        """Render for ``width`` characters; best values are bold on a ``terminal`` and starred elsewhere.

        Labels wrap where room is short, numbers never do. On a terminal that is too narrow the columns to spare are
        left out, which a line below says; a table of many columns rather grows wider elsewhere.
        """
        shown, left_out = self._fitting(width) if terminal else (self, ())
        cells = shown.cells()
        starred = not terminal and any(cell.best for row in cells for cell in row)
        least = shown._least_width(starred)
        table = shown._rich_table(cells, starred, max(width, least))
        out = StringIO()
        console = Console(
            file=out,
            width=max(width, least),
            force_terminal=terminal,
            color_system="standard" if terminal else None,
        )
        console.print(Text(self.title, style="bold" if terminal else ""), width=width)
        console.print(table, width=max(width, least))
        below = [self.caption, *self.notes]
        if starred:
            below.append("* best of its column")
        if left_out:
            below.append(f"left out for want of room: {', '.join(left_out)}; a wider terminal, a pipe or JSON has all")
        for line in below:
            console.print(Text(line), width=width)
        return "\n".join(line.rstrip() for line in out.getvalue().rstrip().split("\n"))

    def to_markdown(self, *, bare: bool = False) -> str:
        """Render for Markdown; best values are bold.

        ``bare`` is for a table inside a page: the rows alone, without title, facts and notes; its labels and headings
        are Markdown already.
        """
        escaped = str if bare else _markdown

        def shown(cell: Cell) -> str:
            text = escaped(cell.text) if cell.label else cell.text
            return f"**{text}**" if cell.best else text

        lines = [
            [escaped(column.heading) for column in self.columns],
            [":--" if column.align == "left" else "--:" for column in self.columns],
            *([shown(cell) for cell in row] for row in self.cells()),
        ]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        if bare:
            return table
        below = "  \n".join(_markdown(line) for line in (self.caption, *self.notes))
        return f"**{_markdown(self.title)}**\n\n{table}\n\n{below}"

    def to_latex(self) -> str:
        """Render for LaTeX with the package ``booktabs``; best values are bold."""

        def shown(cell: Cell) -> str:
            text = _latex(cell.text if cell.label else cell.text.replace("-", "−"))
            return rf"\textbf{{{text}}}" if cell.best else text

        lines = [" & ".join(_latex(column.heading) for column in self.columns) + r" \\", r"\midrule"]
        for position, row in enumerate(self.cells()):
            if self._begins_summary(position):
                lines.append(r"\midrule")
            lines.append(" & ".join(shown(cell) for cell in row) + r" \\")
        caption = " ".join(f"{_latex(line).removesuffix('.')}." for line in (self.title, self.caption, *self.notes))
        alignment = "".join(column.align[0] for column in self.columns)
        begin = [r"\begin{table}", r"\centering", rf"\caption{{{caption}}}", rf"\begin{{tabular}}{{{alignment}}}"]
        return "\n".join([*begin, r"\toprule", *lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"])

    def to_csv(self) -> str:
        """Render for programs: exact values, an interval as two columns, and the facts repeated on every row."""
        out = StringIO()
        intervals = [any(isinstance(row.values[i], Interval) for row in self.rows) for i in range(len(self.columns))]
        headings: list[str] = []
        for column, interval in zip(self.columns, intervals, strict=True):
            headings += [f"{column.heading} low", f"{column.heading} high"] if interval else [column.heading]
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*headings, *self.facts])
        for row in self.rows:
            values: list[Value] = []
            for value, interval in zip(row.values, intervals, strict=True):
                values += value if isinstance(value, Interval) else [None, None] if interval else [value]
            writer.writerow([*values, *self.facts.values()])
        return out.getvalue()

    def to_json(self) -> dict[str, Any]:
        """Return exact values as plain JSON values; each row is keyed by the headings."""
        headings = [column.heading for column in self.columns]
        exact = [[list(v) if isinstance(v, Interval) else v for v in row.values] for row in self.rows]
        return {
            "title": self.title,
            "facts": dict(self.facts),
            "rows": [dict(zip(headings, values, strict=True)) for values in exact],
            "notes": list(self.notes),
        }

    def _best(self, position: int) -> str | None:
        """Return how the best value of a column is shown: what looks equal to it is no worse to a reader."""
        column = self.columns[position]
        values = [row.values[position] for row in self.rows if row.spec is None]
        numbers = [value for value in values if isinstance(value, (int, float))]
        if not self.mark_best or column.better is None or len(numbers) < 2:
            return None
        return _show(max(numbers) if column.better == "higher" else min(numbers), column.spec)

    def _begins_summary(self, position: int) -> bool:
        """Say whether the summary rows begin at a row that has others above it."""
        return position > 0 and self.rows[position].spec is not None and self.rows[position - 1].spec is None

    def _fitting(self, width: int) -> tuple["Table", tuple[str, ...]]:
        """Return the table without as many columns to spare as do not fit, and the headings of those."""
        table = self
        for spare in sorted({column.spare for column in self.columns} - {0}):
            if table._least_width(starred=False) <= width:
                break
            kept = [i for i, column in enumerate(table.columns) if column.spare != spare]
            table = replace(
                table,
                columns=tuple(table.columns[i] for i in kept),
                rows=tuple(replace(row, values=tuple(row.values[i] for i in kept)) for row in table.rows),
            )
        return table, tuple(column.heading for column in self.columns if column not in table.columns)

    def _widths(self, starred: bool) -> list[int]:
        """Return the width that each column would like; ``starred`` leaves room for the mark of the best."""
        cells = self.cells()
        widths = []
        for i, column in enumerate(self.columns):
            mark = 1 if starred and any(row[i].best for row in cells) else 0
            texts = [cell_len(row[i].text) + mark for row in cells]
            widths.append(max([*texts, *map(cell_len, column.heading.split())], default=0))
        return widths

    def _least_width(self, starred: bool) -> int:
        """Return the width below which numbers would break, or labels after fewer than ``MIN_LABEL_WIDTH`` letters."""
        widths = zip(self.columns, self._widths(starred), strict=True)
        return sum(COLUMN_GAP + (w if c.align == "right" else min(w, MIN_LABEL_WIDTH)) for c, w in widths) - 1

    def _rich_table(self, cells: list[list[Cell]], starred: bool, width: int) -> RichTable:
        """Lay the cells out for ``width`` characters; ``starred`` marks the best without bold type."""
        widths = self._widths(starred)
        labels = [i for i, column in enumerate(self.columns) if column.align == "left"]
        while sum(widths) + COLUMN_GAP * len(widths) - 1 > width:
            widest = max(labels, key=lambda i: widths[i], default=None)
            if widest is None or widths[widest] <= MIN_LABEL_WIDTH:
                break
            widths[widest] -= 1
        table = RichTable(box=box.SIMPLE_HEAD, show_edge=False)
        for column, room in zip(self.columns, widths, strict=True):
            table.add_column(Text(column.heading), justify=column.align, overflow="fold", width=room)
        padded = [" " if starred and any(row[i].best for row in cells) else "" for i in range(len(widths))]
        for position, row in enumerate(cells):
            if self._begins_summary(position):
                table.add_section()
            # Text, not str: rich would read the [tail] of a label as markup.
            table.add_row(
                *(
                    Text("\n".join(wrapped(text, room)) if label else text + ("*" if best and starred else padding),
                         "bold" if best and not starred else "")
                    for (text, label, best), room, padding in zip(row, widths, padded, strict=True)
                )
            )  # fmt: skip
        return table


def wrapped(label: str, width: int) -> list[str]:
    """Break a label into lines of at most ``width`` characters, after a space, comma, colon or slash if it can be."""
    lines = []
    while cell_len(label) > width:
        room = max(1, len(chop_cells(label, width)[0]))
        # A space may hang over the edge: it is not seen.
        ends = [max(label.rfind(c, 0, room + (c == " ")) for c in breaks) + 1 for breaks in _BREAKS]
        end = next((end for end in ends if end > room // 3), room)
        lines.append(label[:end].rstrip(" "))
        label = label[end:]
    return [*lines, label]


def _show(value: Value, spec: str) -> str:
    """Round and format a value."""
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return value
    if isinstance(value, Interval):
        return f"[{value.low:{spec}}, {value.high:{spec}}]"
    return format(value, spec)


def _markdown(text: str) -> str:
    """Escape what Markdown would read as formatting."""
    return _MARKDOWN_SPECIAL.sub(r"\\\1", text)


def _latex(text: str) -> str:
    """Escape what LaTeX would read as a command."""
    return text.translate(_LATEX_SPECIAL)
