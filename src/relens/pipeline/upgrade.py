"""Convert the records of a run that an older relens made, and add the graph to a run without one.

Each kind of record has a chain of converters, one for each old format. A converter returns the content of a record in
the next format. To change a format, raise its number in ``relens.records`` and add a converter here.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset
from relens.data.queries import EVALUATED
from relens.data.stored import holds, is_graph, write_graph
from relens.errors import InputError, RelensError
from relens.files import locked, read_json, remove_left_overs
from relens.progress import SILENT, Progress
from relens.records import CHECKPOINT, RANKED_BY, RUN, STAGE, TRAINED, RecordKind
from relens.runs import FOLDERS, RECORD, Run

Converter = Callable[[dict[str, Any]], dict[str, Any]]
"""From the content of a record in one format to its content in the next; the heading is not part of it."""

SOURCE = "source"
"""The key of a name or folder of the data set in records of trained models up to format 3."""
HEADING = ("kind", "format", "relens")


def same_content(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record as it is: only the heading differs between the two formats."""
    return record


def without_source(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a trained model without the place of its data set: the run holds the graph."""
    return {key: value for key, value in record.items() if key != SOURCE}


CONVERTERS: dict[str, dict[int, Converter]] = {
    RUN.name: {1: same_content, 2: same_content},  # format 2 says which relens wrote it, format 3 has a graph
    TRAINED.name: {2: same_content, 3: without_source},  # format 3 has a kind
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


def upgrade_run(path: Path, data: Path | str | None = None, progress: Progress = SILENT) -> list[str]:
    """Add the graph, convert all old records of a run, and return a line for each; see ``relens.upgrade``.

    Each file is replaced atomically. Records that are converted already are skipped, so a killed call can be repeated.
    """
    if not (path / RECORD).is_file():
        Run.open(path)  # raises an error that says what is missing
    with ExitStack() as locks:
        for folder in (path, *sorted(model for model in (path / "models").glob("[!.]*") if model.is_dir())):
            locks.enter_context(locked(folder))
        records = [file for _, pattern in PLACES for file in path.glob(pattern)]
        remove_left_overs(path, *(path / folder for folder in FOLDERS), *{file.parent for file in records})
        # Old records of models say where the graph is: it is added before they are converted.
        return [*_add_graph(path, data, progress), *_convert_records(path)]


def _add_graph(path: Path, data: Path | str | None, progress: Progress) -> Iterator[str]:
    """Write the graph of a run that has none; note where it was looked for if models need it and it is not found."""
    models = [
        read_json(file, "trained model", TRAINED.remedy) for file in sorted(path.glob("models/*/trained/model.json"))
    ]
    _, record = _converted(RUN, read_json(path / RECORD, "run", RUN.remedy), str(path / RECORD))
    run = Run(path, path.name, str(record.get("dataset")))
    expected = {*(str(model.get("fingerprint")) for model in models), *_fingerprints_of_ranks(run)}
    dataset: Dataset | None = None
    if data is not None:
        dataset = load_dataset(data, progress=progress)
        if dataset.fingerprint not in expected:
            raise InputError(
                f"{data} is not the graph of {path}: its fingerprint is {dataset.fingerprint}, expected "
                f"{' or '.join(sorted(expected)) or 'that of a model or of ranks, of which there are none'}"
            )
    elif not is_graph(run.graph_path):
        sources = dict.fromkeys([*(str(model[SOURCE]) for model in models if SOURCE in model), run.dataset])
        dataset = next(filter(None, (_matching(source, expected) for source in sources)), None)
        if dataset is None and models:
            progress.note(
                f"warning: the graph of {path} was not found as {' or '.join(sources)}, and predictions and training "
                f"need it: add it with `relens upgrade {path} --data DATASET`"
            )
    if dataset is None:
        return
    dataset = replace(dataset, name=run.dataset)  # a folder may have been renamed
    if not holds(run.graph_path, dataset):
        write_graph(dataset, run.graph_path)
        yield f"{run.graph_path.relative_to(path)}: added the graph of {dataset.name}"


def _fingerprints_of_ranks(run: Run) -> Iterator[str]:
    for split in EVALUATED:
        with suppress(InputError):  # missing or damaged ranks say so where they are used
            yield run.ranks(split).provenance.fingerprint


def _matching(source: str, expected: Collection[str]) -> Dataset | None:
    """Return the data set of a name or folder if it is here and has one of the expected fingerprints."""
    with suppress(RelensError):
        dataset = load_dataset(source, offline=True)
        if dataset.fingerprint in expected:
            return dataset
    return None


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
