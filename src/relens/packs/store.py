"""The packed store: a folder of raw little-endian arrays and a manifest, memory-mapped when loaded."""

import math
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from relens.checksums import file_checksum, verify_file
from relens.data.queries import Queries
from relens.errors import RanksError
from relens.files import json_text, whole_folder
from relens.packs.checks import RANKS, check_ranges
from relens.packs.pack import PackArrays, PackedBlock, PackedRanks, PackHeader, offsets_from
from relens.packs.packing import rank_dtype
from relens.records import PACK, TIE_RULE, Provenance

MANIFEST = "manifest.json"

Layout = dict[str, tuple[np.dtype[Any], tuple[int, ...]]]
"""Type and shape of each array file, by name."""

_COPY_BYTES = 2**22
_HELD_BYTES = 2**28
_PAIR_REMEDY = "Pack both splits from the same data set and scores, in a new run if necessary."


def assemble(header: PackHeader, blocks: Iterable[PackedBlock]) -> PackedRanks:
    """Join the blocks of all queries (at least one block) in memory, as read-only arrays."""
    block = PackedBlock.join([_checked(header, block) for block in blocks])
    _check_complete(header, len(block.counts))
    packed = PackedRanks(header, PackArrays.from_block(block))
    check_ranges(packed, f"{header.provenance.dataset} ({header.provenance.split})", PACK.remedy)
    return packed


class PackWriter:
    """Writes a packed store block by block, and holds up to ``_HELD_BYTES`` of it in memory."""

    def __init__(self, folder: Path, header: PackHeader, max_candidates: int) -> None:
        self._folder = folder
        self._header = header
        self._max_candidates = max_candidates
        self._dtype = rank_dtype(max_candidates)
        self._heads = [_no_queries(len(header.models), self._dtype)]
        self._files: dict[str, list[BinaryIO]] = {}
        self._held: list[dict[str, npt.NDArray[Any]]] = []
        self._held_bytes = 0

    @classmethod
    @contextmanager
    def open(cls, path: Path, header: PackHeader, max_candidates: int) -> Iterator[Self]:
        """Open a store for writing. It appears, or replaces an older one, when the context ends without an error.

        Args:
            path: the folder to write.
            header: its queries are the queries of all blocks to come, in order.
            max_candidates: the largest number of candidates of a query, which decides the width of the stored ranks.
        """
        with whole_folder(path) as folder, ExitStack() as stack:
            writer = cls(folder, header, max_candidates)
            for table in ("contested",) if header.gap_scales is None else ("contested", "gaps"):
                # A table has a row per model. The first row is written in place. The others wait in memory, or in
                # files of their own where they are too large, and are added at the end.
                names = [f"{table}.bin", *(f"{table}-{i}.part" for i in range(1, len(header.models)))]
                writer._files[table] = [stack.enter_context((folder / name).open("wb")) for name in names]
            yield writer
            writer._finish()

    def append(self, block: PackedBlock) -> None:
        """Add the next queries."""
        block = _checked(self._header, block)
        most = int(block.n_candidates.max(initial=0))
        if most > self._max_candidates:
            raise RanksError(f"a query has {most} candidates, the store was opened for up to {self._max_candidates}")
        tables = {"contested": _little_endian(block.contested, self._dtype)}
        if block.gaps is not None:
            tables["gaps"] = _little_endian(block.gaps, np.dtype(np.int32))
        for table, rows in tables.items():
            self._files[table][0].write(rows[0].data)
        self._held.append({table: rows[1:] for table, rows in tables.items()})
        self._held_bytes += sum(rows.nbytes for rows in tables.values())
        if self._held_bytes > _HELD_BYTES:
            self._release()
        none = np.empty((len(self._header.models), 0), dtype=self._dtype)
        self._heads.append(PackedBlock(block.answer, block.n_candidates, block.always_ahead, block.counts, none))

    def _release(self) -> None:
        """Write the rows that wait in memory to the files of their models."""
        for table, (_, *parts) in self._files.items():
            for held in self._held:
                for part, row in zip(parts, held[table], strict=True):
                    part.write(row.data)
        self._held, self._held_bytes = [], 0

    def _finish(self) -> None:
        for table, (whole, *parts) in self._files.items():
            for model, part in enumerate(parts):
                part.close()
                with open(part.name, "rb") as written:
                    shutil.copyfileobj(written, whole, _COPY_BYTES)
                Path(part.name).unlink()
                for held in self._held:
                    whole.write(held[table][model].data)
            whole.flush()
        head = PackedBlock.join(self._heads)
        _check_complete(self._header, len(head.counts))
        offsets = offsets_from(head.counts)
        layout = _array_layout(self._header, int(offsets[-1]), self._dtype)
        arrays = {
            "queries": self._header.queries.columns(),
            "n_candidates": head.n_candidates,
            "answer": head.answer,
            "always_ahead": head.always_ahead,
            "offsets": offsets,
        }
        for name, array in arrays.items():
            _little_endian(array, layout[name][0]).tofile(self._folder / f"{name}.bin")
        checksums = {name: file_checksum(self._folder / f"{name}.bin") for name in layout}
        manifest = json_text(_describe(self._header, layout, checksums))
        (self._folder / MANIFEST).write_text(manifest, encoding="utf-8")


