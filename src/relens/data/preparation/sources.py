"""Sources of triples: files in several formats, folders of them, frames, and named data sets."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relens.checksums import file_checksum
from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset
from relens.data.ogb import is_ogb
from relens.data.preparation.content import COMPRESSED, inner_name, open_text, source_bytes
from relens.data.preparation.delimited import read_text
from relens.data.preparation.facts import Encoder, Facts, Graph
from relens.data.preparation.frames import is_frame, read_frame, read_parquet
from relens.data.preparation.rdf import looks_like_ntriples, read_ntriples, read_turtle
from relens.data.preparation.settings import ReadSettings
from relens.data.queries import SPLITS
from relens.data.stored import is_graph
from relens.errors import DatasetError, counted
from relens.progress import Progress

Source = Any
"""A path, the name of a data set, a ``Dataset``, a frame, or a mapping of splits to paths or frames."""
Reader = Callable[[Path, bytes, ReadSettings, Encoder, list[str]], Facts]

READERS: dict[str, Reader] = {
    "text": read_text,
    "ntriples": read_ntriples,
    "turtle": read_turtle,
    "parquet": read_parquet,
}
_ENDINGS = {
    "ntriples": (".nt", ".ntriples"),
    "turtle": (".ttl", ".turtle"),
    "parquet": (".parquet", ".pq"),
    "text": (".txt", ".tsv", ".csv", ".tab", ".psv", ".dat", ".ssv"),
}
_UNKNOWN = (".rdf", ".owl", ".xml", ".jsonld", ".nq", ".trig", ".n3", ".json", ".jsonl", ".xlsx", ".xls", ".feather")
_STEMS = {"train": ("train", "training"), "valid": ("valid", "validation", "val", "dev"), "test": ("test", "testing")}


@dataclass(frozen=True)
class Read:
    """What was read from a source.

    Attributes:
        graph: the facts by split; a source without splits has ``train`` alone.
        description: the source in words, for records.
        files: the checksum of each file that was read.
        dataset: the data set it was, for its readable names and types; None for other sources.
    """

    graph: Graph
    description: str
    files: dict[str, str]
    dataset: Dataset | None = None


def read_source(source: Source, settings: ReadSettings, notes: list[str], *, offline: bool, progress: Progress) -> Read:
    """Read all facts of a source. Append to ``notes`` what was decided."""
    if isinstance(source, Dataset):
        return _of_dataset(source, settings)
    if is_frame(source):
        return _read_parts({"train": source}, settings, notes, "a frame")
    if isinstance(source, Mapping):
        unknown = [split for split in source if split not in SPLITS]
        if unknown or "train" not in source:
            raise DatasetError(
                f"found the splits {', '.join(map(repr, source))}, expected train, and valid and test if any"
            )
        return _read_parts(source, settings, notes, "frames or files by split")
    path = Path(source)
    if path.is_dir() and not is_ogb(path) and not is_graph(path):
        return _read_parts(_split_files(path), settings, notes, str(path))
    if path.is_file():
        return _read_parts({"train": path}, settings, notes, str(path))
    if not path.is_dir() and (len(path.parts) > 1 or path.suffix):
        raise DatasetError(f"{path} does not exist: expected a file with triples, a folder, or the name of a data set")
    return _of_dataset(load_dataset(source, offline=offline, progress=progress), settings)


def optional_folder(source: Source) -> Path | None:
    """Return the folder that may have tables beside the splits of a source."""
    if is_frame(source) or isinstance(source, Dataset | Mapping):
        return None
    return Path(source) if Path(source).is_dir() else None


def _of_dataset(dataset: Dataset, settings: ReadSettings) -> Read:
    if settings.columns is not None or settings.time is not None or settings.header is not None:
        raise DatasetError(f"{dataset.name} is a data set already: `columns=…`, `time=…` and `header=…` are for files")
    return Read(Graph.of_dataset(dataset), f"the data set {dataset.name}", {}, dataset)


def _read_parts(parts: Mapping[str, Any], settings: ReadSettings, notes: list[str], description: str) -> Read:
    """Read the parts of a source with one vocabulary."""
    encoder = Encoder(strip=settings.strip)
    found, files = {}, {}
    for split, part in parts.items():
        if is_frame(part):
            facts = read_frame(
                part, f"the frame of {split}" if len(parts) > 1 else "the frame", settings, encoder, notes
            )
        else:
            path = Path(part)
            facts = _read_file(path, settings, encoder, notes)
            files[path.name] = file_checksum(path)
        if not len(facts) and split == "train":
            raise DatasetError(f"{part if not is_frame(part) else 'the frame'} has no triples: expected at least one")
        found[split] = facts
    if encoder.n_padded:
        notes.append(f"removed the spaces around {counted(encoder.n_padded, 'label')}; `strip=False` keeps them")
    return Read(encoder.finish(found), description, files)


def _read_file(path: Path, settings: ReadSettings, encoder: Encoder, notes: list[str]) -> Facts:
    """Read a file in the format that is asked for, or that it has."""
    content = source_bytes(path)
    name = settings.format if settings.format != "auto" else _format_of(path, content, settings)
    if name in ("ntriples", "turtle") and (settings.columns is not None or settings.time is not None):
        raise DatasetError(f"{path} is RDF, which has no columns: leave out `columns=…` and `time=…`")
    return READERS[name](path, content, settings, encoder, notes)


def _format_of(path: Path, content: bytes, settings: ReadSettings) -> str:
    """Return the format of a file, by the ending of its name, or for text by its first line."""
    ending = Path(inner_name(path)).suffix
    if ending in _UNKNOWN:
        raise DatasetError(
            f"{path} is in a format that relens does not read ({ending}): expected a text table, N-Triples, Turtle or "
            f"Parquet. Convert it, or name its format with `format=text`."
        )
    for name, endings in _ENDINGS.items():
        if ending in endings and name != "text":
            return name
    if content.startswith(b"PAR1"):
        return "parquet"
    try:
        with open_text(path, content[: 2**16], settings.encoding) as lines:
            first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    except UnicodeError:  # the reader of the whole file names the line
        return "text"
    return "ntriples" if looks_like_ntriples(first) else "text"


def _split_files(folder: Path) -> dict[str, Path]:
    """Return the files of the splits in a folder, in any format."""
    files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    found = {}
    for split, stems in _STEMS.items():
        mine = [file for file in files if _is_split(file, stems)]
        if len(mine) > 1:
            raise DatasetError(
                f"{folder} has {' and '.join(file.name for file in mine)}: expected one file for {split}. Remove or "
                f"rename the others, or name one file."
            )
        if mine:
            found[split] = mine[0]
    if "train" not in found:
        raise DatasetError(
            f"{folder} has no file for train, such as train.txt, train.csv or train.nt; it holds "
            f"{_listed(file.name for file in files)}. Name the file with the triples instead of the folder."
        )
    return found


def _is_split(file: Path, stems: tuple[str, ...]) -> bool:
    name = Path(inner_name(file))
    endings = [ending for some in _ENDINGS.values() for ending in some]
    return name.stem in stems and (name.suffix in endings or (not name.suffix and file.suffix in ("", *COMPRESSED)))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(list(names)[:12]) or "nothing"
