"""Fetch the files of a data set over https."""

from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from relens import __version__
from relens.errors import RelensError
from relens.progress import Progress

TIMEOUT_S = 30.0
MAX_BYTES = 256 * 2**20
CHUNK_BYTES = 2**16


def download_splits(sources: Mapping[str, tuple[str, ...]], folder: Path, progress: Progress) -> None:
    """Write ``train.txt``, ``valid.txt`` and ``test.txt`` into a folder, each from its addresses in order."""
    for split, urls in sources.items():
        parts = [fetch(url, progress) for url in urls]
        # A part may lack its last line end; without one, two triples would share a line.
        (folder / f"{split}.txt").write_bytes(b"".join(part.removesuffix(b"\n") + b"\n" for part in parts))


def fetch(url: str, progress: Progress) -> bytes:
    """Return what an address holds; a network that fails, falls silent or sends too much is reported by address."""
    request = Request(url, headers={"User-Agent": f"relens/{__version__}"})
    received = bytearray()
    try:
        with urlopen(request, timeout=TIMEOUT_S) as response:
            length = response.length
            with progress.task(f"fetching {url.rpartition('/')[2]}", total=length or 1) as advance:
                while chunk := response.read(CHUNK_BYTES):
                    received += chunk
                    advance(len(chunk) if length else 0)
                    if len(received) > MAX_BYTES:
                        raise RelensError(f"{url} sends more than {MAX_BYTES:,} bytes, too many for a data set")
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # it is also the answer, with an open connection
        raise RelensError(f"cannot fetch {url}: {error}") from error
    if length is not None and len(received) != length:
        raise RelensError(f"cannot fetch {url}: got {len(received):,} of {length:,} bytes before the connection closed")
    return bytes(received)
