"""The log of a run: one JSON object per line, readable while the run goes on."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from relens.files import disk_errors, write_text

LOG = "log.jsonl"


@dataclass(frozen=True)
class LogRecord:
    """A line of the log.

    Attributes:
        step: steps taken.
        loss: mean over the steps since the last record; None where it is no finite number.
        mrr: filtered validation MRR; None where it was not taken.
        lr: learning rate of the last step.
        examples_per_second: training examples (queries, or pairs of ``kvsall``) since the last record; validation is
            not counted.
        seconds: since the run began, validation included and interruptions not.
    """

    step: int
    loss: float | None
    mrr: float | None
    lr: float
    examples_per_second: float
    seconds: float


class TrainingLog:
    """Hands records to a callback and appends them to a file below ``folder`` (None: no file)."""

    def __init__(self, folder: Path | None, listener: Callable[[LogRecord], None], *, step: int = 0) -> None:
        """Begin at ``step``: what a killed run wrote after its last checkpoint is taken back."""
        self._path, self._listener = (None if folder is None else folder / LOG), listener
        if self._path is not None:
            kept = [line for line in read_log(self._path) if line["step"] <= step] if step else []
            write_text(self._path, "".join(json.dumps(line) + "\n" for line in kept))

    def write(self, record: LogRecord) -> None:
        """Append a record."""
        if self._path is not None:
            with disk_errors(self._path), self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(record)) + "\n")
        self._listener(record)


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the records of a log as dictionaries; a last line that a killed run did not finish is left out."""
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]
