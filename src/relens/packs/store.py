"""The packed store: a folder of raw little-endian arrays and a manifest, memory-mapped when loaded."""

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from relens.data.queries import Queries
from relens.errors import RanksError
from relens.files import whole_folder
from relens.packs.manifest import MANIFEST, PackHeader, array_bytes, array_layout, describe, read_manifest
from relens.packs.pack import PackedRanks
from relens.packs.packing import PackedBlock, join_blocks, rank_dtype
from relens.records import PACK, Provenance

_COPY_BYTES = 2**22
_HELD_BYTES = 2**28
_PAIR_REMEDY = "Pack both splits from the same data set and scores, in a new run if need be."


def assemble(header: PackHeader, blocks: Iterable[PackedBlock]) -> PackedRanks:
    """Join the blocks of all queries (at least one block) in memory, as read-only arrays."""
    block = join_blocks([_checked(header, block) for block in blocks])
    _check_complete(header, len(block.counts))
    arrays = {name: getattr(block, name) for name in ("answer", "n_candidates", "always_ahead", "contested")}
    arrays["offsets"] = _offsets(block.counts)
    if block.gaps is not None:
        arrays["gaps"] = block.gaps
    for array in arrays.values():
        array.flags.writeable = False
    return _packed(header, arrays)


class PackWriter:
    """Writes a packed store block by block; of large ones, no more than ``_HELD_BYTES`` wait in memory."""

    def __init__(self, folder: Path, header: PackHeader, max_candidates: int) -> None:
        self._folder = folder
        self._header = header
        self._max_candidates = max_candidates
        self._dtype = rank_dtype(max_candidates)
        self._heads = [_no_queries(len(header.models), self._dtype)]
        self._tables = ("contested",) if header.gap_scales is None else ("contested", "gaps")
        self._files: dict[str, list[BinaryIO]] = {}
        self._held: list[dict[str, npt.NDArray[Any]]] = []
        self._held_bytes = 0

    @classmethod
    @contextmanager
    def open(cls, path: Path, header: PackHeader, max_candidates: int) -> Iterator[Self]:
        """Open a store for writing; it appears (or replaces an older one) when the context ends without an error.

        Args:
            path: the folder to write.
            header: everything but the ranks; its queries are those of all blocks to come, in order.
            max_candidates: no query has more candidates, which decides the width of the stored ranks.
        """
        with whole_folder(path) as folder, ExitStack() as stack:
            writer = cls(folder, header, max_candidates)
            for table in writer._tables:
                # A row of the table per model; the first one's file is the one the others are added to in the end. They
                # wait in memory or, where they are too large for that, in files of their own.
                names = [f"{table}.bin", *(f"{table}-{i}.part" for i in range(1, len(header.models)))]
                writer._files[table] = [stack.enter_context((folder / name).open("wb")) for name in names]
            yield writer
            writer._finish()

    def append(self, block: PackedBlock) -> None:
        """Add the next queries."""
        block = _checked(self._header, block)
        most = int(block.n_candidates.max(initial=0))
        if most > self._max_candidates:
            raise RanksError(f"a query has {most} candidates, the store was opened for {self._max_candidates} at most")
        tables = {table: self._stored(table, getattr(block, table)) for table in self._files}
        for table, rows in tables.items():
            self._files[table][0].write(rows[0].data)
        self._held.append({table: rows[1:] for table, rows in tables.items()})
        self._held_bytes += sum(rows.nbytes for rows in tables.values())
        if self._held_bytes > _HELD_BYTES:
            self._release()
        none = np.empty((len(self._header.models), 0), dtype=self._dtype)
        self._heads.append(PackedBlock(block.answer, block.n_candidates, block.always_ahead, block.counts, none))

    def _stored(self, table: str, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return _little_endian(rows, self._dtype if table == "contested" else np.dtype(np.int32))

    def _release(self) -> None:
        """Write what waits in memory to the files of the models."""
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
        head = join_blocks(self._heads)
        _check_complete(self._header, len(head.counts))
        offsets = _offsets(head.counts)
        layout = array_layout(self._header, int(offsets[-1]), self._dtype)
        arrays = {
            "queries": self._header.queries.columns(),
            "n_candidates": head.n_candidates,
            "answer": head.answer,
            "always_ahead": head.always_ahead,
            "offsets": offsets,
        }
        for name, array in arrays.items():
            _little_endian(array, layout[name][0]).tofile(self._folder / f"{name}.bin")
        manifest = json.dumps(describe(self._header, layout), indent=1, ensure_ascii=False, allow_nan=False)
        (self._folder / MANIFEST).write_text(manifest + "\n", encoding="utf-8")


def save_pack(packed: PackedRanks, path: Path) -> None:
    """Write packed ranks as a store, whole or not at all."""
    header = PackHeader(**{field.name: getattr(packed, field.name) for field in fields(PackHeader)})
    counts = np.diff(packed.offsets)
    with PackWriter.open(path, header, int(packed.n_candidates.max(initial=1))) as writer:
        writer.append(
            PackedBlock(packed.answer, packed.n_candidates, packed.always_ahead, counts, packed.contested, packed.gaps)
        )


def load_pack(path: Path) -> PackedRanks:
    """Memory-map a packed store read-only; a folder that is not one, or is damaged, is refused by name."""
    manifest = read_manifest(path)
    with PACK.parsing(str(path / MANIFEST)):
        scales = manifest["gap_scales"]
        header = PackHeader(
            models=tuple(manifest["models"]),
            relations=tuple(manifest["relations"]),
            queries=Queries.from_columns(_map(path, "queries", np.dtype("<i4"), (5, manifest["n_queries"]))),
            provenance=Provenance.from_json(manifest),
            gap_scales=None if scales is None else np.array(scales, dtype=np.float64),
            cardinalities=tuple(manifest["cardinalities"]),
        )
        layout = array_layout(header, manifest["n_contested"], np.dtype(manifest["rank_dtype"]))
        consistent = manifest == describe(header, layout) | {"relens": manifest["relens"]}
    if not consistent:
        raise RanksError(f"{path / MANIFEST} contradicts itself or the queries beside it. {PACK.remedy}")
    arrays = {name: _map(path, name, *layout[name]) for name in layout if name != "queries"}
    offsets = arrays["offsets"]
    if offsets[0] != 0 or offsets[-1] != manifest["n_contested"] or (np.diff(offsets) < 0).any():
        raise RanksError(f"{path / 'offsets.bin'} does not fit the manifest beside it. {PACK.remedy}")
    return replace(_packed(header, arrays), source=path)


def n_bytes(path: Path) -> int:
    """Return the size of a store on disk."""
    return sum(file.stat().st_size for file in path.iterdir())


def check_pair(valid: PackHeader | PackedRanks, test: PackHeader | PackedRanks) -> None:
    """Refuse two packs that weights cannot be carried between: other models, relations, data set or candidates."""
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


def _scales(packed: PackHeader | PackedRanks) -> npt.NDArray[np.float64]:
    return np.empty(0) if packed.gap_scales is None else packed.gap_scales


def _map(path: Path, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    file = path / f"{name}.bin"
    if not file.is_file():
        raise RanksError(f"{path} is incomplete: {file.name} is missing. {PACK.remedy}")
    found, expected = file.stat().st_size, array_bytes(dtype, shape)
    if found != expected:
        raise RanksError(f"{file} is damaged: it has {found:,} bytes, expected {expected:,}. {PACK.remedy}")
    if expected == 0:
        return np.empty(shape, dtype=dtype)
    return np.asarray(np.memmap(file, dtype=dtype, mode="r", shape=shape))


def _packed(header: PackHeader, arrays: dict[str, npt.NDArray[Any]]) -> PackedRanks:
    values: dict[str, Any] = {field.name: getattr(header, field.name) for field in fields(PackHeader)}
    return PackedRanks(**values, **arrays)  # type: ignore[arg-type]


def _no_queries(n_models: int, dtype: np.dtype[Any]) -> PackedBlock:
    none = np.empty((n_models, 0), dtype=dtype)
    return PackedBlock(none, np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64), none)


def _checked(header: PackHeader, block: PackedBlock) -> PackedBlock:
    if len(block.contested) != len(header.models):
        raise RanksError(f"a block has the ranks of {len(block.contested)} models, expected {len(header.models)}")
    if (block.gaps is None) != (header.gap_scales is None):
        raise RanksError("score gaps and gap scales go together: pack_scores takes the scales of the pack's header")
    return block


def _check_complete(header: PackHeader, n_packed: int) -> None:
    if n_packed != len(header.queries):
        raise RanksError(f"{n_packed} queries were packed, expected {len(header.queries)}")


def _offsets(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])


def _little_endian(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(array, dtype=dtype.newbyteorder("<"))
