"""Read ogbl-biokg and ogbl-wikikg2 from the folders in OGB's archives, without the package ``ogb``.

A folder holds ``split/NAME/{train,valid,test}.pt`` (or one ``split_dict.pt``), node counts in ``raw`` and names in
``mapping``. Valid and test come with negatives for the head and the tail of each triple. The files have gigabytes.
The first read therefore checks them and writes plain arrays into a folder ``relens`` beside them; later reads map
these arrays into memory.
"""

import csv
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.candidates import Candidates, array_file, check_candidates
from relens.data.dataset import Dataset
from relens.data.queries import EVALUATED, SPLITS, Queries
from relens.data.torch_files import read_saved
from relens.data.tsv import read_lines
from relens.data.vocabulary import Vocabulary
from relens.errors import DatasetError, InputError
from relens.files import open_npy, read_json, whole_folder
from relens.records import OGB_COPY

NAMES = {"ogbl_biokg": "ogbl-biokg", "ogbl_wikikg2": "ogbl-wikikg2"}
"""Names of the data sets by their folder in OGB's layout."""
COPY = "relens"
MANIFEST = "manifest.json"
RELATION_FILES = ("relidx2relname.csv.gz", "reltype2relid.csv.gz")
MOST_IDS = 2**31 - 1
LONGEST_NUMBER, LONGEST_TYPE = 18, 100
"""Most digits of a number in a table, and characters of the name of a type."""
FREE_IDS = 100_000
"""Entities and relations that a data set may have in any case. Those beyond must have been in its rows."""
_ROWS = 2**14
_UNPACK = "Unpack OGB's archive again, and use the folder that holds raw, split and mapping."


def is_ogb(folder: Path) -> bool:
    """Return whether a folder has the layout of OGB's data sets of triples."""
    return any((folder / "split").glob("*/*.pt"))


def read_ogb(
    folder: Path, name: str | None = None, *, copies: Path | None = None, keep_repeats: bool = False
) -> Dataset:
    """Read a data set in OGB's layout, with the negatives of valid and test as candidates.

    Entities are numbered type by type, types in alphabetical order. Their labels are ``type:number``, with OGB's
    number within the type, or the number alone if there are no types. Relations keep OGB's numbers; their labels come
    from ``mapping`` if it exists.

    Args:
        folder: the folder that holds ``raw``, ``split`` and ``mapping``.
        name: the name of the data set; by default OGB's name or the name of the folder.
        copies: the parent folder for the arrays if ``folder`` is not writable.
        keep_repeats: accept negatives that occur twice or equal the answer; each one counts, as in OGB's evaluator.
    """
    source = _Source(folder)
    copy = _copy_of(folder, copies)
    manifest = _manifest(copy)
    if manifest is None or manifest["sources"] != source.stamps or (keep_repeats and not manifest["keep_repeats"]):
        with whole_folder(copy) as temporary:
            manifest = _convert(source, temporary, keep_repeats=keep_repeats)
    return _open_copy(copy, manifest, folder, name or NAMES.get(folder.resolve().name, folder.resolve().name))


