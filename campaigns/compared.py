"""What must be equal in equal runs: the content of all files except those named as logs; see docs/formats.md."""

from pathlib import Path

from relens.runs import is_log


def contents(run: Path) -> dict[str, bytes]:
    """Return what must be equal in equal runs: the bytes of each file but the logs, by its path in the run."""
    files = (path.relative_to(run) for path in sorted(run.rglob("*")) if path.is_file())
    return {path.as_posix(): (run / path).read_bytes() for path in files if not is_log(path)}
