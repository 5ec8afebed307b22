"""What must be equal in equal runs: the content of all files except those named as logs; see docs/formats.md."""

from pathlib import Path

from relens.runs import is_log


def contents(folder: Path) -> dict[str, bytes]:
    """Return what must be equal in equal runs: the bytes of each file but the logs, by its path in the folder.

    Args:
        folder: a run, or a folder that holds runs and what commands wrote beside them.
    """
    runs = [folder, *(record.parent for record in folder.rglob("run.json"))]
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    logs = {path for run in runs for path in files if path.is_relative_to(run) and is_log(path.relative_to(run))}
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files if path not in logs}
