"""The graph in a run: a data set as compressed arrays and tables, read without the folder that it came from.

A folder holds the triples of each split in their order, the labels in the order of their ids, the optional files of the
data set, and a record with the fingerprint and the checksum of each file. Equal data gives equal files.
"""

import gzip
import shutil
from codecs import BOM_UTF8
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.checksums import file_checksum, verify_file
from relens.data.candidates import PADDING, Candidates, array_file
from relens.data.dataset import Dataset, optional_files
from relens.data.labels import Labels
from relens.data.queries import SPLITS
from relens.data.tsv import read_content, read_lines, write_content, write_rows
from relens.data.vocabulary import TABLE_BREAKERS, Vocabulary
from relens.errors import DatasetError, InputError
from relens.files import open_npy, whole_folder
from relens.records import GRAPH, mapping, text, texts, whole
from relens.unpacking import most_unpacked

RECORD = "graph.json"
ENTITIES, RELATIONS = "entities.txt.gz", "relations.txt.gz"
MOST_CANDIDATES = 2**28
"""Candidates of the data set that take more bytes than this are left out: OGB's take up to four gigabytes."""
_BREAKERS = str.maketrans(dict.fromkeys(TABLE_BREAKERS, " "))
_FAST, _PLAIN = 1, 0
"""Levels of gzip. Byte by byte, ids compress almost as well at the lowest level as at the highest."""


def write_graph(dataset: Dataset, folder: Path) -> None:
    """Write a data set for ``read_graph``. The folder appears when it is complete, and replaces an earlier one."""
    with whole_folder(folder) as aside:
        for split, triples in dataset.splits.items():
            (aside / _triples_file(split)).write_bytes(_packed(triples))
        for file, vocabulary in ((ENTITIES, dataset.entities), (RELATIONS, dataset.relations)):
            write_content(aside / file, vocabulary.joined())
        for stem, lines in _tables(dataset).items():
            write_rows(aside / f"{stem}.tsv.gz", ((line,) for line in lines))
        kept = _fit(dataset.candidates)
        for split, chosen in dataset.candidates.items() if kept else ():
            np.save(aside / array_file(split), np.asarray(chosen.negatives, dtype="<i4"), allow_pickle=False)
        files = {file.name: file_checksum(file) for file in sorted(aside.iterdir())}
        GRAPH.write(aside / RECORD, {**_facts(dataset), "candidates_kept": kept, "files": files})


def copy_graph(source: Path, folder: Path) -> None:
    """Copy a folder that ``write_graph`` wrote. The copy appears when it is complete, and replaces an earlier one."""
    record = graph_facts(source)
    with GRAPH.parsing(str(source / RECORD)):
        names = [Path(file).name for file in mapping(record["files"])]
    _verify(source, record)
    with whole_folder(folder) as aside:
        for name in (*names, RECORD):
            shutil.copyfile(source / name, aside / name)


def is_graph(folder: Path) -> bool:
    """Say whether a folder was written by ``write_graph``."""
    return (folder / RECORD).is_file()


def read_graph(folder: Path, name: str | None = None, *, candidates: bool = True) -> Dataset:
    """Read a data set that ``write_graph`` wrote: the same ids, fingerprint, order of triples and optional files.

    Args:
        folder: the folder.
        name: the name of the data set; None for the name that it had.
        candidates: read the data set's own candidates, too. If it has some that the folder does not keep, raise an
            error: ranks among all entities would be other ranks. Answers to questions do not need them.
    """
    record = GRAPH.read(folder / RECORD)
    with GRAPH.parsing(str(folder / RECORD)):
        _verify(folder, record)
        counts = {what: whole(count) for what, count in mapping(record["counts"]).items()}
        found = mapping(record["candidates"]) if candidates else {}
        if found and not keeps_candidates(folder):
            raise DatasetError(
                f"{folder} has no copy of the candidates of {record['dataset']}, which take more than "
                f"{MOST_CANDIDATES // 2**20} MiB: pass the data set itself, by its name or folder"
            )
        entities, relations = _vocabulary(folder, "entity", counts), _vocabulary(folder, "relation", counts)
        train, valid, test = (_unpacked(folder / _triples_file(split), counts[split]) for split in SPLITS)
        return Dataset(
            text(record["dataset"]) if name is None else name,
            entities,
            relations,
            train=train,
            valid=valid,
            test=test,
            folder=folder,
            candidates={split: _candidates(folder, split, facts, len(entities)) for split, facts in found.items()},
        )


def graph_facts(folder: Path) -> dict[str, Any]:
    """Return the record of a folder that ``write_graph`` wrote, without reading the graph.

    Among its values are ``dataset``, ``fingerprint``, ``counts``, and ``candidates`` with a ``digest`` by split.
    """
    return GRAPH.read(folder / RECORD)


def keeps_candidates(folder: Path) -> bool:
    """Say whether a folder has all candidates of its data set; a data set without candidates lacks none."""
    record = graph_facts(folder)
    return bool(record.get("candidates_kept")) or not record.get("candidates")


