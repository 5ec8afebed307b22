"""What must be equal in equal runs: the content of all files except those named as logs; see docs/formats.md."""

from pathlib import Path, PurePath

LOGS = (
    ".lock",
    "models/*/.lock",
    "models/*/log.jsonl",
    "weights/*.log.jsonl",
    "curves.json",
    "report/log.html",
    "report/figures/curves.svg",
    "report/figures/curves.png",
)
"""The files of a run that may differ in equal runs: locks hold the id of a process, the others hold times."""


def contents(run: Path) -> dict[str, bytes]:
    """Return what must be equal in equal runs: the bytes of each file but the logs, by its path in the run."""
    files = (path.relative_to(run) for path in sorted(run.rglob("*")) if path.is_file())
    return {path.as_posix(): (run / path).read_bytes() for path in files if not is_log(path)}


def is_log(path: PurePath) -> bool:
    """Say whether a file of a run, by its path in the run, may differ in equal runs."""
    return any(len(path.parts) == len(PurePath(log).parts) and path.match(log) for log in LOGS)
