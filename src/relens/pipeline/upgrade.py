"""Convert the records of a run that an older relens made.

Each kind of record has a chain of converters, one for each old format. A converter returns the content of a record in
the next format. To change a format, raise its number in ``relens.records`` and add a converter here.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from relens.errors import InputError
from relens.files import locked, read_json, remove_left_overs
from relens.records import CHECKPOINT, RANKED_BY, RUN, STAGE, TRAINED, RecordKind
from relens.runs import FOLDERS, RECORD, Run

Converter = Callable[[dict[str, Any]], dict[str, Any]]
"""From the content of a record in one format to its content in the next; the heading is not part of it."""

HEADING = ("kind", "format", "relens")


def same_content(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record as it is: only the heading differs between the two formats."""
    return record


CONVERTERS: dict[str, dict[int, Converter]] = {
    RUN.name: {1: same_content},  # format 2 says which relens wrote it
    TRAINED.name: {2: same_content},  # format 3 has a kind
    CHECKPOINT.name: {2: same_content},  # format 3 has a kind
    RANKED_BY.name: {0: same_content},  # format 1 has a heading
    STAGE.name: {0: same_content},  # format 1 has a heading
}
"""By kind, a converter for each format that it can start from. A record without a format has format 0."""

PLACES: tuple[tuple[RecordKind, str], ...] = (
    (TRAINED, "models/*/trained/model.json"),
    (CHECKPOINT, "models/*/step-*/state.json"),
    (RANKED_BY, "ranks/made_by.json"),
    (STAGE, "stages/*.json"),
    (RUN, RECORD),
)
"""The records of a run. ``run.json`` is last: until it is converted, every command asks for the upgrade."""


def upgrade_run(path: Path) -> list[str]:
    """Convert all old records of a run and return a line for each; see ``relens.upgrade``.

    Each file is replaced atomically. Records that are converted already are skipped, so a killed call can be repeated.
    """
    if not (path / RECORD).is_file():
        Run.open(path)  # raises an error that says what is missing
    with ExitStack() as locks:
        for folder in (path, *sorted(model for model in (path / "models").glob("[!.]*") if model.is_dir())):
            locks.enter_context(locked(folder))
        records = [file for _, pattern in PLACES for file in path.glob(pattern)]
        remove_left_overs(path, *(path / folder for folder in FOLDERS), *{file.parent for file in records})
        return list(_convert_records(path))


def _convert_records(path: Path) -> Iterator[str]:
    for kind, pattern in PLACES:
        for file in sorted(path.glob(pattern)):
            record = read_json(file, kind.name.removeprefix("relens "))
            if not kind.matches(record):
                first, content = _converted(kind, record, str(file))
                kind.write(file, content)
                yield f"{file.relative_to(path)}: {kind.name}, format {first} to {kind.format}"


def _converted(kind: RecordKind, record: dict[str, Any], where: str) -> tuple[int, dict[str, Any]]:
    """Return the old format of a record, and its content in the current format."""
    chain, first = CONVERTERS[kind.name], record.get("format", 0)
    if record.get("kind", kind.name) != kind.name or not isinstance(first, int) or first > kind.format:
        kind.check(record, where)
    content = {key: value for key, value in record.items() if key not in HEADING}
    for number in range(first, kind.format):
        if number not in chain:
            raise InputError(f"{where} has format {first}, which this relens cannot convert. {kind.remedy}")
        content = chain[number](content)
    return first, content