def save_pack(packed: PackedRanks, path: Path) -> None:
    """Write packed ranks as a store, whole or not at all."""
    with PackWriter.open(path, packed.header, int(packed.n_candidates.max(initial=1))) as writer:
        writer.append(packed.arrays.to_block())


def load_pack(path: Path) -> PackedRanks:
    """Memory-map a packed store read-only. Raise an error that names a folder that is no store, or is damaged."""
    manifest = _read_manifest(path)
    with PACK.parsing(str(path / MANIFEST)):
        scales = manifest["gap_scales"]
        # Stores of an older relens have no checksums.
        checksums = {name: entry["checksum"] for name, entry in manifest["arrays"].items() if "checksum" in entry}

        def read(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
            return _map(path / f"{name}.bin", dtype, shape, checksums.get(name))

        n_queries, n_contested = manifest["n_queries"], manifest["n_contested"]
        if not all(type(number) is int and number >= 0 for number in (n_queries, n_contested)):
            raise ValueError(f"{n_queries!r} queries, {n_contested!r} contested candidates")
        if manifest["rank_dtype"] not in map(str, RANKS):
            raise ValueError(f"ranks of type {manifest['rank_dtype']!r}")
        header = PackHeader(
            models=tuple(manifest["models"]),
            relations=tuple(manifest["relations"]),
            queries=Queries.from_columns(read("queries", np.dtype("<i4"), (5, n_queries))),
            provenance=Provenance.from_json(manifest),
            gap_scales=None if scales is None else np.array(scales, dtype=np.float64),
            cardinalities=tuple(manifest["cardinalities"]),
        )
        layout = _array_layout(header, n_contested, np.dtype(manifest["rank_dtype"]))
        consistent = manifest == _describe(header, layout, checksums) | {"relens": manifest["relens"]}
    if not consistent:
        raise RanksError(f"{path / MANIFEST} contradicts itself or the queries beside it. {PACK.remedy}")
    arrays = PackArrays(**{name: read(name, *layout[name]) for name in layout if name != "queries"})
    packed = PackedRanks(header, arrays, path, checksums)
    check_ranges(packed, str(path), PACK.remedy)
    return packed


def n_bytes(path: Path) -> int:
    """Return the size of a store on disk."""
    return sum(file.stat().st_size for file in path.iterdir())


def check_pair(valid: PackHeader | PackedRanks, test: PackHeader | PackedRanks) -> None:
    """Raise an error for two packs that cannot share weights: other models, relations, data set or candidates."""
    if valid.models != test.models:
        only = [
            f"{', '.join(names)} only in {split}"
            for split, names in (
                ("valid", [name for name in valid.models if name not in test.models]),
                ("test", [name for name in test.models if name not in valid.models]),
            )
            if names
        ]
        found = "; ".join(only) or f"valid has {', '.join(valid.models)}, test has {', '.join(test.models)}"
        raise RanksError(f"the models of valid and test differ ({found}). Pack the same models in the same order.")
    for what, one, other in (
        ("data sets", valid.provenance.fingerprint, test.provenance.fingerprint),
        ("candidates", valid.provenance.candidates, test.provenance.candidates),
        ("numbers of relations", len(valid.relations), len(test.relations)),
    ):
        if one != other:
            raise RanksError(f"the {what} of valid and test differ ({one} and {other}). {_PAIR_REMEDY}")
    for what, same in (
        ("relation labels", valid.relations == test.relations),
        ("scales of score gaps", np.array_equal(_scales(valid), _scales(test))),
    ):
        if not same:
            raise RanksError(f"the {what} of valid and test differ. {_PAIR_REMEDY}")


def _describe(header: PackHeader, layout: Layout, checksums: Mapping[str, str]) -> dict[str, Any]:
    """Return the manifest of a store as a JSON object; ``checksums`` are those of the array files, by name."""
    scales = header.gap_scales
    return PACK.stamp(
        {
            **header.provenance.to_json(),
            "tie_rule": TIE_RULE,
            "models": list(header.models),
            "n_queries": len(header.queries),
            "queries_fingerprint": header.queries.fingerprint(),
            "n_contested": layout["contested"][1][1],
            "rank_dtype": layout["contested"][0].name,
            "gap_scales": None if scales is None else scales.tolist(),
            "arrays": {
                name: {"dtype": dtype.str, "shape": list(shape), "bytes": _array_bytes(dtype, shape)}
                | ({"checksum": checksums[name]} if name in checksums else {})
                for name, (dtype, shape) in layout.items()
            },
            "relations": list(header.relations),
            "cardinalities": list(header.cardinalities),
        }
    )


def _read_manifest(path: Path) -> dict[str, Any]:
    """Read the manifest of a store. Raise an error for other folders, formats and tie rules."""
    if not (path / MANIFEST).is_file():
        raise RanksError(f"{path} is not a packed store: it has no {MANIFEST}. Make one with `relens ranks import`.")
    manifest = PACK.read(path / MANIFEST)
    if manifest.get("tie_rule") != TIE_RULE:
        raise RanksError(
            f"{path} was packed with the tie rule {manifest.get('tie_rule')!r}, expected {TIE_RULE!r}. {PACK.remedy}"
        )
    return manifest


def _array_layout(header: PackHeader, n_contested: int, dtype: np.dtype[Any]) -> Layout:
    """Return type and shape of the array files of a store whose ranks have type ``dtype``."""
    n_models, n_queries = len(header.models), len(header.queries)
    layout: Layout = {
        "queries": (np.dtype("<i4"), (5, n_queries)),
        "n_candidates": (np.dtype("<i4"), (n_queries,)),
        "answer": (dtype.newbyteorder("<"), (n_models, n_queries)),
        "always_ahead": (np.dtype("<i4"), (n_queries,)),
        "offsets": (np.dtype("<i8"), (n_queries + 1,)),
        "contested": (dtype.newbyteorder("<"), (n_models, n_contested)),
    }
    if header.gap_scales is not None:
        layout["gaps"] = (np.dtype("<i4"), (n_models, n_contested))
    return layout


def _array_bytes(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    """Return the size of an array file."""
    return math.prod(shape) * dtype.itemsize


def _scales(packed: PackHeader | PackedRanks) -> npt.NDArray[np.float64]:
    return np.empty(0) if packed.gap_scales is None else packed.gap_scales


def _map(file: Path, dtype: np.dtype[Any], shape: tuple[int, ...], checksum: str | None) -> npt.NDArray[Any]:
    if not file.is_file():
        raise RanksError(f"{file.parent} is incomplete: {file.name} is missing. {PACK.remedy}")
    found, expected = file.stat().st_size, _array_bytes(dtype, shape)
    if found != expected:
        raise RanksError(f"{file} is damaged: it has {found:,} bytes, expected {expected:,}. {PACK.remedy}")
    if checksum is not None:
        verify_file(file, checksum, PACK.remedy, RanksError)
    if expected == 0:
        return np.empty(shape, dtype=dtype)
    return np.asarray(np.memmap(file, dtype=dtype, mode="r", shape=shape))


def _no_queries(n_models: int, dtype: np.dtype[Any]) -> PackedBlock:
    none = np.empty((n_models, 0), dtype=dtype)
    return PackedBlock(none, np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64), none)


def _checked(header: PackHeader, block: PackedBlock) -> PackedBlock:
    if len(block.contested) != len(header.models):
        raise RanksError(
            f"a block has {len(block.contested)} rows of ranks, expected {len(header.models)}: one per model"
        )
    if (block.gaps is None) != (header.gap_scales is None):
        raise RanksError("a block and its header differ in score gaps: pass the header's gap_scales to pack_scores")
    return block


def _check_complete(header: PackHeader, n_packed: int) -> None:
    if n_packed != len(header.queries):
        raise RanksError(f"packed {n_packed} queries, expected {len(header.queries)}")


def _little_endian(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(array, dtype=dtype.newbyteorder("<"))
