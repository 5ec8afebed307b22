"""The stages of a run, and records of what each was made from and which files it left."""

import json
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any

from relens.checksums import file_checksum
from relens.errors import InputError
from relens.records import STAGE
from relens.runs import Run, is_log

STAGES = ("train", "rank", "search", "calibrate", "report")
"""The stages in order. Each depends on all earlier ones."""


class Stage:
    """A stage with its inputs and outputs.

    Once the stage is complete, the run keeps a digest of its inputs and the checksum of each file that it left. If the
    inputs change, or if a file is missing or is another one, the stage is repeated.
    """

    def __init__(self, run: Run, name: str, made_from: Any, older: Callable[[], tuple[Any, Any]]) -> None:
        """Describe a stage of a run.

        Args:
            run: the run, which the caller holds.
            name: one of ``STAGES``.
            made_from: the inputs, as plain JSON values.
            older: returns inputs and outputs as an older relens describes them in its records.
        """
        self._run, self._made_from, self._older = run, _digest(made_from), older
        self._records = [run.path / "stages" / f"{later}.json" for later in STAGES[STAGES.index(name) :]]

    @property
    def complete(self) -> bool:
        """Whether the stage was completed from the same inputs, and all that it left is still there and undamaged."""
        try:
            record = STAGE.read(self._records[0])
            left = record.get("left")
            if not isinstance(left, dict):
                return (record.get("made_from"), left) == tuple(map(_digest, self._older()))
            return record.get("made_from") == self._made_from and left == self._checksums(left)
        except InputError:
            return False

    def lists(self, file: Path) -> bool:
        """Say whether the stage was completed, and left or used this file."""
        try:
            left = STAGE.read(self._records[0]).get("left")
        except InputError:
            return False
        return isinstance(left, dict) and self._name(file) in left

    def ensure(self, work: Callable[[], Iterable[Path]], *, repeat: bool = False) -> None:
        """Do the work, which returns the files that it left, unless the stage is complete.

        With ``repeat`` do it in any case. Before the work begins, this stage and all later ones are marked as
        incomplete.
        """
        if self.complete and not repeat:
            return
        for record in reversed(self._records):
            record.unlink(missing_ok=True)
        left = self._checksums(map(self._name, work()))
        STAGE.write(self._records[0], {"made_from": self._made_from, "left": left})

    def _checksums(self, names: Iterable[str]) -> dict[str, str]:
        """Return the checksums of the files that are there, by their names; empty ones of logs, which may differ."""
        files = {name: self._run.path / name for name in sorted(names)}
        return {
            name: "" if is_log(PurePath(name)) else file_checksum(file)
            for name, file in files.items()
            if file.is_file()
        }

    def _name(self, file: Path) -> str:
        return file.relative_to(self._run.path).as_posix()


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
