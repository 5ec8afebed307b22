"""Stages of a run that are complete and unchanged are not done again."""

import json
from hashlib import sha256
from typing import Any

from relens.files import read_json, write_json
from relens.run import Run

STAGES = ("train", "rank", "search", "report")
"""In order; each depends on all before it."""


class Stage:
    """A stage and what it is made from; once it is complete, the run keeps a digest of that.

    Attributes:
        digest: of what the stage is made from, for the stages that are made from it.
    """

    def __init__(self, run: Run, name: str, made_from: Any) -> None:
        self.digest = sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()
        self._path = run.path / "stages" / f"{name}.json"

    @property
    def complete(self) -> bool:
        """Whether the stage was completed from the very same inputs."""
        return self._path.is_file() and bool(read_json(self._path, "stage").get("made_from") == self.digest)

    def begin(self) -> None:
        """Forget that the stage was complete, before anything it made is replaced."""
        self._path.unlink(missing_ok=True)

    def done(self) -> None:
        """Take note that the stage is complete; all it wrote is on the disk."""
        write_json(self._path, {"made_from": self.digest})