@dataclass(frozen=True)
class _Source:
    """The files of a data set in OGB's layout."""

    folder: Path

    @cached_property
    def split_files(self) -> dict[str, Path]:
        """The file of each split; all splits may share one file."""
        chosen = sorted({file.parent for file in (self.folder / "split").glob("*/*.pt")})
        if len(chosen) != 1:
            found = ", ".join(path.name for path in chosen) or "none"
            raise DatasetError(
                f"{self.folder / 'split'} has these splits: {found}. Expected one, as OGB publishes it. {_UNPACK}"
            )
        joint = chosen[0] / "split_dict.pt"
        files = {split: joint if joint.is_file() else chosen[0] / f"{split}.pt" for split in SPLITS}
        for split, file in files.items():
            if not file.is_file():
                raise DatasetError(f"{file} is missing: expected the triples of {split}. {_UNPACK}")
        return files

    @cached_property
    def counts_file(self) -> Path:
        """The file with the number of nodes."""
        files = ("raw/num-node-dict.csv.gz", "raw/num-node-list.csv.gz", "processed/data_processed")
        for file in files:
            if (self.folder / file).is_file():
                return self.folder / file
        raise DatasetError(f"{self.folder} has none of {', '.join(files)}: expected the number of nodes. {_UNPACK}")

    @cached_property
    def relation_file(self) -> Path | None:
        """The file with the names of the relations, or None."""
        found = (self.folder / "mapping" / file for file in RELATION_FILES)
        return next((file for file in found if file.is_file()), None)

    @property
    def stamps(self) -> dict[str, list[int]]:
        """Size and modification time of each input file, by its path in the folder."""
        files = {*self.split_files.values(), self.counts_file, *filter(None, [self.relation_file])}
        stamps = {file.relative_to(self.folder).as_posix(): file.stat() for file in files}
        return {path: [stamp.st_size, stamp.st_mtime_ns] for path, stamp in sorted(stamps.items())}

    def node_counts(self) -> dict[str, int]:
        """Return the number of nodes of each type, in alphabetical order. Without types, the only type is ''."""
        file = self.counts_file
        try:
            if file.suffix != ".gz":
                graph = read_saved(file)
                counts = graph["num_nodes_dict"] if "num_nodes_dict" in graph else {"": graph["num_nodes"]}
            elif "dict" in file.name:
                types, numbers = _read_table(file)
                counts = dict(zip(types, map(int, numbers), strict=True))
            else:
                ((number,),) = _read_table(file)
                counts = {"": int(number)}
            counts = {kind: int(counts[kind]) for kind in sorted(counts)}
        except InputError:
            raise
        except (KeyError, ValueError, TypeError, OverflowError, AttributeError) as error:
            raise DatasetError(f"{file} lacks the number of nodes of each type ({error!r}). {_UNPACK}") from error
        if not _are_counts(counts):
            raise DatasetError(
                f"{file} has the counts {counts}, expected names of types with one node or more each, at most "
                f"{MOST_IDS:,} together. {_UNPACK}"
            )
        return counts

    def read_split(self, split: str, loaded: dict[Path, Any]) -> dict[str, Any]:
        """Return the columns of a split. ``loaded`` caches a file that holds several splits."""
        file = self.split_files[split]
        content = loaded[file] if file in loaded else read_saved(file)
        if file.name == "split_dict.pt":
            loaded[file] = content
            content = content.get(split) if isinstance(content, dict) else None
        if not isinstance(content, dict):
            found = type(content).__name__
            raise DatasetError(f"{file} holds {found} for {split}, expected a dictionary of columns. {_UNPACK}")
        return content


