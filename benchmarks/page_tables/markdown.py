"""The format of tables and figures in the pages."""

from collections.abc import Sequence
from typing import Literal

from relens.tables import Column, Row, Table


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, align: Literal["left", "right"] = "right") -> str:
    """Return a Markdown table; ``align`` applies to all columns but the first, which holds titles."""
    columns = (Column(header[0], align="left"), *(Column(heading, align=align) for heading in header[1:]))
    return Table("", columns, tuple(Row(tuple(row)) for row in rows), {}).to_markdown(bare=True)


def figure(value: float, digits: int = 4) -> str:
    """Return an MRR, Hit@k or p with four digits and no zero before the point, as in papers."""
    return f"{value:.{digits}f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.{digits}f}"


def signed(value: float) -> str:
    """Return a difference of such figures with its sign."""
    return f"{value:+.4f}".replace("0.", ".", 1)


def duration(seconds: float) -> str:
    """Return a time in seconds, or in milliseconds below one second."""
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds:.2f} s" if seconds < 100 else f"{seconds:,.0f} s"
