"""Which columns of a table are head, relation, tail and time, and whether the first row is a heading."""

from collections.abc import Sequence
from dataclasses import dataclass

from relens.data.headings import are_column_names, is_number, role_of
from relens.data.preparation.facts import ROLES
from relens.data.preparation.settings import Column, ReadSettings
from relens.errors import DatasetError, nearest

FEWEST_ROWS = 2
"""Rows below a heading that must have a number in a column whose first field is none."""


@dataclass(frozen=True)
class Columns:
    """The columns to read.

    Attributes:
        chosen: positions from 0 of head, relation and tail, and of the time if there is one.
        width: the number of columns of the table.
        names: the names of all columns; None without a heading.
        notes: sentences that say what was decided.
        guessed: whether nobody said that the first row is a triple, so that it may still be a heading.
    """

    chosen: tuple[int, ...]
    width: int
    names: tuple[str, ...] | None
    notes: tuple[str, ...]
    guessed: bool


def choose_columns(rows: Sequence[Sequence[str]], settings: ReadSettings, source: str) -> Columns:
    """Choose the columns of a text table by its first rows, of which the first may be a heading."""
    first, others = rows[0], rows[1:]
    header = settings.header
    if header is None:
        header = _is_heading(first, others, settings)
    if header:
        columns = named_columns(first, others, settings, source)
        how = "as asked" if settings.header else "it names columns; `header=False` reads it as a triple"
        note = f"{source}: line 1 is a heading, not a triple ({how}): {', '.join(map(str.strip, first))}"
        return Columns(columns.chosen, columns.width, columns.names, (note, *columns.notes), guessed=False)
    return _choose(rows, None, settings, source)


def named_columns(names: Sequence[str], rows: Sequence[Sequence[str]], settings: ReadSettings, source: str) -> Columns:
    """Choose the columns of a table with named columns."""
    return _choose(rows, tuple(map(str.strip, names)), settings, source)


def _is_heading(first: Sequence[str], others: Sequence[Sequence[str]], settings: ReadSettings) -> bool:
    """Say whether a first row names columns: those that were asked for, known names, or text above numbers."""
    plain = [field.strip() for field in first]
    asked = [column for column in (*(settings.columns or ()), settings.time) if isinstance(column, str)]
    asked = [column for column in asked if not column.isdecimal()]
    if any(column in plain for column in asked):
        return True
    again = any(field in (row[i] for row in others if i < len(row)) for i, field in enumerate(first))
    if again or are_column_names(first):
        return not again
    return len(others) >= FEWEST_ROWS and any(
        not is_number(field) and all(i < len(row) and is_number(row[i]) for row in others)
        for i, field in enumerate(first)
    )


def _choose(
    rows: Sequence[Sequence[str]], names: tuple[str, ...] | None, settings: ReadSettings, source: str
) -> Columns:
    width = len(names) if names is not None else len(rows[0])
    time = () if settings.time is None else (_position(settings.time, names, width, source),)
    if settings.columns is not None:
        chosen = tuple(_position(column, names, width, source) for column in settings.columns)
    else:
        chosen = _guess(rows, names, width, time, source)
    if len(set(chosen + time)) < len(chosen + time):
        raise DatasetError(
            f"{source}: head, relation, tail and time must be different columns; found {settings.columns!r}"
        )
    plain = width == 3 and chosen == (0, 1, 2)
    notes = () if plain and not time else (_note(chosen + time, names, width, source),)
    return Columns(chosen + time, width, names, notes, guessed=names is None and settings.header is None)


def _position(column: Column, names: tuple[str, ...] | None, width: int, source: str) -> int:
    """Return the position of a column, given by its name or by its number from 1."""
    if names is not None and isinstance(column, str) and column.strip() in names:
        name = column.strip()
        if names.count(name) > 1:
            raise DatasetError(f"{source} has {names.count(name)} columns named {name!r}: choose one by its number")
        return names.index(name)
    if isinstance(column, int) or column.strip().isdecimal():
        number = int(column)
        if not 1 <= number <= width:
            raise DatasetError(f"{source} has {width} columns, so there is no column {number}: count from 1")
        return number - 1
    if names is None:
        raise DatasetError(
            f"{source} has no heading, so there is no column {column!r}: give its number from 1, or pass `header=True` "
            f"if the first line names the columns"
        )
    raise DatasetError(f"{source} has no column {column!r}; {nearest(column, names, show_all=True)}")


def _guess(
    rows: Sequence[Sequence[str]], names: tuple[str, ...] | None, width: int, time: tuple[int, ...], source: str
) -> tuple[int, ...]:
    """Return the columns of head, relation and tail: by their names, or the first ones that are no weights."""
    if width < len(ROLES) + len(time):
        found = "1 column" if width == 1 else f"{width} columns"
        raise DatasetError(
            f"{source} has {found}, expected at least {len(ROLES) + len(time)}: head, relation, tail"
            f"{' and time' if time else ''}"
        )
    if names is not None:
        roles = [role_of(name) for name in names]
        if all(roles.count(role) == 1 for role in ROLES):
            return tuple(roles.index(role) for role in ROLES)
    free = [i for i in range(width) if i not in time]
    if len(free) > len(ROLES):
        labels = [i for i in free if not rows or not all(_is_weight(row[i]) for row in rows if i < len(row))]
        free = labels if len(labels) >= len(ROLES) else free
    return tuple(free[: len(ROLES)])


def _note(chosen: tuple[int, ...], names: tuple[str, ...] | None, width: int, source: str) -> str:
    """Return which of the columns are used."""

    def shown(position: int) -> str:
        return f"{position + 1} ({names[position]!r})" if names is not None else str(position + 1)

    used = ", ".join(f"{role} {shown(i)}" for role, i in zip((*ROLES, "time"), chosen, strict=False))
    rest = [shown(i) for i in range(width) if i not in chosen]
    unused = f"; not used: {', '.join(rest[:6])}{', …' if len(rest) > 6 else ''}" if rest else ""
    return f"{source}: {width} columns, used as {used}{unused}"


def _is_weight(field: str) -> bool:
    """Say whether a field is a decimal number such as 0.87, which no label is likely to be."""
    return is_number(field) and not field.strip().lstrip("+-").isdecimal()
