"""Tab-separated text, plain or gzip, read with messages that name the line at fault."""

import gzip
import zlib
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from relens.errors import DatasetError


def read_lines(path: Path) -> list[str]:
    r"""Return the lines of a UTF-8 file, plain or ``.gz``, without their ends (``\n`` or ``\r\n``)."""
    try:
        text = _content(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = error.object.count(b"\n", 0, error.start) + 1
        raise DatasetError(
            f"{path}, line {number}: found byte 0x{error.object[error.start]:02x}, expected UTF-8 text. "
            f"Convert the file first, for instance with `iconv -f latin1 -t utf-8`."
        ) from error
    # str.splitlines would also cut inside labels, at characters such as U+2028.
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def read_rows(path: Path, fields: tuple[str, ...]) -> list[list[str]]:
    """Return the rows of a table whose columns are ``fields``; empty lines are skipped, empty fields refused."""
    lines = read_lines(path)
    rows = [line.split("\t") for line in lines if line]
    labels = set(chain.from_iterable(rows))
    if any(len(row) != len(fields) for row in rows) or not all(map(str.strip, labels)):
        for number, line in enumerate(lines, start=1):
            if line:
                _check_line(f"{path}, line {number}", line, fields)
    return rows


def write_rows(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """Write a table as gzip; equal rows give equal bytes."""
    text = "".join("\t".join(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode("utf-8"), mtime=0))


def _content(path: Path) -> bytes:
    """Return the bytes of a file, unpacked where its name ends in ``.gz``."""
    try:
        if path.suffix != ".gz":
            return path.read_bytes()
        with gzip.open(path) as file:
            return file.read()
    except FileNotFoundError as error:
        raise DatasetError(f"{path} does not exist") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DatasetError(
            f"{path} is not a whole gzip file ({error}). It was cut short, damaged or never compressed: "
            f"copy it again, or drop the .gz from its name if it is plain text."
        ) from error


def _check_line(where: str, line: str, fields: tuple[str, ...]) -> None:
    """Refuse a line that does not hold exactly the expected fields, none of them blank."""
    found = line.split("\t")
    expected = f"{len(fields)} fields separated by tabs ({', '.join(fields)})"
    if len(found) != len(fields):
        remedy = "Write one tab between the fields."
        if len(line.split()) == len(fields):
            remedy = "The file may be separated by spaces: replace them by tabs, as in `tr -s ' ' '\\t'`."
        raise DatasetError(f"{where}: found {len(found)} fields in {line!r}, expected {expected}. {remedy}")
    for name, field in zip(fields, found, strict=True):
        if not field.strip():
            raise DatasetError(f"{where}: the {name} is empty in {line!r}, expected {expected}. Fill it.")
