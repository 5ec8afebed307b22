"""Prepare a data set: read any source, split it, remove leaks, and write a folder that every command reads."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from relens.data.checks import DataCheck, check_data
from relens.data.dataset import NAMES_ENDINGS, Dataset, optional_files, write_folder
from relens.data.preparation.facts import Graph
from relens.data.preparation.mending import drop_given_away, drop_redundant
from relens.data.preparation.settings import Column, ReadSettings, Size, SplitSettings
from relens.data.preparation.sources import Read, Source, optional_folder, read_source
from relens.data.preparation.splitting import split_facts
from relens.data.queries import EVALUATED, SPLITS
from relens.data.tsv import read_rows, write_rows
from relens.errors import DatasetError, counted
from relens.files import whole_folder
from relens.progress import SILENT, Progress
from relens.records import PREPARED

RECORD = "prepared.json"


@dataclass(frozen=True, eq=False)
class PreparedData:
    """A folder that was prepared.

    Attributes:
        folder: the folder.
        dataset: the data set in it.
        notes: what was decided and done, one sentence each.
        check: the checks of the new data set, with its warnings.
    """

    folder: Path
    dataset: Dataset
    notes: tuple[str, ...]
    check: DataCheck


def prepare_data(
    source: Source,
    folder: Path | str,
    *,
    format: str = "auto",
    delimiter: str | None = None,
    quotes: bool | None = None,
    header: bool | None = None,
    columns: Sequence[Column] | None = None,
    time: Column | None = None,
    strip: bool = True,
    encoding: str = "utf-8",
    literals: str = "skip",
    blank_nodes: str = "skip",
    valid: Size | None = None,
    test: Size | None = None,
    hold_out: Sequence[str] = (),
    stratify: bool = False,
    allow_unseen: bool = False,
    seed: int = 0,
    drop_leaks: bool = False,
    drop_linked: bool = False,
    offline: bool = False,
    force: bool = False,
    progress: Progress = SILENT,
) -> PreparedData:
    """Read triples in any supported format, split them, and write a folder for ``relens.run``.

    The folder appears when it is complete. Repeated triples are written once. A source that has splits keeps them;
    those that it lacks are held out of train.

    Args:
        source: a file (TSV, CSV or other text tables, N-Triples, Turtle, Parquet; text also as .gz or .zst), a folder
            with a file for train and perhaps for valid and test, the name of a data set, a ``Dataset``, a pandas frame,
            or a mapping of ``train``, ``valid`` and ``test`` to files or frames.
        folder: the folder to write.
        format: ``auto``, ``text``, ``ntriples``, ``turtle`` or ``parquet``.
        delimiter: the character between two fields; None to recognise it.
        quotes: whether fields may be quoted; None for all delimiters but tabs and spaces.
        header: whether the first line names the columns; None to recognise it.
        columns: the columns of head, relation and tail, by name or by number from 1; None to choose them.
        time: a column with times: the latest triples become test, earlier ones valid, the others train.
        strip: remove spaces around labels.
        encoding: the encoding of text files.
        literals: ``skip`` and count RDF triples with a literal, or raise an ``error``.
        blank_nodes: ``skip`` and count RDF triples with a blank node, or raise an ``error``.
        valid: the triples to hold out for validation, a count or a share below 1; None for a tenth, at most 20,000.
        test: the triples to hold out for test, in the same way.
        hold_out: hold out triples of these relations only.
        stratify: hold out the same share of each relation.
        allow_unseen: let valid and test have entities and relations that train lacks.
        seed: the root of the random choice.
        drop_leaks: keep one of each set of inverse or near-duplicate relations, and remove triples of valid and test
            that train has, or whose counterpart or mirror image it has.
        drop_linked: remove also triples of valid and test whose two entities train links by any relation.
        offline: never download a named data set.
        force: replace a folder that this function wrote before.
        progress: receives what was decided and done.

    Returns:
        The folder, its data set, the notes, and the checks of the new data set.

    For example::

        made = relens.prepare_data("drugs.csv", "drugs", columns=("drug", "effect", "disease"), valid=100, test=100)
        run = relens.run("drugs")
    """
    reading = ReadSettings(
        format, delimiter, quotes, header, None if columns is None else tuple(columns), time, strip, encoding, literals,
        blank_nodes,
    )  # fmt: skip
    splitting = SplitSettings(valid, test, tuple(hold_out), stratify, allow_unseen, seed)
    if time is not None and stratify:
        raise DatasetError("`time=…` and `stratify=True` exclude each other: choose how triples are held out")
    target = Path(folder)
    _check_target(target, source, force=force)
    notes = _Notes(progress)
    read = read_source(source, reading, notes, offline=offline, progress=progress)
    graph = _prepared(read.graph, reading, splitting, notes, drop_leaks=drop_leaks, drop_linked=drop_linked)
    dataset = replace(graph.dataset(target.resolve().name), folder=target)
    record = {
        "source": read.description,
        "files": read.files,
        "reading": asdict(reading),
        "splitting": asdict(splitting),
        "drop_leaks": drop_leaks,
        "drop_linked": drop_linked,
        "counts": dataset.counts,
        "fingerprint": dataset.fingerprint,
    }
    with whole_folder(target) as aside:
        write_folder(replace(dataset, folder=None), aside)
        _carry_tables(read, optional_folder(source), dataset, aside, notes)
        PREPARED.write(aside / RECORD, {**record, "notes": list(notes)})
    check = check_data(dataset)
    return PreparedData(target, dataset, tuple(notes), check)


class _Notes(list[str]):
    """Notes that are shown as soon as they are appended."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self._progress = progress

    def append(self, note: str) -> None:
        super().append(note)
        self._progress.note(note)

    def __iadd__(self, notes: Any) -> "_Notes":  # type: ignore[override, misc]
        for note in notes:
            self.append(note)
        return self


