"""What must be equal in equal runs: the content of all files except those named as logs; see docs/formats.md."""

from pathlib import Path, PurePath

from relens.runs import is_log


def contents(folder: Path) -> dict[str, bytes]:
    """Return what must be equal in equal runs: the bytes of each file but the logs, by its path in the folder.

    Args:
        folder: a run, or a folder that holds runs and what commands wrote beside them.
    """
    files = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.as_posix(): (folder / path).read_bytes() for path in files if not _is_log(path)}


def _is_log(path: PurePath) -> bool:
    return is_log(path) or is_log(PurePath(*path.parts[1:]))
