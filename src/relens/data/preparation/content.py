"""The content of source files: plain, gzip or Zstandard, and their text with errors that name the line."""

from codecs import BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import TextIO

from relens.data.tsv import read_content
from relens.errors import DatasetError, MissingExtraError
from relens.unpacking import check_unpacked, most_unpacked

COMPRESSED = (".gz", ".zst")
_ARCHIVES = (".zip", ".bz2", ".xz", ".7z", ".tar", ".tgz", ".rar")
_MARKS = {
    BOM_UTF32_LE: "utf-32",
    BOM_UTF32_BE: "utf-32",
    BOM_UTF16_LE: "utf-16",
    BOM_UTF16_BE: "utf-16",
}
"""First bytes of text in other encodings. Those of UTF-32 come first: they begin with those of UTF-16."""
_PACKED = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst"}


def inner_name(path: Path) -> str:
    """Return the name of a file in lower case without the ending of its compression."""
    return (path.stem if path.suffix.lower() in COMPRESSED else path.name).lower()


def source_bytes(path: Path) -> bytes:
    """Return the content of a file, decompressed if its name ends in ``.gz`` or ``.zst``."""
    if path.suffix.lower() in _ARCHIVES:
        raise DatasetError(f"{path} is an archive: unpack it first, and name the file with the triples")
    content = _unpacked_zstd(path) if path.suffix.lower() == ".zst" else read_content(path)
    for mark, ending in _PACKED.items():
        if content.startswith(mark):
            raise DatasetError(f"{path} is compressed, but its name does not end in {ending}: rename it")
    return content


def open_text(path: Path, content: bytes, encoding: str) -> TextIO:
    """Return the text of a file as a stream that keeps line ends, without a byte-order mark."""
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        for mark, other in _MARKS.items():
            if content.startswith(mark):
                raise DatasetError(
                    f"{path} begins with the byte-order mark of {other.upper()}, expected UTF-8: pass "
                    f"`encoding={other}`"
                )
        encoding = "utf-8-sig"
    return TextIOWrapper(BytesIO(content), encoding=encoding, newline="")


@contextmanager
def encoding_errors(path: Path, content: bytes, encoding: str) -> Iterator[None]:
    """Turn a decoding error while a text is read into one that names the line."""
    try:
        yield
    except UnicodeDecodeError as error:
        number, byte = _first_undecodable(content, encoding)
        where = f"{path}, line {number}: found byte 0x{byte:02x}" if number else f"{path}: found {error.reason}"
        raise DatasetError(
            f"{where}, which is no {encoding.upper()} text. If the file has another encoding, name it, such as "
            f"`encoding=latin-1`; otherwise it is damaged: copy it again"
        ) from error
    except UnicodeError as error:
        raise DatasetError(f"{path} is no {encoding.upper()} text ({error}): pass its `encoding=NAME`") from error


def _first_undecodable(content: bytes, encoding: str) -> tuple[int, int]:
    """Return the number of the first line with a byte that cannot be decoded, and that byte; zeros if unknown."""
    lines = BytesIO(content) if "\n".encode(encoding) == b"\n" else ()
    for number, line in enumerate(lines, start=1):
        try:
            line.decode(encoding)
        except UnicodeDecodeError as error:
            return number, line[error.start]
    return 0, 0


def _unpacked_zstd(path: Path) -> bytes:
    """Return the content of a file that is compressed by Zstandard."""
    try:
        zstd = import_module("compression.zstd")
    except ImportError:
        try:
            zstd = import_module("backports.zstd")
        except ImportError as error:
            raise MissingExtraError("reading .zst files", "zstd") from error
    try:
        with zstd.open(path) as file:
            content: bytes = file.read(most_unpacked(path.stat().st_size) + 1)
    except FileNotFoundError as error:
        raise DatasetError(f"{path} does not exist") from error
    except (EOFError, zstd.ZstdError) as error:
        raise DatasetError(
            f"{path} is not a complete .zst file ({error}). It is truncated, damaged or not compressed: copy it "
            f"again, or drop the .zst from its name if it is not compressed."
        ) from error
    check_unpacked(path, len(content))
    return content
