"""Download the files of a data set."""

import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from relens import __version__
from relens.errors import InputError, RelensError
from relens.files import disk_errors
from relens.progress import Progress
from relens.unpacking import check_unpacked

TIMEOUT_S = 30.0
MAX_BYTES = 256 * 2**20
MAX_ARCHIVE_BYTES = 8 * 2**30
MAX_UNPACKED_BYTES = 64 * 2**30
CHUNK_BYTES = 2**16
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OverflowError, IndexError, ValueError,
)  # fmt: skip
"""Errors that a truncated or manipulated archive may raise."""


def download_splits(sources: Mapping[str, tuple[str, ...]], folder: Path, progress: Progress) -> None:
    """Write ``train.txt``, ``valid.txt`` and ``test.txt`` into a folder, each from its URLs in order."""
    for split, urls in sources.items():
        parts = [fetch(url, progress) for url in urls]
        # A part without a final line end would join two triples on one line.
        (folder / f"{split}.txt").write_bytes(b"".join(part.removesuffix(b"\n") + b"\n" for part in parts))


def fetch_archive(url: str, archive: Path, progress: Progress) -> str:
    """Write the content of a URL into a file, and return its SHA-256 in hexadecimal digits."""
    digest = sha256()
    with disk_errors(archive), archive.open("wb") as file:
        for chunk in _chunks(url, MAX_ARCHIVE_BYTES, progress):
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()


def unpack(archive: Path, url: str, top: str, folder: Path, progress: Progress) -> None:
    """Unpack the content of the top folder ``top`` of a zip archive that came from ``url`` into a folder."""
    try:
        with zipfile.ZipFile(archive) as opened, progress.task(f"unpacking {top}", len(opened.infolist())) as advance:
            check_unpacked(archive, sum(member.file_size for member in opened.infolist()), MAX_UNPACKED_BYTES)
            for member in opened.infolist():
                _unpack(opened, member, top, folder)
                advance(1)
    except InputError:
        raise
    except _DAMAGE as error:
        raise RelensError(f"{url} sent no complete zip archive ({error})") from error


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, top: str, folder: Path) -> None:
    """Write one file of an archive if it is below ``top``."""
    first, *parts = PurePosixPath(member.filename).parts or ("",)
    if member.is_dir() or first != top or not parts:
        return
    if ".." in parts or any("\\" in part or ":" in part for part in parts):
        raise RelensError(f"the archive holds {member.filename!r}, a path outside {folder}")
    target = folder.joinpath(*parts)
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(member) as source, target.open("wb") as file:
            shutil.copyfileobj(source, file, CHUNK_BYTES)


def fetch(url: str, progress: Progress) -> bytes:
    """Return the content of a URL. Network errors, timeouts and excessive sizes raise an error that names the URL."""
    return b"".join(_chunks(url, MAX_BYTES, progress))


def _chunks(url: str, max_bytes: int, progress: Progress) -> Iterator[bytes]:
    """Yield the content of a URL, up to ``max_bytes``."""
    request = Request(url, headers={"User-Agent": f"relens/{__version__}"})
    received = 0
    try:
        with urlopen(request, timeout=TIMEOUT_S) as response:
            length = response.length
            with progress.task(f"fetching {url.rpartition('/')[2]}", total=length or 1) as advance:
                while chunk := response.read(CHUNK_BYTES):
                    received += len(chunk)
                    advance(len(chunk) if length else 0)
                    if received > max_bytes:
                        raise RelensError(f"{url} sends more than {max_bytes:,} bytes, too many for a data set")
                    yield chunk
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # an HTTPError holds the open connection
        raise RelensError(f"cannot fetch {url}: {error}") from error
    if length is not None and received != length:
        raise RelensError(f"cannot fetch {url}: got {received:,} of {length:,} bytes before the connection closed")