@dataclass(frozen=True)
class _Columns:
    """The columns of one split. Methods check them against the node counts and return global ids."""

    place: str
    content: Mapping[str, Any]
    counts: Mapping[str, int]

    def triples(self) -> npt.NDArray[np.int32]:
        """Return rows (head, relation, tail) of global ids, (n, 3) int32."""
        head, relation, tail = (self._ids(name, 1) for name in ("head", "relation", "tail"))
        if not len(head) == len(relation) == len(tail):
            sizes = f"{len(head)} heads, {len(relation)} relations and {len(tail)} tails"
            raise DatasetError(f"{self.place} has {sizes}, expected equal numbers. {_UNPACK}")
        limit = np.iinfo(np.int32).max
        if (wrong := np.flatnonzero((relation < 0) | (relation >= limit))).size:
            found = f"relation {relation[wrong[0]]} in triple {wrong[0]}"
            raise DatasetError(f"{self.place} has {found}, expected 0 to {limit - 1}. {_UNPACK}")
        columns = self.global_ids(head, "head", slice(None)), relation, self.global_ids(tail, "tail", slice(None))
        return np.stack(columns, axis=1).astype(np.int32)

    def negatives(self, side: str, n_triples: int) -> npt.NDArray[Any]:
        """Return the negatives of a side with the ids of the file, (n, c)."""
        ids = self._ids(f"{side}_neg", 2)
        if len(ids) != n_triples:
            raise DatasetError(f"{self.place} has {len(ids)} rows of {side}_neg for {n_triples} triples. {_UNPACK}")
        return ids

    def global_ids(self, ids: npt.NDArray[Any], side: str, rows: slice) -> npt.NDArray[Any]:
        """Convert ids within a type, (b,) or (b, c), of the triples ``rows`` to global ids. Check their range."""
        begins, sizes = self._types[side]
        if len(begins) > 1:
            begins, sizes = begins[rows], sizes[rows]
        shape = (-1,) + (1,) * (ids.ndim - 1)
        strange = (ids < 0) | (ids >= sizes.reshape(shape))
        if strange.any():
            at = np.unravel_index(int(strange.argmax()), ids.shape)
            triple = (rows.start or 0) + int(at[0])
            kinds = self.content.get(f"{side}_type")
            kind = f" of type {kinds[triple]!r}" if kinds else ""
            what = side if ids.ndim == 1 else f"{side}_neg"
            size = sizes[at[0] if len(sizes) > 1 else 0]
            raise DatasetError(
                f"{self.place}, triple {triple}: found {what} {ids[at]}{kind}, expected 0 to {size - 1}. The triples "
                f"and the node counts belong to different data sets. {_UNPACK}"
            )
        return ids + begins.reshape(shape)

    @cached_property
    def _types(self) -> dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """First id and number of entities of each triple's type, by side; (n,) each, or (1,) without types."""
        kinds = list(self.counts)
        sizes = np.array(list(self.counts.values()), dtype=np.int64)
        begins = np.cumsum(sizes) - sizes
        places = {kind: number for number, kind in enumerate(kinds)}
        found = {}
        for side in ("head", "tail"):
            listed = self.content.get(f"{side}_type")
            if (listed is None) != (kinds == [""]):
                article = "no" if listed is None else "the"
                raise DatasetError(
                    f"{self.place} has {article} column {side}_type, but the types of the node counts are "
                    f"{', '.join(map(repr, kinds))}: expected types in both or in neither. {_UNPACK}"
                )
            try:
                at = [0] if listed is None else [places[kind] for kind in listed]
            except (KeyError, TypeError) as error:
                raise DatasetError(
                    f"{self.place} has the {side}_type {error}, expected one of {', '.join(kinds)}. {_UNPACK}"
                ) from error
            if listed is not None and len(at) != len(self._ids(side, 1)):
                n_triples = len(self._ids(side, 1))
                raise DatasetError(f"{self.place} has {len(at)} {side}_type for {n_triples} triples. {_UNPACK}")
            found[side] = begins[at], sizes[at]
        return found

    def _ids(self, name: str, n_axes: int) -> npt.NDArray[Any]:
        """Return a column of integers with ``n_axes`` axes."""
        if name not in self.content:
            present = ", ".join(map(str, self.content)) or "nothing"
            raise DatasetError(f"{self.place} has no column {name}: found {present}. {_UNPACK}")
        ids = self.content[name]
        if not isinstance(ids, np.ndarray) or ids.ndim != n_axes or ids.dtype.kind not in "iu":
            found = f"shape {ids.shape} of {ids.dtype}" if isinstance(ids, np.ndarray) else type(ids).__name__
            raise DatasetError(f"{self.place}: {name} is {found}, expected {n_axes}-dimensional integers. {_UNPACK}")
        return ids


def _read_table(path: Path) -> list[list[str]]:
    """Return the rows of a comma-separated file without empty lines."""
    try:
        return [row for row in csv.reader(read_lines(path)) if row]
    except csv.Error as error:
        raise DatasetError(f"{path} is not a table of comma-separated values ({error}). {_UNPACK}") from error


def _read_numbered(path: Path) -> list[str]:
    """Return the names in a table with a heading and the columns number and name, ordered by number.

    An empty name is replaced by its number.
    """
    rows = _read_table(path)[1:]
    names: dict[int, str] = {}
    for line, row in enumerate(rows, start=2):
        if len(row) != 2 or not row[0].strip().isdecimal() or len(row[0]) > LONGEST_NUMBER:
            raise DatasetError(f"{path}, row {line}: found {row}, expected a number and a name. {_UNPACK}")
        names[int(row[0])] = row[1].strip() or row[0].strip()
    if len(names) != len(rows) or sorted(names) != list(range(len(rows))):
        found = f"{len(rows)} rows and {len(names)} different numbers"
        raise DatasetError(f"{path} has {found}, expected the numbers 0, 1, 2, … {_UNPACK}")
    return [names[number] for number in range(len(rows))]