def _check_target(target: Path, source: Source, *, force: bool) -> None:
    """Raise an error if the folder exists, unless it may be replaced."""
    if not target.exists():
        return
    ours = (target / RECORD).is_file()
    if isinstance(source, str | Path) and Path(source).exists():
        inside = Path(source).resolve()
        if target.resolve() in (inside, *inside.parents):
            raise DatasetError(f"{target} holds the source {source}: choose another folder")
    if not (force and ours):
        remedy = "pass `force=True` to replace it, or choose" if ours else "choose"
        raise DatasetError(f"{target} exists already: {remedy} another folder")


def _prepared(
    graph: Graph,
    reading: ReadSettings,
    splitting: SplitSettings,
    notes: list[str],
    *,
    drop_leaks: bool,
    drop_linked: bool,
) -> Graph:
    """Return the facts in three splits: without repeats, and without leaks if that is asked for."""
    graph = _without_repeats(graph, notes)
    if drop_leaks:
        graph = drop_redundant(graph, notes)
    missing = [split for split in EVALUATED if split not in graph.parts]
    _check_sizes(reading, splitting, missing)
    if missing:
        train = graph.parts["train"].without_repeats(ordered=True)
        split = split_facts(train, graph.relations, splitting, missing)
        parts = {**graph.parts, **{name: train[rows] for name, rows in split.rows.items()}}
        graph = graph.with_parts({name: parts[name] for name in SPLITS})
        notes += list(split.notes)
    if drop_leaks or drop_linked:
        graph = drop_given_away(graph, notes, mirrored=drop_leaks, linked=drop_linked, unseen=splitting.allow_unseen)
    return graph


def _without_repeats(graph: Graph, notes: list[str]) -> Graph:
    parts = {split: part.without_repeats() for split, part in graph.parts.items()}
    repeated = sum(map(len, graph.parts.values())) - sum(map(len, parts.values()))
    if repeated:
        notes.append(
            f"left out {counted(repeated, 'triple')} that {'repeats' if repeated == 1 else 'repeat'} another one"
        )
    return graph.with_parts(parts)


def _check_sizes(reading: ReadSettings, splitting: SplitSettings, missing: list[str]) -> None:
    """Raise an error about settings of a split that the source has already."""
    for split in EVALUATED:
        if split not in missing and getattr(splitting, split) is not None:
            raise DatasetError(f"the source has its own {split} triples: leave out `{split}=…`")
    if not missing:
        unused = {"hold_out": splitting.hold_out, "stratify": splitting.stratify, "time": reading.time}
        for name, value in unused.items():
            if value:
                raise DatasetError(f"the source is split already: `{name}=…` is for sources without valid or test")


def _carry_tables(read: Read, folder: Path | None, dataset: Dataset, aside: Path, notes: list[str]) -> None:
    """Copy readable names and types of the labels that are left; say which other tables are not copied."""
    labels = {"labels": dataset.entities, "relation_labels": dataset.relations, "types": dataset.entities}
    tables: dict[str, Any] = {}
    if read.dataset is not None and read.dataset.names:
        tables["labels"] = list(read.dataset.names.items())
    found: Mapping[str, Path] = {} if folder is None else optional_files(folder)
    if read.dataset is not None and read.dataset.folder is not None:
        found = optional_files(read.dataset.folder)
    for stem, file in found.items():
        if stem in labels and stem not in tables:
            tables[stem] = read_rows(file, ("label", "text"))
        elif stem not in labels:
            notes.append(f"{file.name} was not copied: its triples belong to the splits of the source")
    for stem, rows in tables.items():
        kept = [row for row in rows if row[0].strip() in labels[stem]]
        if kept:
            write_rows(aside / f"{stem}{NAMES_ENDINGS[-1]}", [(row[0].strip(), row[1]) for row in kept])
