"""Stages of a run that are complete and unchanged are not done again."""

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from relens.records import STAGE
from relens.runs import Run

STAGES = ("train", "rank", "search", "report")
"""In order; each depends on all before it."""


class Stage:
    """A stage, what it is made from, and how to look up what it left.

    The run keeps a digest of the first and the second once the stage is complete. The stage is done again where either
    has changed: another command may have replaced what it left.
    """

    def __init__(self, run: Run, name: str, made_from: Any, left: Callable[[], Any]) -> None:
        self._made_from, self._left = _digest(made_from), left
        self._records = [run.path / "stages" / f"{later}.json" for later in STAGES[STAGES.index(name) :]]

    @property
    def complete(self) -> bool:
        """Whether the stage was completed from the very same inputs, and what it left is still there."""
        if not self._records[0].is_file():
            return False
        record = STAGE.read(self._records[0])
        return bool(record.get("made_from") == self._made_from and record.get("left") == _digest(self._left()))

    def begin(self) -> None:
        """Forget that this stage and those after it were complete, before anything is replaced."""
        for record in reversed(self._records):
            record.unlink(missing_ok=True)

    def done(self) -> None:
        """Take note that the stage is complete; all it left is on the disk."""
        STAGE.write(self._records[0], {"made_from": self._made_from, "left": _digest(self._left())})


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
