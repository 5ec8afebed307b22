"""Tables as text, for terminals and files."""

from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING

from rich import box
from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

if TYPE_CHECKING:
    from relens.tables.table import Cell, Table

MIN_LABEL_WIDTH = 16
"""Labels may be wrapped to this many characters."""
COLUMN_GAP = 3

_BREAKS = (" ,:;/|", " ,:;/|_.-=+")
"""Characters after which a label may be broken: the preferred ones, then all."""


def render_text(table: "Table", width: int, *, terminal: bool) -> str:
    """Render a table; see ``Table.to_text``."""
    fitting, dropped = _fitting(table, width) if terminal else (table, ())
    cells = fitting.cells()
    starred = not terminal and any(cell.best for row in cells for cell in row)
    total = max(width, _least_width(fitting, starred=starred))
    out = StringIO()
    console = Console(file=out, width=total, force_terminal=terminal, color_system="standard" if terminal else None)
    console.print(Text(table.title, style="bold" if terminal else ""), width=width)
    console.print(_rich_table(fitting, cells, total, starred=starred), width=total)
    below = [*table.below]
    if starred:
        below.append("* best of its column")
    if dropped:
        below.append(f"columns that do not fit: {', '.join(dropped)}; shown on a wider terminal, in a pipe, or as JSON")
    for line in below:
        console.print(Text(line), width=width)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().split("\n"))


def _fitting(table: "Table", width: int) -> tuple["Table", tuple[str, ...]]:
    """Return the table without the columns that do not fit, and the headings of those."""
    found = table
    for spare in sorted({column.spare for column in table.columns} - {0}):
        if _least_width(found, starred=False) <= width:
            break
        kept = [i for i, column in enumerate(found.columns) if column.spare != spare]
        found = replace(
            found,
            columns=tuple(found.columns[i] for i in kept),
            rows=tuple(replace(row, values=tuple(row.values[i] for i in kept)) for row in found.rows),
        )
    return found, tuple(column.label for column in table.columns if column not in found.columns)


def _widths(table: "Table", *, starred: bool) -> list[int]:
    """Return the width of each column if nothing wraps; ``starred`` leaves room for the mark of the best value."""
    cells = table.cells()
    widths = []
    for i, column in enumerate(table.columns):
        mark = 1 if starred and any(row[i].best for row in cells) else 0
        texts = [cell_len(row[i].text) + mark for row in cells]
        widths.append(max([*texts, *map(cell_len, column.label.split())], default=0))
    return widths


def _least_width(table: "Table", *, starred: bool) -> int:
    """Return the smallest width at which no number breaks and labels have ``MIN_LABEL_WIDTH`` characters."""
    widths = zip(table.columns, _widths(table, starred=starred), strict=True)
    return sum(COLUMN_GAP + (w if c.align == "right" else min(w, MIN_LABEL_WIDTH)) for c, w in widths) - 1


def _rich_table(table: "Table", cells: "list[list[Cell]]", width: int, *, starred: bool) -> RichTable:
    """Lay the cells out in ``width`` characters; ``starred`` marks the best values without bold type."""
    widths = _widths(table, starred=starred)
    labels = [i for i, column in enumerate(table.columns) if column.align == "left"]
    while sum(widths) + COLUMN_GAP * len(widths) - 1 > width:
        widest = max(labels, key=lambda i: widths[i], default=None)
        if widest is None or widths[widest] <= MIN_LABEL_WIDTH:
            break
        widths[widest] -= 1
    laid_out = RichTable(box=box.SIMPLE_HEAD, show_edge=False)
    for column, room in zip(table.columns, widths, strict=True):
        laid_out.add_column(Text(column.label), justify=column.align, overflow="fold", width=room)
    padded = [" " if starred and any(row[i].best for row in cells) else "" for i in range(len(widths))]
    for position, row in enumerate(cells):
        if table.begins_summary(position):
            laid_out.add_section()
        # Text, not str: rich would parse the [tail] of a label as markup.
        laid_out.add_row(
            *(
                Text("\n".join(wrapped(text, room)) if label else text + ("*" if best and starred else padding),
                     "bold" if best and not starred else "")
                for (text, label, best), room, padding in zip(row, widths, padded, strict=True)
            )
        )  # fmt: skip
    return laid_out


def wrapped(label: str, width: int) -> list[str]:
    """Break a label into lines of at most ``width`` characters, after a space, comma, colon or slash if possible."""
    lines = []
    while cell_len(label) > width:
        room = max(1, len(chop_cells(label, width)[0]))
        # A space may be beyond the edge, because it is invisible.
        ends = [max(label.rfind(c, 0, room + (c == " ")) for c in breaks) + 1 for breaks in _BREAKS]
        end = next((end for end in ends if end > room // 3), room)
        lines.append(label[:end].rstrip(" "))
        label = label[end:]
    return [*lines, label]
