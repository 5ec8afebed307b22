"""ogbl-biokg and ogbl-wikikg2 from the folders that OGB's archives unpack to; the package ``ogb`` is not needed.

A folder holds ``split/NAME/{train,valid,test}.pt`` (or one ``split_dict.pt``), node counts in ``raw`` and names in
``mapping``. Valid and test come with negatives for the head and for the tail of each triple. They are gigabytes, so
what was read and checked once is kept in a folder ``relens`` beside them, as arrays that later reads map into memory.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.candidates import Candidates, check_candidates
from relens.data.csv_tables import read_numbered, read_table
from relens.data.dataset import Dataset, Vocabulary
from relens.data.queries import EVALUATED, SPLITS, Queries
from relens.data.torch_files import read_saved
from relens.errors import DatasetError
from relens.files import open_npy, read_json, whole_folder
from relens.records import OGB_COPY

NAMES = {"ogbl_biokg": "ogbl-biokg", "ogbl_wikikg2": "ogbl-wikikg2"}
"""Data sets by the name of the folder that OGB keeps them in."""
COPY = "relens"
MANIFEST = "manifest.json"
RELATION_FILES = ("relidx2relname.csv.gz", "reltype2relid.csv.gz")
_ROWS = 2**14
_UNPACK = "Unpack OGB's archive again, and give the folder that holds raw, split and mapping."


def is_ogb(folder: Path) -> bool:
    """Say whether a folder is laid out like OGB's data sets of triples."""
    return any((folder / "split").glob("*/*.pt"))


def read_ogb(
    folder: Path, name: str | None = None, *, copies: Path | None = None, keep_repeats: bool = False
) -> Dataset:
    """Read a data set in OGB's layout; valid and test have their negatives as candidates.

    Entities are numbered type after type in alphabetical order, and labelled ``type:number`` with OGB's number within
    the type; where there are no types, the label is the number. Relations keep OGB's numbers, and are labelled from
    ``mapping`` where that is there.

    Args:
        folder: the one that holds ``raw``, ``split`` and ``mapping``.
        name: of the data set; OGB's, or that of the folder, by default.
        copies: where to keep what was read if the folder itself cannot be written to.
        keep_repeats: accept, and count as OGB's evaluator does, negatives that occur twice or are the answer.
    """
    source = _Source(folder)
    copy = _copy_of(folder, copies)
    manifest = _manifest(copy)
    if manifest is None or manifest["sources"] != source.stamps or (keep_repeats and not manifest["keep_repeats"]):
        with whole_folder(copy) as aside:
            manifest = _convert(source, aside, keep_repeats)
    return _open_copy(copy, manifest, folder, name or NAMES.get(folder.resolve().name, folder.resolve().name))


