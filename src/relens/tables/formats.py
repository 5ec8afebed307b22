"""Tables as text for terminals and files, and as HTML, Markdown and LaTeX."""

import re
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from io import StringIO
from typing import TYPE_CHECKING

from rich import box
from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from relens.significance import Interval

if TYPE_CHECKING:
    from relens.tables.table import Cell, Column, Look, Row, Table

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


_MARKDOWN_SPECIAL = re.compile(r"([\\`*_\[\]<>|~$&#])")
_LATEX_SPECIAL = str.maketrans(
    {character: f"\\{character}" for character in "{}$&%#_"}
    # At the beginning of a row, LaTeX parses [ and * as an argument of the row break before it.
    | {character: f"{{{character}}}" for character in "[*"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
    | {"–": "--", "−": "$-$", "↑": r"$\uparrow$", "Δ": r"$\Delta$"}
)


def render_markdown(table: "Table", *, bare: bool) -> str:
    """Render a table; see ``Table.to_markdown``."""
    escaped = str if bare else _markdown

    def cell_text(cell: "Cell") -> str:
        text = escaped(cell.text) if cell.label else cell.text
        return f"**{text}**" if cell.best else text

    lines = [
        [escaped(column.label) for column in table.columns],
        [":--" if column.align == "left" else "--:" for column in table.columns],
        *([cell_text(cell) for cell in row] for row in table.cells()),
    ]
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    if bare:
        return rows
    return f"**{_markdown(table.title)}**\n\n{rows}\n\n" + "  \n".join(map(_markdown, table.below))


def render_latex(table: "Table") -> str:
    """Render a table; see ``Table.to_latex``."""

    def cell_text(cell: "Cell") -> str:
        text = _latex(cell.text if cell.label else cell.text.replace("-", "−"))
        return rf"\textbf{{{text}}}" if cell.best else text

    lines = [" & ".join(_latex(column.label) for column in table.columns) + r" \\", r"\midrule"]
    for position, row in enumerate(table.cells()):
        if table.begins_summary(position):
            lines.append(r"\midrule")
        lines.append(" & ".join(cell_text(cell) for cell in row) + r" \\")
    caption = " ".join(f"{_latex(line).removesuffix('.')}." for line in (table.title, *table.below))
    alignment = "".join(column.align[0] for column in table.columns)
    begin = [r"\begin{table}", r"\centering", rf"\caption{{{caption}}}", rf"\begin{{tabular}}{{{alignment}}}"]
    return "\n".join([*begin, r"\toprule", *lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"])


def render_html(table: "Table", attributes: Mapping[str, str], *, sortable: bool) -> str:
    """Render a table; see ``Table.to_html``.

    The first cell of a row is its heading. Cells and headings of the other left-aligned columns have the class ``t``.
    End tags that HTML allows to leave out are left out: a table may have ten thousand cells.
    """
    lines = [f"<table{_attributes(attributes)}>", f"<caption>{escape(table.title, quote=False)}</caption>"]
    headings = [_html_heading(column, first=i == 0, sortable=sortable) for i, column in enumerate(table.columns)]
    lines += ["<thead><tr>", *headings, "</thead>", "<tbody>"]
    for row, cells in zip(table.rows, table.cells(), strict=True):
        lines.append(_html_row(table, row, cells))
    lines.append("</tbody>")
    if table.below:
        below = "<br>".join(escape(line, quote=False) for line in table.below)
        lines.append(f'<tfoot><tr><td class="t" colspan="{len(table.columns)}">{below}</tfoot>')
    return "\n".join([*lines, "</table>"])


def _html_heading(column: "Column", *, first: bool, sortable: bool) -> str:
    group = f'<span class="group">{escape(column.group, quote=False)} </span>' if column.group else ""
    text = group + escape(column.heading, quote=False)
    attributes = {"scope": "col"}
    if column.align == "left" or first:
        attributes["class"] = "t"
    if column.better is not None:
        attributes["data-better"] = column.better
    return f"<th{_attributes(attributes)}>" + (f'<button type="button">{text}</button>' if sortable else text)


def _html_row(table: "Table", row: "Row", cells: "list[Cell]") -> str:
    name = " ".join(filter(None, ("summary" if row.spec is not None else "", row.css)))
    parts = [f'<tr class="{escape(name)}">' if name else "<tr>"]
    for i, (column, cell) in enumerate(zip(table.columns, cells, strict=True)):
        text = escape(cell.text, quote=False) if cell.label else _typeset(table, row, i, cell)
        text = f"<b>{text}</b>" if cell.best else text
        if i == 0:
            parts.append(f"<th scope=row>{text}")
        else:
            parts.append(f"<td{_cell_attributes(row.looks.get(i), text_column=column.align == 'left')}>{text}")
    return "".join(parts)


def _cell_attributes(look: "Look | None", *, text_column: bool) -> str:
    """Return the attributes of a cell without quotation marks, which their values do not need."""
    shade = "" if look is None or look.shade is None else f" style=--v:{look.shade:.2f}"
    css = look.css if look is not None and look.css else "t" if text_column else ""
    return shade + (f" class={css}" if css else "")


def _typeset(table: "Table", row: "Row", position: int, cell: "Cell") -> str:
    """Return a number with a real minus sign, and an interval without brackets."""
    value, spec = row.values[position], row.spec or table.columns[position].spec
    text = cell.text
    if isinstance(value, Interval):
        text = f"{value.low:{spec}}{' to ' if spec.startswith('+') else '–'}{value.high:{spec}}"
    return text.replace("-", "−").replace("%", "\N{NO-BREAK SPACE}%")


def _attributes(values: Mapping[str, str]) -> str:
    return "".join(f' {name}="{escape(value)}"' for name, value in values.items())


def _markdown(text: str) -> str:
    """Escape the characters that Markdown interprets."""
    return _MARKDOWN_SPECIAL.sub(r"\\\1", text)


def _latex(text: str) -> str:
    """Escape the characters that LaTeX interprets."""
    return text.translate(_LATEX_SPECIAL)
