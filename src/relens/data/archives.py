"""Archives of data sets, and their digests: the digest of the first fetch is recorded, and later fetches must have it.

OGB's archives come over plain http, without a digest from their publisher. The first fetch has to be trusted, unless
the user knows the digest.
"""

import re
from pathlib import Path

from relens.data.download import fetch_archive, unpack
from relens.errors import DatasetError, RelensError
from relens.progress import Progress
from relens.records import FETCHED

_DIGEST = re.compile(r"[0-9a-f]{64}")


def fetch_and_unpack(archive: tuple[str, str], folder: Path, expected: str | None, progress: Progress) -> str:
    """Fetch an archive, check its SHA-256, unpack its top folder into a folder, and return the SHA-256.

    Args:
        archive: the URL and the top folder.
        folder: gets the content.
        expected: the SHA-256 that the archive must have before it is unpacked; None for any.
        progress: shows both steps.
    """
    url, top = archive
    file = folder / ".archive.zip"
    found = fetch_archive(url, file, progress)
    if expected not in (None, found):
        raise ChangedError(url, found, str(expected))
    unpack(file, url, top, folder, progress)
    file.unlink()
    return found


class ChangedError(RelensError):
    """An archive does not have the expected digest."""

    def __init__(self, url: str, found: str, expected: str) -> None:
        super().__init__(f"{url} sent an archive with SHA-256 {found}, expected {expected}")
        self.found, self.expected = found, expected


def checked_digest(sha256: str) -> str:
    """Return a digest in lower case, or raise an error if it is none."""
    digest = sha256.strip().lower()
    if not _DIGEST.fullmatch(digest):
        raise DatasetError(f"`sha256={sha256!r}` is not a SHA-256: expected 64 hexadecimal digits, as sha256sum prints")
    return digest


def recorded_digest(record: Path) -> str | None:
    """Return the digest of the first fetch; None if there was none."""
    if not record.is_file():
        return None
    with FETCHED.parsing(str(record)):
        digest = str(FETCHED.read(record)["sha256"])
        if not _DIGEST.fullmatch(digest):
            raise ValueError(f"{digest!r} is not a SHA-256")
    return digest


def record_digest(record: Path, url: str, digest: str) -> None:
    """Write the digest of a fetch."""
    FETCHED.write(record, {"url": url, "sha256": digest})
