"""Write streams of records, one at a time, as TSV, CSV, JSON lines or Parquet.

Text may be compressed (``.gz``). A file appears when it is complete, and memory does not grow with the number of
records.
"""

import csv
import gzip
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from relens.errors import InputError, MissingExtraError, nearest
from relens.files import whole_file
from relens.visible import visible_json

FORMS = ("tsv", "csv", "jsonl", "parquet")
"""The formats of streams; each is also the ending of its files."""
PARQUET = FORMS[3]
GZIP = ".gz"
ROW_GROUP = 2**16
"""Records of a row group in Parquet: only these are in memory."""

Record = Mapping[str, Any]
Write = Callable[[Record], None]


@dataclass(frozen=True)
class Field:
    """A column of a stream.

    Attributes:
        name: its name, and the key in records.
        kind: the type of its values, ``str``, ``int``, ``float`` or ``bool``; every value may be None.
        spec: format specification of its values in TSV and CSV; Parquet and JSON are exact.
    """

    name: str
    kind: type[str | float] = str
    spec: str = ""

    def text(self, value: Any) -> str:
        """Return a value as a cell of TSV or CSV; nothing for None."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return str(value).lower()
        return format(value, self.spec)


def named_form(output: Path | None) -> str | None:
    """Return the format that the name of a file ends in, before any ``.gz``; None if it names none."""
    name = "" if output is None else output.name.lower().removesuffix(GZIP)
    return next((form for form in FORMS if name.endswith(f".{form}")), None)


def form_of(output: Path | None, form: str | None = None) -> str:
    """Return the format of a stream: ``form``, or the one that the name of the file ends in, or else TSV."""
    if form is None:
        form = named_form(output) or FORMS[0]
    if form not in FORMS:
        raise InputError(f"unknown format `form={form}`; {nearest(form, FORMS)}")
    if form == PARQUET and output is None:
        raise InputError("Parquet is binary and is not written to stdout: give `output=FILE.parquet`")
    if form == PARQUET and output is not None and output.suffix.lower() == GZIP:
        raise InputError(f"{output}: Parquet compresses its columns itself; leave out the ending {GZIP}")
    return form


@contextmanager
def record_stream(fields: Sequence[Field], output: Path | None = None, form: str | None = None) -> Iterator[Write]:
    """Yield a function that writes one record.

    A record has a value or None for every field; other keys are written to JSON lines only. On any failure, a file at
    ``output`` stays as it was.

    Args:
        fields: the columns, in order.
        output: the file; None for stdout.
        form: one of ``FORMS``; None to choose by the name of the file, see ``form_of``.
    """
    form = form_of(output, form)
    if form == PARQUET:
        assert output is not None
        arrow = _arrow()
        with whole_file(output) as aside, _parquet_writer(arrow, fields, aside) as write:
            yield write
        return
    with _text_file(output) as out:
        if form == "jsonl":
            yield lambda record: _write_line(out, record)
        else:
            writer = csv.writer(out, dialect="excel-tab" if form == "tsv" else "excel", lineterminator="\n")
            writer.writerow(field.name for field in fields)
            yield lambda record: writer.writerow([field.text(record[field.name]) for field in fields])


def write_records(
    records: Iterable[Record], fields: Sequence[Field], output: Path | None = None, form: str | None = None
) -> None:
    """Write all records; the arguments are those of ``record_stream``."""
    with record_stream(fields, output, form) as write:
        for record in records:
            write(record)


def _write_line(out: TextIO, record: Record) -> None:
    out.write(visible_json(record) + "\n")


@contextmanager
def _text_file(output: Path | None) -> Iterator[TextIO]:
    """Yield stdout, or a file that appears when it is complete; its text is compressed if the name ends in ``.gz``."""
    if output is None:
        yield sys.stdout
        return
    with ExitStack() as stack:
        aside = stack.enter_context(whole_file(output))
        binary: Any = stack.enter_context(aside.open("wb"))
        if output.suffix.lower() == GZIP:
            # Without a name and a time, equal records give equal bytes.
            binary = stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=binary, mtime=0))
        yield stack.enter_context(TextIOWrapper(binary, encoding="utf-8", newline=""))


def _arrow() -> Any:
    """Import pyarrow with its module of Parquet files."""
    try:
        import_module("pyarrow.parquet")
        return import_module("pyarrow")
    except ImportError as error:
        raise MissingExtraError("writing Parquet", "parquet") from error


@contextmanager
def _parquet_writer(arrow: Any, fields: Sequence[Field], path: Path) -> Iterator[Write]:
    """Yield a function that keeps records and writes each full row group; the last one is written at the end."""
    types = {str: arrow.string(), int: arrow.int64(), float: arrow.float64(), bool: arrow.bool_()}
    schema = arrow.schema([(field.name, types[field.kind]) for field in fields])
    waiting: list[list[Any]] = []

    with arrow.parquet.ParquetWriter(path, schema) as writer:

        def flush() -> None:
            columns = list(zip(*waiting, strict=True)) or [()] * len(fields)
            writer.write_table(
                arrow.Table.from_arrays(
                    [arrow.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)],
                    schema=schema,
                )
            )
            waiting.clear()

        def write(record: Record) -> None:
            waiting.append([record[field.name] for field in fields])
            if len(waiting) == ROW_GROUP:
                flush()

        yield write
        if waiting:
            flush()
