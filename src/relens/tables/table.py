"""One kind of table, shown as text, Markdown, LaTeX, CSV or JSON."""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from typing import Any, Literal, NamedTuple

from rich import box
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


@dataclass(frozen=True)
class Column:
    """A column: ``spec`` formats its numbers, ``better`` says which of them win."""

    heading: str
    spec: str = ""
    align: Literal["left", "right"] = "right"
    better: Literal["higher", "lower"] | None = None


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

        Labels wrap where room is short, numbers never do: a table of many columns rather grows wider.
        """
        cells = self.cells()
        starred = not terminal and any(cell.best for row in cells for cell in row)
        table, least = self._rich_table(cells, starred)
        out = StringIO()
        console = Console(
            file=out,
            width=max(width, least),
            force_terminal=terminal,
            color_system="standard" if terminal else None,
        )
        console.print(Text(self.title, style="bold" if terminal else ""), width=width)
        console.print(table, width=max(width, least))
        for line in (self.caption, *self.notes, *(["* best of its column"] if starred else [])):
            console.print(Text(line), width=width)
        return "\n".join(line.rstrip() for line in out.getvalue().rstrip().split("\n"))

    def to_markdown(self) -> str:
        """Render for Markdown; best values are bold."""

        def shown(cell: Cell) -> str:
            text = _markdown(cell.text) if cell.label else cell.text
            return f"**{text}**" if cell.best else text

        lines = [
            [_markdown(column.heading) for column in self.columns],
            [":--" if column.align == "left" else "--:" for column in self.columns],
            *([shown(cell) for cell in row] for row in self.cells()),
        ]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
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

    def _rich_table(self, cells: list[list[Cell]], starred: bool) -> tuple[RichTable, int]:
        """Lay the cells out and return the least width they need; ``starred`` marks the best without bold type."""
        table = RichTable(box=box.SIMPLE_HEAD, show_edge=False)
        least = 0
        texts: list[list[Text]] = [[] for _ in cells]
        for position, column in enumerate(self.columns):
            padding = " " if starred and any(row[position].best for row in cells) else ""
            for row, shown in zip(cells, texts, strict=True):
                text, _, best = row[position]
                # Text, not str: rich would read the [tail] of a label as markup.
                shown.append(Text(text + "*") if best and starred else Text(text + padding, "bold" if best else ""))
            longest = max([*(len(row[position]) for row in texts), *(len(word) for word in column.heading.split())])
            numeric = column.align == "right"
            width = longest if numeric else None
            table.add_column(Text(column.heading), justify=column.align, overflow="fold", width=width)
            least += COLUMN_GAP + (longest if numeric else min(longest, MIN_LABEL_WIDTH))
        for position, shown in enumerate(texts):
            if self._begins_summary(position):
                table.add_section()
            table.add_row(*shown)
        return table, least


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