def _convert(source: _Source, folder: Path, *, keep_repeats: bool) -> dict[str, Any]:
    """Check all splits, write them as plain arrays and a manifest into a folder, and return the manifest."""
    counts = source.node_counts()
    stamps, loaded = source.stamps, dict[Path, Any]()
    # One call per split, so that memory holds one split at a time.
    n_relations = 0
    for split in SPLITS:
        columns = _Columns(f"{source.split_files[split]} ({split})", source.read_split(split, loaded), counts)
        n_relations = max(n_relations, _convert_split(columns, split, folder, keep_repeats=keep_repeats))
        del columns
    n_triples, n_ids = _rows_of(folder)
    if sum(counts.values()) > max(FREE_IDS, n_ids):
        raise DatasetError(
            f"{source.counts_file} has {sum(counts.values()):,} nodes, but all files together name nodes {n_ids:,} "
            f"times only. They belong to different data sets, or are damaged. {_UNPACK}"
        )
    if source.relation_file is None and n_relations > max(FREE_IDS, n_triples):
        raise DatasetError(
            f"{source.folder} has relation {n_relations - 1:,} in {n_triples:,} triples, and no names of relations in "
            f"mapping: expected ids below the number of triples. {_UNPACK}"
        )
    manifest = {
        "sources": stamps,
        "keep_repeats": keep_repeats,
        "node_counts": counts,
        "relations": _relation_labels(source.relation_file, n_relations),
    }
    OGB_COPY.write(folder / MANIFEST, manifest)
    return manifest


def _rows_of(copy: Path) -> tuple[int, int]:
    """Return the numbers of triples, and of ids of entities in triples and negatives, in the arrays of a copy."""
    n_triples = sum(len(open_npy(copy / f"{split}.npy")) for split in SPLITS)
    return n_triples, 2 * n_triples + sum(open_npy(copy / array_file(split)).size for split in EVALUATED)


def _are_counts(counts: Any) -> bool:
    """Say whether a value can be the number of nodes by type."""
    return (
        isinstance(counts, dict)
        and all(type(size) is int and size >= 1 for size in counts.values())
        and all(isinstance(kind, str) and len(kind) <= LONGEST_TYPE for kind in counts)
        and 1 <= sum(counts.values()) <= MOST_IDS
    )


def _convert_split(columns: _Columns, split: str, folder: Path, *, keep_repeats: bool) -> int:
    """Check and write one split, and return its largest relation id plus one."""
    triples = columns.triples()
    np.save(folder / f"{split}.npy", triples, allow_pickle=False)
    if split in EVALUATED:
        _convert_negatives(columns, triples, folder / array_file(split), keep_repeats=keep_repeats)
    return int(triples[:, 1].max(initial=-1)) + 1


