"""The training log: one JSON object per line, readable while training runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from relens.errors import DamagedError
from relens.files import disk_errors, json_line, parse_json_line, write_text

LOG = "log.jsonl"
RISE = 0.002
"""A last validation that is better by this MRR than all earlier ones is one of a model that still rises."""


@dataclass(frozen=True)
class LogRecord:
    """A line of the log.

    Attributes:
        step: steps taken.
        loss: mean over the steps since the last record; None if it is non-finite.
        mrr: filtered validation MRR; None if this record has no validation.
        lr: learning rate of the last step.
        examples_per_second: training examples (queries, or pairs of ``kvsall``) since the last record, without the
            time of validations.
        seconds: time since training began, with validations and without interruptions.
        steps: the most steps that training may take.
        seconds_left: estimated time until then, from the pace so far, with validations.
    """

    step: int
    loss: float | None
    mrr: float | None
    lr: float
    examples_per_second: float
    seconds: float
    steps: int
    seconds_left: float

    def describe(self) -> str:
        """Return the record as a line for people."""
        parts = [f"step {self.step:,} of {self.steps:,}"]
        if self.loss is not None:
            parts.append(f"loss {self.loss:.4f}")
        if self.mrr is not None:
            parts.append(f"validation MRR {self.mrr:.4f}")
        parts += [f"{self.examples_per_second:,.0f} examples/s", f"lr {self.lr:.3g}", f"{self.seconds:.0f} s"]
        if self.step < self.steps:
            parts.append(f"about {readable_duration(self.seconds_left)} left")
        return ", ".join(parts)


class TrainingLog:
    """Passes records to a callback and appends them to a file below ``folder`` (None: no file)."""

    def __init__(self, folder: Path | None, listener: Callable[[LogRecord], None], *, step: int = 0) -> None:
        """Start at ``step``: records that a killed run wrote after its last checkpoint are removed."""
        self._path, self._listener = (None if folder is None else folder / LOG), listener
        if self._path is not None:
            kept = [line for line in read_log(self._path) if line["step"] <= step] if step else []
            write_text(self._path, "".join(map(json_line, kept)))

    def write(self, record: LogRecord) -> None:
        """Append a record."""
        if self._path is not None:
            with disk_errors(self._path), self._path.open("a", encoding="utf-8") as file:
                file.write(json_line(asdict(record)))
        self._listener(record)


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the records of a log as dictionaries, without an unfinished last line of a killed run."""
    if not path.exists():
        return []
    records = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            records.append(parse_json_line(line.decode()))
        except ValueError as error:
            raise DamagedError(
                f"{path}, line {number} is damaged: {error}. Remove the file: training and reports go on without it."
            ) from error
    return records


def rising(name: str, records: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence if the last validation of a training is clearly its best; an empty text otherwise.

    Args:
        name: the model.
        records: of its log.
    """
    mrrs = [record["mrr"] for record in records if record["mrr"] is not None]
    if len(mrrs) < 2 or mrrs[-1] - max(mrrs[:-1]) < RISE:
        return ""
    return (
        f"{name} was still rising at its last step: validation MRR {mrrs[-1]:.4f}, after {max(mrrs[:-1]):.4f} before. "
        f"More steps would probably raise it further."
    )


def training_seconds(folder: Path) -> float | None:
    """Return how long training took by the log below a folder, without interruptions; None without a log."""
    records = read_log(folder / LOG)
    return float(records[-1]["seconds"]) if records else None


def readable_duration(seconds: float) -> str:
    """Return a duration in the unit that suits it: ``45 s``, ``12 min``, ``3.5 h``, ``14 h``, ``9 days``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    if hours < 72:
        return f"{hours:.1f} h" if hours < 10 else f"{hours:.0f} h"
    return f"{hours / 24:,.0f} days"