@dataclass(frozen=True)
class _Source:
    """The files of a data set as OGB lays them out."""

    folder: Path

    @cached_property
    def split_files(self) -> dict[str, Path]:
        """The file of each split, which may be one for all."""
        chosen = sorted({file.parent for file in (self.folder / "split").glob("*/*.pt")})
        if len(chosen) != 1:
            found = ", ".join(path.name for path in chosen) or "none"
            raise DatasetError(
                f"{self.folder / 'split'} has the splits {found}: expected one, as OGB publishes it. {_UNPACK}"
            )
        joint = chosen[0] / "split_dict.pt"
        files = {split: joint if joint.is_file() else chosen[0] / f"{split}.pt" for split in SPLITS}
        for split, file in files.items():
            if not file.is_file():
                raise DatasetError(f"{file} is missing: expected the triples of {split}. {_UNPACK}")
        return files

    @cached_property
    def counts_file(self) -> Path:
        """The file that says how many nodes there are."""
        files = ("raw/num-node-dict.csv.gz", "raw/num-node-list.csv.gz", "processed/data_processed")
        for file in files:
            if (self.folder / file).is_file():
                return self.folder / file
        raise DatasetError(f"{self.folder} has none of {', '.join(files)}: expected the number of nodes. {_UNPACK}")

    @cached_property
    def relation_file(self) -> Path | None:
        """The file that names the relations, or None."""
        found = (self.folder / "mapping" / file for file in RELATION_FILES)
        return next((file for file in found if file.is_file()), None)

    @property
    def stamps(self) -> dict[str, list[int]]:
        """Size and time of every file that is read, by its path in the folder."""
        files = {*self.split_files.values(), self.counts_file, *filter(None, [self.relation_file])}
        stamps = {file.relative_to(self.folder).as_posix(): file.stat() for file in files}
        return {path: [stamp.st_size, stamp.st_mtime_ns] for path, stamp in sorted(stamps.items())}

    def node_counts(self) -> dict[str, int]:
        """Return how many nodes there are of each type, in alphabetical order; the type is '' where there are none."""
        file = self.counts_file
        try:
            if file.suffix != ".gz":
                graph = read_saved(file)
                counts = graph["num_nodes_dict"] if "num_nodes_dict" in graph else {"": graph["num_nodes"]}
            elif "dict" in file.name:
                types, numbers = read_table(file)
                counts = dict(zip(types, map(int, numbers), strict=True))
            else:
                ((number,),) = read_table(file)
                counts = {"": int(number)}
            counts = {kind: int(counts[kind]) for kind in sorted(counts)}
        except DatasetError:
            raise
        except (KeyError, ValueError, TypeError) as error:
            raise DatasetError(f"{file} does not say how many nodes of each type there are ({error!r})") from error
        if not counts or min(counts.values()) < 1:
            raise DatasetError(f"{file} says {counts}: expected one node or more of each type")
        return counts

    def read_split(self, split: str, loaded: dict[Path, Any]) -> dict[str, Any]:
        """Return the columns of a split; ``loaded`` keeps a file that holds several."""
        file = self.split_files[split]
        content = loaded.get(file) or read_saved(file)
        if file.name == "split_dict.pt":
            loaded[file] = content
            content = content.get(split) if isinstance(content, dict) else None
        if not isinstance(content, dict):
            found = type(content).__name__
            raise DatasetError(f"{file} holds {found} for {split}, expected a dictionary of columns. {_UNPACK}")
        return content


