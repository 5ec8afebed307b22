"""The one kind of table: rendered as text, HTML, Markdown, LaTeX, CSV or JSON."""

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from io import StringIO
from typing import Any, Literal, NamedTuple

from relens.significance import Interval
from relens.tables.formats import render_html, render_latex, render_markdown, render_text
from relens.visible import visible

Value = str | float | Interval | None

NOTHING = "–"
"""Shown for a missing value."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        heading: the heading; unique within its group.
        spec: format specification of its numbers.
        align: ``left`` for text, ``right`` for numbers.
        better: which numbers are better, for columns in which the best is marked.
        spare: columns with the lowest number are dropped first on a narrow terminal; 0 is never dropped.
        group: what several columns have in common, such as ``weight`` for a column per model; precedes the heading.
    """

    heading: str
    spec: str = ""
    align: Literal["left", "right"] = "right"
    better: Literal["higher", "lower"] | None = None
    spare: int = 0
    group: str = ""

    @property
    def label(self) -> str:
        """The heading with its group."""
        return f"{self.group} {self.heading}".strip()


@dataclass(frozen=True)
class Look:
    """How HTML shows a cell: ``shade`` from 0 to 1 colours the background, ``css`` is a class."""

    shade: float | None = None
    css: str = ""


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        values: one value per column; NaN is shown like None.
        spec: format of all numbers. It makes this a summary row: set apart, and never the best.
        css: class of the row in HTML.
        looks: looks of cells in HTML, by the position of the column.
    """

    values: tuple[Value, ...]
    spec: str | None = None
    css: str = ""
    looks: Mapping[int, Look] = field(default_factory=dict)


class Cell(NamedTuple):
    """A value as text; ``label`` says that it was text before and may contain any character."""

    text: str
    label: bool
    best: bool


@dataclass(frozen=True)
class Table:
    """Rows under columns.

    Text, HTML, Markdown and LaTeX round, mark the best values if ``mark_best`` is set, and show control characters as
    escapes. CSV and JSON are exact.

    Attributes:
        title: what the table shows.
        columns, rows: the content.
        facts: facts that identify the numbers: data set, split, tie rule and so on.
        notes: sentences below the table.
        mark_best: whether to mark the best values of the columns that say which values are better.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    mark_best: bool = False

    @property
    def caption(self) -> str:
        """The facts in one line."""
        return "; ".join(f"{name}: {value}" for name, value in self.facts.items())

    @property
    def below(self) -> tuple[str, ...]:
        """The lines below the table: the facts, then the notes."""
        return tuple(filter(None, (self.caption, *self.notes)))

    def cells(self) -> list[list[Cell]]:
        """Return the cells as text, by row."""
        best = [self._best(position) for position in range(len(self.columns))]

        def cell(row: Row, position: int) -> Cell:
            value = row.values[position]
            text = shown(value, row.spec or self.columns[position].spec)
            return Cell(text, label=isinstance(value, str), best=row.spec is None and text == best[position])

        return [[cell(row, position) for position in range(len(self.columns))] for row in self.rows]

    def to_text(self, width: int = 100, *, terminal: bool = False) -> str:
        """Render for ``width`` characters; best values are bold on a ``terminal`` and starred elsewhere.

        Labels wrap if necessary, numbers never do. If the terminal is too narrow, columns are dropped in the order of
        ``Column.spare``, and a line below names them. Elsewhere the table becomes wider instead.
        """
        return render_text(self._for_people(), width, terminal=terminal)

    def to_html(self, attributes: Mapping[str, str] | None = None, *, sortable: bool = False) -> str:
        """Render a ``<table>`` element; best values are bold.

        Args:
            attributes: attributes of the element, such as its class.
            sortable: put each heading into a button, for a script that sorts.
        """
        return render_html(self._for_people(), attributes or {}, sortable=sortable)

    def to_markdown(self, *, bare: bool = False) -> str:
        """Render for Markdown; best values are bold.

        ``bare`` renders only the rows, for a table inside a page. Labels and headings then are Markdown already.
        """
        return render_markdown(self._for_people(), bare=bare)

    def to_latex(self) -> str:
        """Render for LaTeX with the package ``booktabs``; best values are bold."""
        return render_latex(self._for_people())

    def to_csv(self) -> str:
        """Render for programs: exact values, an interval as two columns, and the facts repeated in every row."""
        out = StringIO()
        intervals = [any(isinstance(row.values[i], Interval) for row in self.rows) for i in range(len(self.columns))]
        headings: list[str] = []
        for column, interval in zip(self.columns, intervals, strict=True):
            headings += [f"{column.label} low", f"{column.label} high"] if interval else [column.label]
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*headings, *self.facts])
        for row in self.rows:
            values: list[Value] = []
            for value, interval in zip(row.values, intervals, strict=True):
                values += value if isinstance(value, Interval) else [None, None] if interval else [value]
            writer.writerow([*values, *self.facts.values()])
        return out.getvalue()

    def to_json(self) -> dict[str, Any]:
        """Return exact values as plain JSON values; each row is a mapping by heading."""
        headings = [column.label for column in self.columns]
        exact = [[list(v) if isinstance(v, Interval) else v for v in row.values] for row in self.rows]
        return {
            "title": self.title,
            "facts": dict(self.facts),
            "rows": [dict(zip(headings, values, strict=True)) for values in exact],
            "notes": list(self.notes),
        }

    def begins_summary(self, position: int) -> bool:
        """Return whether the row at ``position`` is the first summary row and follows other rows."""
        return position > 0 and self.rows[position].spec is not None and self.rows[position - 1].spec is None

    def _for_people(self) -> "Table":
        """Return the table with control characters in its texts as escapes."""
        return replace(
            self,
            title=visible(self.title),
            columns=tuple(replace(c, heading=visible(c.heading), group=visible(c.group)) for c in self.columns),
            rows=tuple(replace(row, values=tuple(map(_visible_value, row.values))) for row in self.rows),
            facts={visible(name): visible(value) for name, value in self.facts.items()},
            notes=tuple(map(visible, self.notes)),
        )

    def _best(self, position: int) -> str | None:
        """Return the text of the best value in a column; values that round to the same text are marked as well."""
        column = self.columns[position]
        values = [row.values[position] for row in self.rows if row.spec is None]
        numbers = [value for value in values if isinstance(value, (int, float))]
        if not self.mark_best or column.better is None or len(numbers) < 2:
            return None
        return shown(max(numbers) if column.better == "higher" else min(numbers), column.spec)


def _visible_value(value: Value) -> Value:
    return visible(value) if isinstance(value, str) else value


def shown(value: Value, spec: str) -> str:
    """Return a value as text; ``spec`` formats numbers."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return NOTHING
    if isinstance(value, str):
        return value
    if isinstance(value, Interval):
        return f"[{value.low:{spec}}, {value.high:{spec}}]"
    return format(value, spec)
