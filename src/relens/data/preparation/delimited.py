"""Text tables: TSV, CSV and other delimiters, with or without quotes and a heading."""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from relens.data.headings import FEWEST, is_number
from relens.data.preparation.columns import Columns, choose_columns
from relens.data.preparation.content import encoding_errors, open_text
from relens.data.preparation.facts import ROLES, Block, Encoder, Facts
from relens.data.preparation.settings import DELIMITERS, ReadSettings, delimiter_name
from relens.errors import DatasetError, counted

SAMPLE = 1_000
"""Rows at the beginning of a file that decide about its delimiter, heading and columns."""
_BLOCK = 2**11

Row = tuple[int, list[str]]
"""The number of the line on which a row ends, and its fields."""


class TextForm(NamedTuple):
    """How the fields of a line are separated, whether they may be quoted, and whether spaces around them matter."""

    delimiter: str
    quotes: bool
    spaced: bool = False

    def reader(self, lines: Iterable[str], *, strict: bool) -> Any:
        """Return a reader of quoted fields."""
        return csv.reader(lines, delimiter=self.delimiter, strict=strict, skipinitialspace=not self.spaced)


def read_text(path: Path, content: bytes, settings: ReadSettings, encoder: Encoder, notes: list[str]) -> Facts:
    """Read a text table. Append to ``notes`` what was decided."""
    with encoding_errors(path, content, settings.encoding):
        form, columns = _recognise(path, content, settings, notes)
        notes += columns.notes
        with open_text(path, content, settings.encoding) as lines:
            blocks = _blocks(path, _rows(path, lines, form), columns, form)
            facts = encoder.collect(str(path), "line", blocks)
    if columns.guessed and len(facts) >= FEWEST and _stands_alone(facts):
        with open_text(path, content, settings.encoding) as lines:
            _, first = next(_rows(path, lines, form))
        if any(map(is_number, first)):
            return facts
        notes.append(
            f"{path}: line 1 is a heading, not a triple (none of its labels occurs again; `header=False` reads it as a "
            f"triple): {', '.join(map(str.strip, first))}"
        )
        return Facts(facts.triples[1:], None if facts.times is None else facts.times[1:])
    return facts


def _recognise(path: Path, content: bytes, settings: ReadSettings, notes: list[str]) -> tuple[TextForm, Columns]:
    """Return the form of a file and its columns, by its first rows."""
    with open_text(path, content, settings.encoding) as stream:
        lines = list(islice((line for line in stream if line.strip()), SAMPLE + 1))
    if not lines:
        raise DatasetError(f"{path} is empty: expected a line with head, relation and tail for each triple")
    cut = len(lines) > SAMPLE
    form = _sniff(path, lines, settings, cut=cut)
    if form.delimiter != "\t":
        quotes = "" if form.quotes or form.delimiter == " " else ", without quotes"
        notes.append(f"{path}: fields are separated by {delimiter_name(form.delimiter)}{quotes}")
    with open_text(path, content, settings.encoding) as stream:
        rows = [fields for _, fields in islice(_rows(path, stream, form), SAMPLE)]
    return form, choose_columns(rows, settings, str(path))


def _sniff(path: Path, lines: Sequence[str], settings: ReadSettings, *, cut: bool) -> TextForm:
    """Return the form in which all of the first lines have the same number of fields.

    If there is none, return the one in which most lines have; the line that differs is an error when it is read.
    """
    if settings.delimiter is not None:
        return _form(settings.delimiter, settings)
    best, most = None, 0
    for delimiter in DELIMITERS.values():
        form = _form(delimiter, settings)
        widths = Counter(map(len, _sampled(lines, form, cut=cut)))
        good = {width: count for width, count in widths.items() if width >= len(ROLES)}
        if len(good) == len(widths) == 1:
            return form
        if good and max(good.values()) > most:
            best, most = form, max(good.values())
    if best is None:
        names = ", ".join(delimiter_name(delimiter) for delimiter in DELIMITERS.values())
        raise DatasetError(
            f"{path}: found no delimiter that gives {len(ROLES)} fields or more in {lines[0].strip()[:200]!r}; "
            f"tried {names}. Name it with `delimiter=CHARACTER`."
        )
    return best


def _form(delimiter: str, settings: ReadSettings) -> TextForm:
    quotes = delimiter not in "\t " if settings.quotes is None else settings.quotes
    return TextForm(delimiter, quotes, spaced=not settings.strip)


def _sampled(lines: Sequence[str], form: TextForm, *, cut: bool) -> list[list[str]]:
    """Return the rows in some lines; the last one may be incomplete if the lines were ``cut`` off."""
    if not form.quotes:
        return [_fields(line, form.delimiter) for line in lines]
    try:
        rows = list(form.reader(lines, strict=False))
    except csv.Error:  # a line that begins a quote may end it with this delimiter only
        return []
    return [row for row in (rows[:-1] if cut else rows) if row]


def _fields(line: str, delimiter: str) -> list[str]:
    """Return the fields of a line without quotes; several spaces in a row separate two fields."""
    return line.split() if delimiter == " " else line.rstrip("\r\n").split(delimiter)


def _rows(path: Path, lines: Iterable[str], form: TextForm) -> Iterator[Row]:
    """Yield the rows of a text that are not empty."""
    if not form.quotes:
        for number, line in enumerate(lines, start=1):
            if line.strip("\r\n "):
                yield number, _fields(line, form.delimiter)
        return
    reader = form.reader(lines, strict=True)
    while True:
        begin = reader.line_num + 1
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise DatasetError(
                f"{path}, line {begin:,}: the quotes are wrong ({error}). Close each quote, and double a quote inside "
                f"a field; or pass `quotes=False` if quotes are part of the labels."
            ) from error
        if fields is None:
            return
        if len(fields) > 1 or any(map(str.strip, fields)):
            yield begin, fields


def _wrong_width(path: Path, number: int, fields: list[str], columns: Columns, form: TextForm) -> str:
    line = form.delimiter.join(fields)
    others = [
        delimiter_name(other)
        for other in DELIMITERS.values()
        if other not in (form.delimiter, " ") and line.count(other) == columns.width - 1
    ]
    remedy = (
        f"It may be separated by {others[0]}: write the same delimiter in all lines."
        if others
        else "Correct the line, or pass another `delimiter=CHARACTER`."
    )
    return (
        f"{path}, line {number:,}: found {counted(len(fields), 'field')} in {line[:200]!r}, expected {columns.width} "
        f"separated by {delimiter_name(form.delimiter)}, as in line 1. {remedy}"
    )


def _blocks(path: Path, rows: Iterator[Row], columns: Columns, form: TextForm) -> Iterator[Block]:
    """Yield the chosen columns of the rows below the heading, some rows at a time.

    A row with another number of fields is an error.
    """
    if columns.names is not None:
        next(rows)
    while some := list(islice(rows, _BLOCK)):
        numbers, fields = zip(*some, strict=True)
        if set(map(len, fields)) != {columns.width}:
            number, wrong = next(row for row in some if len(row[1]) != columns.width)
            raise DatasetError(_wrong_width(path, number, wrong, columns, form))
        every = list(zip(*fields, strict=True))
        yield Block(numbers, tuple(every[i] for i in columns.chosen))


def _stands_alone(facts: Facts) -> bool:
    """Say whether the labels of the first triple occur in no other one."""
    head, relation, tail = facts.triples[0].tolist()
    others = facts.triples[1:]
    return not ((others[:, 1] == relation).any() or ((others[:, [0, 2]] == head) | (others[:, [0, 2]] == tail)).any())
