"""Read files of ``torch.save`` without torch and without running code from them.

Such a file is a pickle, either in a zip archive or (before torch 1.6) after a few small pickles. A pickle names
classes and functions to call. This reader accepts only the few names that pickled numpy arrays contain, and replaces
each with a stand-in. Any other name raises an error before anything is called. What it makes is
never larger than the file; see ``relens.data.pickles``.
"""

import re
import struct
import zipfile
import zlib
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any, NoReturn

import numpy as np
import numpy.typing as npt

from relens.data.pickles import PickleReader, StandIn, Stateful
from relens.errors import DatasetError, InputError
from relens.unpacking import check_unpacked

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
"""The first value in a file without a zip archive."""
_NUMBERS = re.compile(r"[biuf][1248]")
_DAMAGE = (
    UnpicklingError, EOFError, zipfile.BadZipFile, zlib.error, struct.error, ValueError, TypeError, AttributeError,
    IndexError, KeyError, OverflowError, NotImplementedError, RuntimeError, OSError,
)  # fmt: skip
"""Errors that a truncated or manipulated pickle may raise."""


def read_saved(path: Path) -> Any:
    """Return the content of a file: dictionaries, lists, tuples, text, numbers, and read-only arrays of numbers."""
    try:
        with path.open("rb") as file:
            if zipfile.is_zipfile(file):
                return _read_archive(file, path)
            file.seek(0)
            return _read_legacy(file, path)
    except FileNotFoundError as error:
        raise DatasetError(f"{path} does not exist") from error
    except InputError:
        raise
    except MemoryError as error:
        raise DatasetError(
            f"{path} needs more memory than available: reading it holds all arrays in memory, and the file has "
            f"{path.stat().st_size:,} bytes. Read it on a larger machine. If it is small, it is damaged."
        ) from error
    except _DAMAGE as error:
        raise DatasetError(
            f"{path} cannot be read ({type(error).__name__}: {error}). Expected a complete file of torch.save; this "
            f"one is truncated or damaged. Unpack it from OGB's archive again."
        ) from error


def _read_archive(file: IO[bytes], path: Path) -> Any:
    with zipfile.ZipFile(file) as archive:
        names = [name for name in archive.namelist() if name.rpartition("/")[2] == "data.pkl"]
        if len(names) != 1:
            raise DatasetError(
                f"{path} is a zip archive with {len(names)} files data.pkl, expected one as torch.save writes it. "
                f"Use the file in OGB's archive, not the archive itself."
            )
        size = archive.getinfo(names[0]).file_size
        check_unpacked(path, size)
        with archive.open(names[0]) as member:
            # Reading the last byte of the pickle also verifies the checksum of the archive.
            return _reader(member, size, path).load()


def _read_legacy(file: IO[bytes], path: Path) -> Any:
    if file.read(1) != b"\x80":
        raise DatasetError(
            f"{path} is neither a zip archive nor a pickle: expected a file of torch.save. "
            f"Unpack it from OGB's archive again."
        )
    file.seek(0)
    reader = _reader(file, path.stat().st_size, path)
    if reader.load() != LEGACY_MAGIC:
        raise DatasetError(f"{path} is a pickle that torch.save did not write. Unpack it from OGB's archive again.")
    _version, _system, value, storages = (reader.load() for _ in range(4))
    if storages:
        raise DatasetError(_refusal(path, "torch tensors"))
    return value


class _Array(Stateful):
    """Stand-in for ``numpy.ndarray``, empty until its state is set."""

    values: npt.NDArray[Any]

    def set_state(self, state: tuple[Any, ...]) -> None:
        """Set the state: version, shape, type, column-major flag, and raw bytes."""
        _, shape, kind, by_column, raw = state
        if not isinstance(kind, _Type):
            raise UnpicklingError(f"the type of an array is {type(kind).__name__}")
        self.values = np.frombuffer(raw, kind.dtype).reshape(shape, order="F" if by_column else "C")
        self.values.setflags(write=False)

    def value(self) -> npt.NDArray[Any]:
        """Return the array."""
        return self.values


class _Type(Stateful):
    """Stand-in for ``numpy.dtype``: numbers of one to eight bytes."""

    def __init__(self, code: str, *_: object) -> None:
        if not isinstance(code, str) or not _NUMBERS.fullmatch(code):
            raise UnpicklingError(f"an array holds {str(code)[:20]!r}, expected numbers")
        self.dtype: np.dtype[Any] = np.dtype(code)

    def set_state(self, state: tuple[Any, ...]) -> None:
        """Set the byte order, the second part of the state."""
        self.dtype = self.dtype.newbyteorder(state[1])

    def value(self) -> NoReturn:
        """Raise an error: a type is no value."""
        raise UnpicklingError("it has a type in place of a value")


def _empty_array(stand_in: type[_Array], *_: object) -> _Array:
    if stand_in is not _Array:
        raise UnpicklingError("an array is of another class")
    return _Array()


def _scalar(kind: _Type, raw: bytes) -> int | float:
    number: int | float = np.frombuffer(raw, kind.dtype, count=1)[0].item()
    return number


def _encode(text: str, encoding: str) -> bytes:
    # Protocol 2 writes bytes this way.
    if encoding != "latin1":
        raise UnpicklingError(f"bytes are written as {str(encoding)[:20]!r}")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    # Protocol 2 writes the values of an empty array this way.
    return b""


ADMITTED: dict[tuple[str, str], StandIn] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): _no_bytes,
    **{
        (f"{package}.multiarray", name): stand_in
        for package in ("numpy.core", "numpy._core")
        for name, stand_in in (("_reconstruct", _empty_array), ("scalar", _scalar))
    },
}
"""All names that a file may contain, each with its stand-in."""


def _reader(file: IO[bytes], size: int, path: Path) -> PickleReader:
    """Return a reader that calls only the stand-ins in ``ADMITTED``."""

    def admitted(module: str, name: str) -> StandIn:
        try:
            return ADMITTED[module, name]
        except KeyError:
            raise DatasetError(_refusal(path, f"{module}.{name}")) from None

    def stored() -> NoReturn:
        raise DatasetError(_refusal(path, "torch tensors"))

    return PickleReader(file, size, admitted, stored)


def _refusal(path: Path, found: str) -> str:
    return (
        f"{path} holds {found}, which relens does not load: a pickle can run any code. Expected dictionaries, lists, "
        f"text, numbers and numpy arrays of numbers, as in OGB's files. If the file is yours, save plain numpy arrays."
    )
