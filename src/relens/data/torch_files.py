"""Read files of ``torch.save`` without torch and without running code from them.

Such a file is a pickle, either in a zip archive or (before torch 1.6) after a few small pickles. A pickle names
classes and functions to call. This reader accepts only the few names that pickled numpy arrays contain, and replaces
each with a stand-in. Any other name raises an error before anything is called.
"""

import pickle
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from relens.errors import DatasetError

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
"""The first value in a file without a zip archive."""
CHUNK_BYTES = 2**22
_NUMBERS = re.compile(r"[biuf][1248]")
_DAMAGE = (
    pickle.UnpicklingError, EOFError, zipfile.BadZipFile, struct.error, ValueError, TypeError, AttributeError,
    IndexError, KeyError, OverflowError, NotImplementedError, RecursionError,
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
    except DatasetError:
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
        with archive.open(names[0]) as member:
            # Reading the last byte of the pickle also verifies the checksum of the archive.
            return _plain(_Reader(_Chunks(member), path).load())


def _read_legacy(file: IO[bytes], path: Path) -> Any:
    if file.read(1) != b"\x80":
        raise DatasetError(
            f"{path} is neither a zip archive nor a pickle: expected a file of torch.save. "
            f"Unpack it from OGB's archive again."
        )
    file.seek(0)
    if _Reader(file, path).load() != LEGACY_MAGIC:
        raise DatasetError(f"{path} is a pickle that torch.save did not write. Unpack it from OGB's archive again.")
    _version, _system, value, storages = (_Reader(file, path).load() for _ in range(4))
    if storages:
        raise DatasetError(_refusal(path, "torch tensors"))
    return _plain(value)


class _Array:
    """Stand-in for ``numpy.ndarray``, empty until its state is set."""

    values: npt.NDArray[Any]

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Set the state: version, shape, type, column-major flag, and raw bytes."""
        _, shape, kind, by_column, raw = state
        if not isinstance(kind, _Type):
            raise pickle.UnpicklingError(f"the type of an array is {kind!r}")
        self.values = np.frombuffer(raw, kind.dtype).reshape(shape, order="F" if by_column else "C")


class _Type:
    """Stand-in for ``numpy.dtype``: numbers of one to eight bytes."""

    def __init__(self, code: str, *_: object) -> None:
        if not _NUMBERS.fullmatch(code):
            raise pickle.UnpicklingError(f"an array holds {code!r}, expected numbers")
        self.dtype: np.dtype[Any] = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Set the byte order, the second part of the state."""
        self.dtype = self.dtype.newbyteorder(state[1])


def _empty_array(stand_in: type[_Array], *_: object) -> _Array:
    if stand_in is not _Array:
        raise pickle.UnpicklingError(f"an array is of class {stand_in!r}")
    return _Array()


def _scalar(kind: _Type, raw: bytes) -> int | float:
    number: int | float = np.frombuffer(raw, kind.dtype, count=1)[0].item()
    return number


def _encode(text: str, encoding: str) -> bytes:
    # Protocol 2 writes bytes this way.
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes are written as {encoding!r}")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    # Protocol 2 writes the values of an empty array this way.
    return b""


ADMITTED: dict[tuple[str, str], Callable[..., Any]] = {
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


class _Reader(pickle.Unpickler):
    """An unpickler that calls only the stand-ins in ``ADMITTED``."""

    def __init__(self, file: Any, path: Path) -> None:
        super().__init__(file)
        self._path = path

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Return the stand-in of an admitted name."""
        try:
            return ADMITTED[module_name, global_name]
        except KeyError:
            raise DatasetError(_refusal(self._path, f"{module_name}.{global_name}")) from None

    def persistent_load(self, pid: Any) -> Any:
        """Raise an error: only torch tensors are stored outside the pickle."""
        del pid
        raise DatasetError(_refusal(self._path, "torch tensors"))


class _Chunks:
    """A file in an archive, read in chunks so that memory holds a large array only once."""

    def __init__(self, member: IO[bytes]) -> None:
        self._member = member
        self.read, self.readline = member.read, member.readline

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer a few megabytes at a time, and return the number of bytes read."""
        view, done = memoryview(buffer), 0
        while done < len(view) and (part := self._member.read(min(CHUNK_BYTES, len(view) - done))):
            view[done : done + len(part)] = part
            done += len(part)
        return done


def _plain(value: Any, seen: dict[int, Any] | None = None) -> Any:
    """Return a value with numpy arrays in place of stand-ins, also in nested containers.

    ``seen`` maps the identity of each visited object to its result, because a small file may contain one container
    many times.
    """
    seen = {} if seen is None else seen
    if id(value) in seen:
        return seen[id(value)]
    found = value
    if isinstance(value, _Array):
        found = value.values
    elif isinstance(value, dict):
        found = {key: _plain(entry, seen) for key, entry in value.items()}
    elif isinstance(value, list | tuple) and any(isinstance(entry, _Array | dict | list | tuple) for entry in value):
        found = type(value)(_plain(entry, seen) for entry in value)
    if found is not value:
        seen[id(value)] = found
    return found


def _refusal(path: Path, found: str) -> str:
    return (
        f"{path} holds {found}, which relens does not load: a pickle can run any code. Expected dictionaries, lists, "
        f"text, numbers and numpy arrays of numbers, as in OGB's files. If the file is yours, save plain numpy arrays."
    )
