"""What killed processes leave behind: files and folders that never took their place."""

import shutil
from pathlib import Path

ENDINGS = (".part", ".old")
"""Of what ``relens.files`` writes aside, and of what steps aside for it; the names begin with a dot."""


def remove_left_overs(*folders: Path) -> None:
    """Remove what killed processes left in folders, which the caller holds: nobody else is at work there."""
    for folder in folders:
        for path in list(folder.glob(".*")):
            if path.suffix not in ENDINGS:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