def _convert_negatives(columns: _Columns, triples: npt.NDArray[np.int32], file: Path, *, keep_repeats: bool) -> None:
    """Write the negatives of both directions, (2n, c): rows 2i and 2i + 1 are the tail and head query of triple i."""
    sides = {side: columns.negatives(side, len(triples)) for side in ("tail", "head")}
    per_query = {side: ids.shape[1] for side, ids in sides.items()}
    if per_query["tail"] != per_query["head"]:
        raise DatasetError(f"{columns.place} has {per_query} negatives per triple, expected equal numbers. {_UNPACK}")
    shape = 2 * len(triples), per_query["tail"]
    if 0 in shape:
        np.save(file, np.empty(shape, dtype="<i4"), allow_pickle=False)
        return
    with file.open("wb") as out:  # not mapped: on a full disk, a write to a map would end the process
        header = {"descr": "<i4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(out, header)
        for begin in range(0, len(triples), _ROWS):
            rows = slice(begin, min(begin + _ROWS, len(triples)))
            block = np.empty((2 * (rows.stop - rows.start), shape[1]), dtype="<i4")
            for place, (side, ids) in enumerate(sides.items()):
                block[place::2] = columns.global_ids(ids[rows], side, rows)
            out.write(block.data)
    queries = Queries.from_triples(triples)
    n_entities = sum(columns.counts.values())
    check_candidates(open_npy(file), queries, n_entities, f"negatives of {columns.place}", keep_repeats=keep_repeats)


def _relation_labels(file: Path | None, n_relations: int) -> list[str]:
    """Return the names of the relations, or their numbers if there is no file."""
    if file is None:
        return [str(relation) for relation in range(n_relations)]
    names = _read_numbered(file)
    if len(names) < n_relations:
        raise DatasetError(f"{file} has {len(names)} of the {n_relations} relations of the triples. {_UNPACK}")
    repeated = {name for name, count in Counter(names).items() if count > 1}
    return [f"{name} ({number})" if name in repeated else name for number, name in enumerate(names)]


def _copy_of(folder: Path, copies: Path | None) -> Path:
    """Return the folder of the converted arrays: inside ``folder``, or below ``copies`` if that is not writable."""
    if copies is None or (folder / COPY).is_dir() or os.access(folder, os.W_OK):
        return folder / COPY
    return copies / f"{folder.name}-{sha256(str(folder.resolve()).encode()).hexdigest()[:12]}"


def _manifest(copy: Path) -> dict[str, Any] | None:
    """Return the manifest of a copy, or None if it is missing, damaged or of another format: the copy is made again."""
    try:
        found = read_json(copy / MANIFEST, "manifest")
    except InputError:
        return None
    labels = found.get("relations")
    whole = (
        {"sources", "keep_repeats"} <= found.keys()
        and _are_counts(found.get("node_counts"))
        and isinstance(labels, list)
        and all(isinstance(label, str) for label in labels)
    )
    return found if whole and OGB_COPY.matches(found) else None


def _open_copy(copy: Path, manifest: Mapping[str, Any], folder: Path, name: str) -> Dataset:
    """Return the data set in a copy, with memory-mapped negatives."""
    counts: dict[str, int] = manifest["node_counts"]
    if sum(counts.values()) > max(FREE_IDS, _rows_of(copy)[1]):
        raise DatasetError(f"{copy / MANIFEST} has more nodes than the arrays beside it name. {OGB_COPY.remedy}")
    labels = [f"{kind}:{i}" if kind else str(i) for kind, size in counts.items() for i in range(size)]
    triples = {split: _open_ids(copy / f"{split}.npy", len(labels)) for split in SPLITS}
    candidates = {}
    for split in EVALUATED:
        file = copy / array_file(split)
        negatives = _open_ids(file, len(labels))
        if len(negatives) != 2 * len(triples[split]):
            raise DatasetError(
                f"{file} does not fit {split}.npy beside it: remove {copy}; the next read writes it again"
            )
        candidates[split] = Candidates(negatives, f"negatives of {folder.name}, as OGB publishes them")
    return Dataset(
        name,
        Vocabulary("entity", tuple(labels)),
        Vocabulary("relation", tuple(manifest["relations"])),
        triples["train"],
        triples["valid"],
        triples["test"],
        folder=folder,
        candidates=candidates,
        read_names=partial(_read_names, folder / "mapping", counts),
    )


def _open_ids(file: Path, limit: int) -> npt.NDArray[np.int32]:
    """Memory-map rows of ids of a copy, which are -1 (padding) or below ``limit``: models look them up unchecked."""
    ids = open_npy(file)
    if ids.ndim != 2 or ids.dtype != np.int32 or (ids.size and not -1 <= ids.min() <= ids.max() < limit):
        raise DatasetError(f"{file} does not hold ids of the {limit:,} entities of the copy. {OGB_COPY.remedy}")
    return ids


def _read_names(mapping: Path, counts: Mapping[str, int]) -> dict[str, str]:
    """Return the names of the entities in ``mapping`` by label; empty if it does not exist."""
    names = {}
    for kind, size in counts.items():
        file = mapping / (f"{kind}_entidx2name.csv.gz" if kind else "nodeidx2entityid.csv.gz")
        listed = _read_numbered(file) if file.is_file() else []
        if listed and len(listed) != size:
            raise DatasetError(f"{file} has {len(listed)} of the {size} entities of the data set. {_UNPACK}")
        names.update({f"{kind}:{number}" if kind else str(number): name for number, name in enumerate(listed)})
    return names
