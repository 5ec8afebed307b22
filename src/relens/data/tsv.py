"""Read and write tab-separated text, plain or gzip. Errors name the line."""

import gzip
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from relens.errors import DatasetError
from relens.unpacking import check_unpacked, most_unpacked

BLOCK = 2**22
"""Bytes that ``read_blocks`` reads together."""
LEVEL = 6
"""How hard tables are compressed: on FB15k-237, the highest level takes three times as long for 6 % less."""


def read_lines(path: Path) -> list[str]:
    r"""Return the lines of a UTF-8 file, plain or ``.gz``, without their line ends (``\n`` or ``\r\n``)."""
    text = _decode(path, read_content(path).removeprefix(BOM_UTF8), first_line=1)
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
                check_line(path, number, line, fields)
    return rows


def read_blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield a UTF-8 file, plain or ``.gz``, in blocks of whole lines, each with the number of its first line.

    Bytes are as in the file, without a byte order mark; the last line may lack its end.
    """
    number, begun = 1, list[bytes]()  # parts of a line whose end was not read yet
    for part in _parts(path):
        end = part.rfind(b"\n") + 1
        if end:
            block = _unmarked(number, b"".join([*begun, part[:end]]))
            yield number, _checked(path, block, number)
            number, begun = number + block.count(b"\n"), []
        begun.append(part[end:])
    if rest := _unmarked(number, b"".join(begun)):
        yield number, _checked(path, rest, number)


def write_rows(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """Write a table as gzip. Equal rows give equal bytes."""
    write_content(path, "".join("\t".join(row) + "\n" for row in rows).encode("utf-8"))


def write_content(path: Path, content: bytes) -> None:
    """Write text in UTF-8 as gzip. Equal texts give equal bytes."""
    mark = BOM_UTF8 if content.startswith(BOM_UTF8) else b""  # readers take a first U+FEFF for a mark
    path.write_bytes(gzip.compress(mark + content, LEVEL, mtime=0))


def read_content(path: Path) -> bytes:
    """Return the bytes of a file, decompressed if its name ends in ``.gz``."""
    with _explained(path):
        if path.suffix != ".gz":
            return path.read_bytes()
        with gzip.open(path) as file:
            content = file.read(most_unpacked(path.stat().st_size) + 1)
        check_unpacked(path, len(content))
        return content


def _parts(path: Path) -> Iterator[bytes]:
    """Yield the content of a file in parts of ``BLOCK`` bytes, decompressed."""
    size = 0
    with _explained(path), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        while part := file.read(BLOCK):
            size += len(part)
            if path.suffix == ".gz":
                check_unpacked(path, size)
            yield part


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn errors of a file that is missing or damaged into those of relens."""
    try:
        yield
    except FileNotFoundError as error:
        raise DatasetError(f"{path} does not exist") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DatasetError(
            f"{path} is not a complete gzip file ({error}). It is truncated, damaged or not compressed: "
            f"copy it again, or drop the .gz from its name if it is plain text."
        ) from error


def _unmarked(first_line: int, block: bytes) -> bytes:
    """Return a block of whole lines without the byte order mark that may begin a file."""
    return block.removeprefix(BOM_UTF8) if first_line == 1 else block


def _checked(path: Path, block: bytes, first_line: int) -> bytes:
    """Return a block, or raise an error unless it is UTF-8."""
    if not block.isascii():
        _decode(path, block, first_line)
    return block


def _decode(path: Path, content: bytes, first_line: int) -> str:
    """Return the text of some whole lines; the error names the line that is not UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + first_line
        raise DatasetError(
            f"{path}, line {number}: found byte 0x{content[error.start]:02x}, expected UTF-8 text. "
            f"Convert the file first, for instance with `iconv -f latin1 -t utf-8`."
        ) from error


def check_line(path: Path, number: int, line: str, fields: tuple[str, ...]) -> None:
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
    prepared = " `relens data prepare` reads such files, too." if fields[:3] == ("head", "relation", "tail") else ""
    if n_found > n_fields:
        read = "zcat" if path.suffix == ".gz" else "cat"
        others = ",".join(map(str, [1, *range(3, n_fields + 2)]))
        return (
            f"Keep the first {n_fields} fields with `{read} {path.name} | cut -f1-{n_fields} > NEW_FILE`, or choose "
            f"the {n_fields} fields to keep, as in `cut -f{others}`.{prepared}"
        )
    if len(line.split()) == n_fields:
        return f"The fields may be separated by spaces: replace them with tabs, as in `tr -s ' ' '\\t'`.{prepared}"
    if line.count(",") == n_fields - 1:
        return f"The fields may be separated by commas: replace them with tabs, as in `tr ',' '\\t'`.{prepared}"
    return "Write one tab between two fields."
