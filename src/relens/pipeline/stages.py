"""Stages of a run. A complete stage with unchanged inputs is skipped."""

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from relens.records import STAGE
from relens.runs import Run

STAGES = ("train", "rank", "search", "report")
"""The stages in order. Each depends on all earlier ones."""


class Stage:
    """A stage with its inputs and outputs.

    Once the stage is complete, the run keeps a digest of both. If either digest changes, the stage is repeated: another
    command may have replaced the outputs.
    """

    def __init__(self, run: Run, name: str, made_from: Any, left: Callable[[], Any]) -> None:
        """Describe a stage of a run.

        Args:
            run: the run, which the caller holds.
            name: one of ``STAGES``.
            made_from: the inputs, as plain JSON values.
            left: returns the outputs that are there now, as plain JSON values.
        """
        self._made_from, self._left = _digest(made_from), left
        self._records = [run.path / "stages" / f"{later}.json" for later in STAGES[STAGES.index(name) :]]

    @property
    def complete(self) -> bool:
        """Whether the stage was completed from the same inputs, and its outputs are still there."""
        if not self._records[0].is_file():
            return False
        record = STAGE.read(self._records[0])
        return bool(record.get("made_from") == self._made_from and record.get("left") == _digest(self._left()))

    def ensure(self, work: Callable[[], None], *, repeat: bool = False) -> None:
        """Do the work unless the stage is complete; with ``repeat`` do it in any case.

        Before the work begins, this stage and all later ones are marked as incomplete.
        """
        if self.complete and not repeat:
            return
        for record in reversed(self._records):
            record.unlink(missing_ok=True)
        work()
        STAGE.write(self._records[0], {"made_from": self._made_from, "left": _digest(self._left())})


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