@dataclass(frozen=True)
class _Columns:
    """The columns of a split, checked against the counts of nodes while they are given global ids."""

    place: str
    content: Mapping[str, Any]
    counts: Mapping[str, int]

    def triples(self) -> npt.NDArray[np.int32]:
        """Return rows head, relation, tail of global ids, (n, 3) int32."""
        head, relation, tail = (self._ids(name, 1) for name in ("head", "relation", "tail"))
        if not len(head) == len(relation) == len(tail):
            sizes = f"{len(head)} heads, {len(relation)} relations and {len(tail)} tails"
            raise DatasetError(f"{self.place} has {sizes}, expected as many of each. {_UNPACK}")
        limit = np.iinfo(np.int32).max
        if (wrong := np.flatnonzero((relation < 0) | (relation >= limit))).size:
            found = f"relation {relation[wrong[0]]} in triple {wrong[0]}"
            raise DatasetError(f"{self.place} has {found}, expected 0 to {limit - 1}. {_UNPACK}")
        columns = self.globally(head, "head", slice(None)), relation, self.globally(tail, "tail", slice(None))
        return np.stack(columns, axis=1).astype(np.int32)

    def negatives(self, side: str, n_triples: int) -> npt.NDArray[Any]:
        """Return the negatives of a side as they are in the file, (n, c)."""
        ids = self._ids(f"{side}_neg", 2)
        if len(ids) != n_triples:
            raise DatasetError(f"{self.place} has {len(ids)} rows of {side}_neg for {n_triples} triples. {_UNPACK}")
        return ids

    def globally(self, ids: npt.NDArray[Any], side: str, rows: slice) -> npt.NDArray[Any]:
        """Number ids (b,) or (b, c) of the triples at ``rows`` across all types, refusing those beyond their type."""
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
                f"and the counts of nodes belong to different data sets. {_UNPACK}"
            )
        return ids + begins.reshape(shape)

    @cached_property
    def _types(self) -> dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """For each side, the first id and the number of entities of each triple's type, (n,) each; (1,) if untyped."""
        kinds = list(self.counts)
        sizes = np.array(list(self.counts.values()), dtype=np.int64)
        begins = np.cumsum(sizes) - sizes
        places = {kind: number for number, kind in enumerate(kinds)}
        found = {}
        for side in ("head", "tail"):
            listed = self.content.get(f"{side}_type")
            if (listed is None) != (kinds == [""]):
                raise DatasetError(
                    f"{self.place} has {'no' if listed is None else 'the column'} {side}_type, but the counts of nodes "
                    f"are of {', '.join(map(repr, kinds))}: expected types in both or in neither. {_UNPACK}"
                )
            try:
                at = [0] if listed is None else [places[kind] for kind in listed]
            except (KeyError, TypeError) as error:
                raise DatasetError(
                    f"{self.place} has the {side}_type {error}, expected one of {', '.join(kinds)}. {_UNPACK}"
                ) from error
            if listed is not None and len(at) != len(self._ids(side, 1)):
                raise DatasetError(f"{self.place} has {len(at)} {side}_type for {len(self._ids(side, 1))} triples")
            found[side] = begins[at], sizes[at]
        return found

    def _ids(self, name: str, n_axes: int) -> npt.NDArray[Any]:
        """Return a column of whole numbers with as many axes."""
        if name not in self.content:
            present = ", ".join(map(str, self.content)) or "nothing"
            raise DatasetError(f"{self.place} has no column {name}: found {present}. {_UNPACK}")
        ids = self.content[name]
        if not isinstance(ids, np.ndarray) or ids.ndim != n_axes or ids.dtype.kind not in "iu":
            found = f"shape {ids.shape} of {ids.dtype}" if isinstance(ids, np.ndarray) else type(ids).__name__
            raise DatasetError(f"{self.place}: {name} is {found}, expected whole numbers with {n_axes} axes. {_UNPACK}")
        return ids


def _convert(source: _Source, aside: Path, keep_repeats: bool) -> dict[str, Any]:
    """Read and check all splits, one after the other, and write them as plain arrays beside the manifest returned."""
    counts = source.node_counts()
    stamps, loaded = source.stamps, dict[Path, Any]()
    # A function of its own for each split: nothing of one is held while the next is read.
    n_relations = max(_convert_split(source, split, counts, loaded, aside, keep_repeats) for split in SPLITS)
    manifest = {
        "sources": stamps,
        "keep_repeats": keep_repeats,
        "node_counts": counts,
        "relations": _relation_labels(source.relation_file, n_relations),
    }
    OGB_COPY.write(aside / MANIFEST, manifest)
    return manifest


def _convert_split(
    source: _Source, split: str, counts: dict[str, int], loaded: dict[Path, Any], aside: Path, keep_repeats: bool
) -> int:
    """Read, check and write one split, and return the number after its last relation's."""
    columns = _Columns(f"{source.split_files[split]} ({split})", source.read_split(split, loaded), counts)
    triples = columns.triples()
    np.save(aside / f"{split}.npy", triples, allow_pickle=False)
    if split != "train":
        _convert_negatives(columns, triples, aside / f"{split}_candidates.npy", sum(counts.values()), keep_repeats)
    return int(triples[:, 1].max(initial=-1)) + 1


