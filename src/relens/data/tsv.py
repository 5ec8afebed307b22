"""Read and write tab-separated text, plain or gzip. Errors name the line."""

import gzip
import zlib
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from relens.errors import DatasetError
from relens.unpacking import check_unpacked, most_unpacked


def read_lines(path: Path) -> list[str]:
    r"""Return the lines of a UTF-8 file, plain or ``.gz``, without their line ends (``\n`` or ``\r\n``)."""
    try:
        text = read_content(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = error.object.count(b"\n", 0, error.start) + 1
        raise DatasetError(
            f"{path}, line {number}: found byte 0x{error.object[error.start]:02x}, expected UTF-8 text. "
            f"Convert the file first, for instance with `iconv -f latin1 -t utf-8`."
        ) from error
    # str.splitlines would also split labels at characters such as U+2028.
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def read_rows(path: Path, fields: tuple[str, ...]) -> list[list[str]]:
    """Return the rows of a table with the columns ``fields``. Skip empty lines; raise an error for empty fields."""
    lines = read_lines(path)
    rows = [line.split("\t") for line in lines if line]
    labels = set(chain.from_iterable(rows))
    if any(len(row) != len(fields) for row in rows) or not all(map(str.strip, labels)):
        for number, line in enumerate(lines, start=1):
            if line:
                _check_line(path, number, line, fields)
    return rows


def write_rows(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """Write a table as gzip. Equal rows give equal bytes."""
    text = "".join("\t".join(row) + "\n" for row in rows)
    encoding = "utf-8-sig" if text.startswith("\ufeff") else "utf-8"  # readers take a first U+FEFF for a mark
    path.write_bytes(gzip.compress(text.encode(encoding), mtime=0))


def read_content(path: Path) -> bytes:
    """Return the bytes of a file, decompressed if its name ends in ``.gz``."""
    try:
        if path.suffix != ".gz":
            return path.read_bytes()
        with gzip.open(path) as file:
            content = file.read(most_unpacked(path.stat().st_size) + 1)
        check_unpacked(path, len(content))
        return content
    except FileNotFoundError as error:
        raise DatasetError(f"{path} does not exist") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DatasetError(
            f"{path} is not a complete gzip file ({error}). It is truncated, damaged or not compressed: "
            f"copy it again, or drop the .gz from its name if it is plain text."
        ) from error


def _check_line(path: Path, number: int, line: str, fields: tuple[str, ...]) -> None:
    """Raise an error unless a line holds exactly the expected fields, none of them blank."""
    found, where = line.split("\t"), f"{path}, line {number}"
    expected = f"{len(fields)} fields separated by tabs ({', '.join(fields)})"
    if len(found) != len(fields):
        count = "1 field" if len(found) == 1 else f"{len(found)} fields"
        remedy = _remedy(path, line, fields)
        raise DatasetError(f"{where}: found {count} in {line!r}, expected {expected}. {remedy}")
    for name, field in zip(fields, found, strict=True):
        if not field.strip():
            raise DatasetError(f"{where}: the {name} is empty in {line!r}, expected {expected}. Fill it in.")


def _remedy(path: Path, line: str, fields: tuple[str, ...]) -> str:
    """Say how to correct a line with the wrong number of fields."""
    n_fields, n_found = len(fields), line.count("\t") + 1
    if n_found > n_fields:
        read = "zcat" if path.suffix == ".gz" else "cat"
        others = ",".join(map(str, [1, *range(3, n_fields + 2)]))
        return (
            f"Keep the first {n_fields} fields with `{read} {path.name} | cut -f1-{n_fields} > NEW_FILE`, or choose "
            f"the {n_fields} fields to keep, as in `cut -f{others}`."
        )
    if len(line.split()) == n_fields:
        return "The fields may be separated by spaces: replace them with tabs, as in `tr -s ' ' '\\t'`."
    if line.count(",") == n_fields - 1:
        return "The fields may be separated by commas: replace them with tabs, as in `tr ',' '\\t'`."
    return "Write one tab between two fields."
