"""Write files and folders atomically, lock folders, and read JSON and arrays without pickles."""

import ast
import errno
import glob
import json
import math
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, TextIO
from zlib import crc32

import numpy as np
import numpy.typing as npt
from numpy.lib.format import MAGIC_LEN, MAGIC_PREFIX

from relens.errors import DamagedError, InputError, RelensError

LOCK = ".lock"
"""The file that holds the lock of a folder. It stays there when the lock ends."""
CHECKSUM = "checksum"
"""The key of the checksum in JSON files. Files of an older relens, and files from elsewhere, have none."""
VERIFY = "RELENS_VERIFY"
"""The environment variable that switches verification off with the value 0, in worker processes, too."""
_PART, _OLD = ".part", ".old"
"""Suffixes of temporary names, which begin with a dot: new content, and old content that is being replaced."""
_WAS = "was"
_UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
"""Error numbers of file systems without locks."""
_LENGTH_BYTES = {b"\x01\x00": 2, b"\x02\x00": 4, b"\x03\x00": 4}
"""Bytes of the length of the header, by the version of an ``.npy`` file."""
_LONGEST_HEADER, _MOST_AXES = 10_000, 32
_NUMBERS = re.compile(r"[<>|=]?(b1|[iu][1248]|f(2|4|8|16)|c(8|16|32))")
"""The types of numbers, as headers of ``.npy`` files name them."""


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file. On success it is renamed to ``path``; on any failure ``path`` stays as it was.

    Temporary files of the same ``path`` that killed processes left are removed. Symlinks are followed. A device or a
    pipe (``/dev/stdout``) is written directly and never replaced.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        with disk_errors(path):
            yield path
        return
    target = path.resolve() if path.is_symlink() else path
    with disk_errors(path):
        target.parent.mkdir(parents=True, exist_ok=True)
        _tidy(target)
        aside, held = _new_aside(target, _new_file, _PART)
    try:
        with disk_errors(path):
            yield aside
            _flush_to_disk(aside)
            os.chmod(aside, 0o666 & ~_umask())
            os.replace(aside, target)
    finally:
        aside.unlink(missing_ok=True)
        _let_go(held)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder. On success it is renamed to ``path``; on any failure ``path`` stays as it was.

    Temporary folders of the same ``path`` that killed processes left are removed.
    """
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _tidy(path)
        aside, held = _new_aside(path, tempfile.mkdtemp, _PART)
    try:
        with disk_errors(path):
            yield aside
            for file in aside.iterdir():
                _flush_to_disk(file)
            os.chmod(aside, 0o777 & ~_umask())
            if path.exists():
                _swap(path, aside)
            else:
                os.replace(aside, path)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        _let_go(held)


@contextmanager
def passing_folder(path: Path) -> Iterator[Path]:
    """Yield a folder beside ``path`` for files that are needed only inside the context; it is removed at its end."""
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _tidy(path)
        aside, held = _new_aside(path, tempfile.mkdtemp, _PART)
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        _let_go(held)


def _swap(path: Path, aside: Path) -> None:
    """Put a folder in the place of another one, which is removed.

    A folder cannot replace a non-empty one in one step: the old one is renamed first, and renamed back if the new one
    cannot take its place.
    """
    old, held = _new_aside(path, tempfile.mkdtemp, _OLD)
    try:
        os.replace(path, old / _WAS)
        os.replace(aside, path)
    except BaseException:
        if not path.exists():
            os.replace(old / _WAS, path)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)
        _let_go(held)


def _new_aside(path: Path, make: Callable[..., str], suffix: str) -> tuple[Path, int | None]:
    """Make a temporary file or folder for ``path``, and lock it."""
    while True:
        aside = Path(make(prefix=_prefix(path), suffix=suffix, dir=path.parent))
        held = _hold(aside, wait=True)
        if aside.exists():  # no other process removed it before it was locked
            return aside, held
        _let_go(held)


def _new_file(prefix: str, suffix: str, dir: Path) -> str:
    """Make an empty temporary file as ``tempfile.mkdtemp`` makes a folder, and return its name."""
    handle, name = tempfile.mkstemp(suffix, prefix, str(dir))
    os.close(handle)
    return name


def _prefix(path: Path) -> str:
    """Return how the temporary names for ``path`` begin.

    They contain the machine: on shared storage, a lock may be visible on one machine only.
    """
    return f".{path.name}.{crc32(platform.node().encode()):08x}-"


def _tidy(path: Path) -> None:
    """Remove the temporary files and folders for ``path`` that killed processes of this machine left."""
    for left in path.parent.glob(f"{glob.escape(_prefix(path))}*"):
        if is_left_over(left):
            _remove(left, unlocked=False)


def _remove(left: Path, *, unlocked: bool) -> None:
    """Remove a leftover that no process holds; an old folder whose successor never took its place is renamed back.

    Args:
        left: the file or folder.
        unlocked: whether to remove it if the system has no locks.
    """
    try:
        held = _hold(left, wait=False)
    except BlockingIOError:
        return
    if held is None and not unlocked:
        return
    place = left.with_name(left.name[1:].rsplit(".", 2)[0])
    with suppress(OSError):  # the next write reports the problem
        if left.suffix == _OLD and (left / _WAS).is_dir() and not place.exists():
            os.replace(left / _WAS, place)
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink()
    _let_go(held)


def _hold(path: Path, *, wait: bool) -> int | None:
    """Lock a file or folder and return the descriptor; None if it is gone, or if the system has no such locks.

    Without ``wait``, a lock of another process raises a ``BlockingIOError``.
    """
    try:
        import fcntl
    except ImportError:
        return None
    held = None
    try:
        held = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)  # NFS locks what can be written to
        fcntl.flock(held, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        _let_go(held)
        if isinstance(error, BlockingIOError):
            raise
        return None
    return held


@contextmanager
def waiting_lock(path: Path) -> Iterator[None]:
    """Hold a lock on a file or folder inside, once no other process holds one; do nothing where there are no locks."""
    held = _hold(path, wait=True)
    try:
        yield
    finally:
        _let_go(held)


def _let_go(held: int | None) -> None:
    if held is not None:
        os.close(held)


def is_left_over(path: Path) -> bool:
    """Say whether a path has the name of a temporary file or folder of this module."""
    return path.name.startswith(".") and path.suffix in (_PART, _OLD)


def remove_left_overs(*folders: Path) -> None:
    """Remove the temporary files that killed processes left in folders. The caller holds the folders.

    Commands that only read what is there may write a file beside it: what a living process holds stays. An old folder
    whose successor never took its place is renamed back.
    """
    for folder in folders:
        for left in filter(is_left_over, list(folder.glob(".*"))):
            _remove(left, unlocked=True)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn an ``OSError`` while writing into an error that names the file and the remedy."""
    try:
        yield
    except OSError as error:
        message = (
            f"cannot write {path}: {error.strerror or error}. Nothing was changed there; "
            f"free some space or choose another place, then run the same command again."
        )
        raise RelensError(message) from error


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with whole_file(path) as aside:
        aside.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object with a checksum, atomically."""
    write_text(path, json_text(value))


def json_text(value: Mapping[str, Any]) -> str:
    """Return the text of a JSON file that ``read_json`` verifies."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    checksum = _checksum(json.loads(text))  # of what is read: keys are texts, tuples are lists
    return json.dumps({**value, CHECKSUM: checksum}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read_json(path: Path, what: str, remedy: str = "Make it again.") -> dict[str, Any]:
    """Read a JSON object, and verify its checksum if it has one.

    Args:
        path: the file.
        what: names it in error messages.
        remedy: how to make it again, as a sentence.
    """
    try:
        value = parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DamagedError(f"{what} {path} does not exist. {remedy}") from error
    except OSError as error:
        raise InputError(f"{what} {path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise DamagedError(f"{what} {path} is not readable JSON: {error}. {remedy}") from error
    if not isinstance(value, dict):
        raise DamagedError(f"{what} {path} holds {type(value).__name__}, expected a JSON object. {remedy}")
    if not _is_whole(value):
        raise DamagedError(
            f"{what} {path} is damaged, or was edited: its content does not have the checksum at its end. {remedy} "
            f'After an edit of yours, remove the line "{CHECKSUM}".'
        )
    return value


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; raise a ``ValueError`` for anything that ``write_json`` could not write."""
    try:
        value = json.loads(text, parse_constant=_refuse_number, parse_float=_finite)
        if _SURROGATE.search(text):  # a pair of them is one character
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    return value


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse_number(text)


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:50]} is not a number that JSON can hold")


def json_line(value: Mapping[str, Any]) -> str:
    """Return a JSON object with a checksum as a line of a file that grows."""
    return json.dumps({**value, CHECKSUM: _checksum(json.loads(json.dumps(value)))}) + "\n"


def parse_json_line(line: str) -> dict[str, Any]:
    """Return the object of a line, verified if it has a checksum; raise a ``ValueError`` for anything else."""
    value = parse_json(line)
    if not isinstance(value, dict):
        raise ValueError(f"it holds {type(value).__name__}, expected a JSON object")
    if not _is_whole(value):
        raise ValueError("it does not have the checksum at its end")
    return value


def _is_whole(value: dict[str, Any]) -> bool:
    """Remove the checksum of an object, and say whether it is right, missing, or not to be verified."""
    expected = value.pop(CHECKSUM, None)
    if not verifying():
        return True
    if expected is None:
        return not any(map(_is_nearly_checksum, value))
    return bool(expected == _checksum(value))


def _is_nearly_checksum(key: str) -> bool:
    """Say whether a key differs from that of the checksum in one character: a flipped bit must not hide others."""
    return len(key) == len(CHECKSUM) and sum(a != b for a, b in zip(key, CHECKSUM, strict=True)) == 1


def _checksum(value: dict[str, Any]) -> str:
    """Return the checksum of a JSON object, whatever the layout of its text and the order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:16]


def verifying() -> bool:
    """Say whether checksums are verified: always, unless the environment or ``--no-verify`` switches it off."""
    return os.environ.get(VERIFY, "1") != "0"


def open_npy(path: Path) -> npt.NDArray[Any]:
    """Memory-map a ``.npy`` file read-only; a pickled, truncated or missing file raises an error that names it."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            header = file.read(_LONGEST_HEADER)
        form = parse_npy(header, size)
        return np.memmap(path, form.dtype, "r", form.offset, form.shape, form.order)
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist") from error
    except (ValueError, OSError) as error:
        message = (
            f"{path} cannot be read as a plain .npy array ({error}). "
            f"Expected an array of numbers written by numpy.save; pickled or truncated files cannot be read. "
            f"Write it again with numpy.save(path, array)."
        )
        raise InputError(message) from error


class NpyForm(NamedTuple):
    """What the header of an ``.npy`` file says, and the first byte after it."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    offset: int


def parse_npy(content: bytes, size: int) -> NpyForm:
    """Read the header of an ``.npy`` file from its first bytes; ``size`` is that of the file.

    Raises:
        ValueError: if it is no array of numbers that fits into the file.
    """
    width = _LENGTH_BYTES.get(content[len(MAGIC_PREFIX) : MAGIC_LEN])
    if not content.startswith(MAGIC_PREFIX) or width is None:
        raise ValueError("it has no .npy header")
    begin = MAGIC_LEN + width
    offset = begin + int.from_bytes(content[MAGIC_LEN:begin], "little")
    if offset > min(size, _LONGEST_HEADER):
        raise ValueError(f"its header has {offset:,} bytes, the file {size:,}")
    found = _literal(content[begin:offset].decode("latin1"))
    if not isinstance(found, dict) or found.keys() != {"descr", "fortran_order", "shape"}:
        raise ValueError("its header does not say what it holds")
    descr, columns_first, shape = found["descr"], found["fortran_order"], found["shape"]
    if not isinstance(descr, str) or not _NUMBERS.fullmatch(descr):
        raise ValueError(f"it holds {str(descr)[:80]!r}, expected numbers")
    if type(columns_first) is not bool or type(shape) is not tuple or not all(type(n) is int for n in shape):
        raise ValueError("its header does not say what it holds")
    dtype = np.dtype(descr)
    # Every length counts, even beside one of 0: numpy takes the others for real.
    fits = len(shape) <= _MOST_AXES and all(0 <= n <= size for n in shape)
    if not fits or offset + math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"its {size:,} bytes cannot hold the shape {str(shape)[:80]} of {dtype}")
    return NpyForm(dtype, shape, "F" if columns_first else "C", offset)


def _literal(text: str) -> Any:
    """Return the value of a Python literal, or None: its brackets and signs may be too deep for the parser."""
    try:
        return ast.literal_eval(text.strip())
    except Exception:
        return None


def _flush_to_disk(path: Path) -> None:
    """Flush ``path`` to the disk, so that a rename never exposes an empty file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    """Return the process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder, which is made if missing. Another process that asks for the lock gets an error.

    The lock ends with the process, however that ends. If the system has no such locks, or if the folder cannot be
    written to, nothing is locked.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    file = _open_lock(folder)
    with file or nullcontext():
        if file is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise InputError(
                    f"{folder} is in use by another relens (process {file.read().strip() or 'unknown'}): wait for it, "
                    f"or choose another run or name"
                ) from None
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
        yield


def _open_lock(folder: Path) -> TextIO | None:
    """Open the lock file of a folder; None if it cannot be written to, which other messages explain."""
    with disk_errors(folder / LOCK):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return (folder / LOCK).open("a+", encoding="utf-8")
        except OSError as error:
            if error.errno in _UNWRITABLE:
                return None
            raise
