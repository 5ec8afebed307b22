"""What must be equal in equal runs: the content of all files except those named as logs; see docs/formats.md."""

import json
from pathlib import Path
from typing import Any

from relens.files import LOCK

TIMED = ("seconds", "trace", "checksum", "made_from", "left")
"""Keys of records whose values depend on times."""


def contents(run: Path) -> dict[str, bytes]:
    """Return what must be equal in equal runs: the bytes of each file by its path in the run, without logs."""
    files = (path for path in sorted(run.rglob("*")) if path.is_file())
    return {str(path.relative_to(run)): _untimed(path) for path in files if not _is_log(path.relative_to(run))}


def _is_log(path: Path) -> bool:
    """Say whether a file of a run may differ in equal runs."""
    return path.name == LOCK or path.suffix == ".jsonl" or path.parts[0] == "report" or path.name == "curves.json"


def _untimed(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix != ".json":
        return content
    try:
        return json.dumps(_pruned(json.loads(content)), sort_keys=True).encode()
    except ValueError:
        return content


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _pruned(part) for key, part in value.items() if key not in TIMED}
    return [_pruned(part) for part in value] if isinstance(value, list) else value