def holds(folder: Path, dataset: Dataset) -> bool:
    """Say whether a folder is the undamaged graph of this data set, with the same candidates and optional files."""
    try:
        record = graph_facts(folder)
        _verify(folder, record)
        tables = {stem: _lines(file) for stem, file in optional_files(folder).items()}
    except (InputError, LookupError, TypeError):
        return False
    expected = _facts(dataset)
    return {key: record.get(key) for key in expected} == expected and tables == _tables(dataset)


def _verify(folder: Path, record: Mapping[str, Any]) -> None:
    """Raise an error if a file is missing, or is not what was written."""
    for file, checksum in mapping(record["files"]).items():
        verify_file(folder / Path(file).name, text(checksum), GRAPH.remedy, DatasetError)


def _facts(dataset: Dataset) -> dict[str, Any]:
    """Return what a record says about a data set, beside its files."""
    candidates = {
        split: {
            "shape": list(chosen.negatives.shape),
            "source": chosen.source,
            "filter_splits": list(chosen.filter_splits),
            "digest": chosen.digest,
        }
        for split, chosen in dataset.candidates.items()
    }
    return {**dataset.identity, "counts": dataset.counts, "candidates": candidates}


def _triples_file(split: str) -> str:
    return f"{split}.bin.gz"


def _packed(triples: npt.NDArray[np.int32]) -> bytes:
    """Return rows (n, 3) of ids as gzip: the lowest bytes of all heads, then the next ones; then relations, tails."""
    planes = np.ascontiguousarray(triples.T, dtype="<i4").view(np.uint8).reshape(3, -1, 4).transpose(0, 2, 1)
    content = planes.tobytes()
    packed = gzip.compress(content, _FAST, mtime=0)
    # A graph without entropy would look like a file made to fill the memory.
    return packed if len(content) <= most_unpacked(len(packed)) else gzip.compress(content, _PLAIN, mtime=0)


def _unpacked(file: Path, n_triples: int) -> npt.NDArray[np.int32]:
    """Return the rows (n, 3) int32 of ids in a file of ``_packed``."""
    content = np.frombuffer(read_content(file), dtype=np.uint8)
    if content.size != 12 * n_triples:
        raise DatasetError(f"{file} has {content.size:,} bytes, expected 12 for {n_triples:,} triples. {GRAPH.remedy}")
    planes = content.reshape(3, 4, n_triples).transpose(0, 2, 1)
    return np.ascontiguousarray(planes).view("<i4").reshape(3, n_triples).T.astype(np.int32, order="C")


def _vocabulary(folder: Path, kind: str, counts: Mapping[str, int]) -> Vocabulary:
    """Return the entities or relations in the order of their ids."""
    file, count = (
        (folder / ENTITIES, counts["entities"]) if kind == "entity" else (folder / RELATIONS, counts["relations"])
    )
    labels = Labels.from_content(read_content(file).removeprefix(BOM_UTF8))
    if len(labels) != count:
        raise DatasetError(f"{file} has {len(labels):,} lines, expected {count:,}. {GRAPH.remedy}")
    return Vocabulary.from_bytes(kind, labels)


def _tables(dataset: Dataset) -> dict[str, list[str]]:
    """Return the lines of the optional files of a data set by stem, and of readable names that are not in a file."""
    found = {} if dataset.folder is None else optional_files(dataset.folder)
    tables = {stem: _lines(file) for stem, file in found.items()}
    if dataset.read_names is not None:
        tables["labels"] = [f"{label}\t{name.translate(_BREAKERS)}" for label, name in dataset.names.items()]
    return {stem: lines for stem, lines in tables.items() if lines}


def _lines(file: Path) -> list[str]:
    return [line for line in read_lines(file) if line]


def _fit(candidates: Mapping[str, Candidates]) -> bool:
    """Say whether the candidates of all splits are small enough for a copy."""
    return sum(4 * prod(chosen.negatives.shape) for chosen in candidates.values()) <= MOST_CANDIDATES


def _candidates(folder: Path, split: str, facts: Mapping[str, Any], n_entities: int) -> Candidates:
    """Return the candidates of a split, memory-mapped. Models look up their ids unchecked, so they are checked here."""
    file = folder / array_file(split)
    negatives = open_npy(file)
    if negatives.dtype != np.int32 or list(negatives.shape) != facts["shape"]:
        raise DatasetError(
            f"{file} has shape {negatives.shape} of {negatives.dtype}, but its record says {facts['shape']} of int32. "
            f"{GRAPH.remedy}"
        )
    if negatives.size and not PADDING <= negatives.min() <= negatives.max() < n_entities:
        raise DatasetError(f"{file} does not hold ids of the {n_entities:,} entities of the graph. {GRAPH.remedy}")
    return Candidates(negatives, text(facts["source"]), texts(facts["filter_splits"]))