def _convert_negatives(
    columns: _Columns, triples: npt.NDArray[np.int32], file: Path, n_entities: int, keep_repeats: bool
) -> None:
    """Write the negatives of both directions, (2n, c): rows 2i and 2i + 1 ask for the tail and the head of triple i."""
    sides = {side: columns.negatives(side, len(triples)) for side in ("tail", "head")}
    per_query = {side: ids.shape[1] for side, ids in sides.items()}
    if per_query["tail"] != per_query["head"]:
        raise DatasetError(f"{columns.place} has {per_query} negatives per triple, expected as many of each. {_UNPACK}")
    shape = 2 * len(triples), per_query["tail"]
    if 0 in shape:
        np.save(file, np.empty(shape, dtype="<i4"), allow_pickle=False)
        return
    out = np.lib.format.open_memmap(file, "w+", dtype="<i4", shape=shape)
    for begin in range(0, len(triples), _ROWS):
        rows = slice(begin, min(begin + _ROWS, len(triples)))
        for place, (side, ids) in enumerate(sides.items()):
            out[2 * rows.start + place : 2 * rows.stop : 2] = columns.globally(ids[rows], side, rows)
    queries = Queries.from_triples(triples)
    check_candidates(out, queries, n_entities, f"negatives of {columns.place}", keep_repeats=keep_repeats)
    out.flush()


def _relation_labels(file: Path | None, n_relations: int) -> list[str]:
    """Return the names of the relations; their numbers where there is no file."""
    if file is None:
        return [str(relation) for relation in range(n_relations)]
    names = read_numbered(file)
    if len(names) < n_relations:
        raise DatasetError(f"{file} names {len(names)} relations, the triples have {n_relations}. {_UNPACK}")
    repeated = {name for name in names if names.count(name) > 1}
    return [f"{name} ({number})" if name in repeated else name for number, name in enumerate(names)]


def _copy_of(folder: Path, copies: Path | None) -> Path:
    """Return where the copy of a folder is, or belongs: in the folder unless that cannot be written to."""
    if copies is None or (folder / COPY).is_dir() or os.access(folder, os.W_OK):
        return folder / COPY
    return copies / f"{folder.name}-{sha256(str(folder.resolve()).encode()).hexdigest()[:12]}"


def _manifest(copy: Path) -> dict[str, Any] | None:
    """Return what a copy says of itself; None where there is none, or one that this relens would not have written."""
    if not (copy / MANIFEST).is_file():
        return None
    found = read_json(copy / MANIFEST, "manifest")
    whole = {"sources", "keep_repeats", "node_counts", "relations"} <= found.keys()
    return found if whole and OGB_COPY.matches(found) else None


def _open_copy(copy: Path, manifest: Mapping[str, Any], folder: Path, name: str) -> Dataset:
    """Return the data set that a copy holds, its negatives mapped into memory."""
    counts: dict[str, int] = manifest["node_counts"]
    labels = [f"{kind}:{i}" if kind else str(i) for kind, size in counts.items() for i in range(size)]
    triples = {split: open_npy(copy / f"{split}.npy") for split in SPLITS}
    candidates = {}
    for split in EVALUATED:
        file = copy / f"{split}_candidates.npy"
        negatives = open_npy(file)
        if len(negatives) != 2 * len(triples[split]):
            raise DatasetError(f"{file} does not fit {split}.npy beside it: remove {copy}, it will be made again")
        candidates[split] = Candidates(negatives, f"negatives of {folder.name}, as OGB publishes them")
    return Dataset(
        name,
        Vocabulary("entity", tuple(labels)),
        Vocabulary("relation", tuple(manifest["relations"])),
        **triples,
        folder=folder,
        candidates=candidates,
        read_names=partial(_read_names, folder / "mapping", counts),
    )


def _read_names(mapping: Path, counts: Mapping[str, int]) -> dict[str, str]:
    """Return what ``mapping`` calls the entities, by label; empty where it is not there."""
    names = {}
    for kind, size in counts.items():
        file = mapping / (f"{kind}_entidx2name.csv.gz" if kind else "nodeidx2entityid.csv.gz")
        listed = read_numbered(file) if file.is_file() else []
        if listed and len(listed) != size:
            raise DatasetError(f"{file} names {len(listed)} entities, the data set has {size}. {_UNPACK}")
        names.update({f"{kind}:{number}" if kind else str(number): name for number, name in enumerate(listed)})
    return names
