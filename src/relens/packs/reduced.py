"""Reduced ranks: packed ranks of all splits in one small file, for searches elsewhere.

A reduced file keeps the contested candidates of each query that have the best rank in any model, and a systematic
sample of the others, which represents them. Score gaps are rounded to eight significant bits. Numbers computed from
such ranks are close, not exact, and their provenance names the reduction.
"""

import json
import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo, is_zipfile

import numpy as np
import numpy.typing as npt

from relens.data.queries import SPLITS, Queries
from relens.errors import InputError, RanksError
from relens.files import parse_json, parse_npy, whole_file
from relens.packs.checks import check_ranges
from relens.packs.pack import PackArrays, PackedRanks, PackHeader, offsets_from
from relens.packs.thinning import FINE, ContestedView, Reduction
from relens.records import REDUCED, REDUCED_TO, TIE_RULE, Provenance
from relens.unpacking import check_unpacked

_HEADER = "header"
_REPRESENTED = 2000
"""Most bytes of ranks for each byte of a file: few candidates of a query may represent all the others."""
_DAMAGE = (
    BadZipFile, zlib.error, struct.error, EOFError, LookupError, TypeError, ValueError, AttributeError,
    ArithmeticError, NotImplementedError, RecursionError,
)  # fmt: skip
"""Errors of damaged archives, and of a header with other values."""


def write_reduced(splits: Mapping[str, PackedRanks], path: Path, reduction: Reduction = FINE, *, jobs: int = 1) -> None:
    """Write the packed ranks of each split, reduced, as one compressed file."""
    arrays: dict[str, Any] = {}
    described = {}
    for split, packed in splits.items():
        view = ContestedView.thinned(packed, keep=reduction.keep, sample=reduction.sample, jobs=jobs)
        arrays |= {f"{split}.{name}": array for name, array in _arrays(packed, view).items()}
        described[split] = _describe(packed)
    header = REDUCED.stamp({"tie_rule": TIE_RULE, **reduction._asdict(), "splits": described})
    arrays[_HEADER] = np.frombuffer(json.dumps(header, ensure_ascii=False).encode(), dtype=np.uint8)
    with whole_file(path) as aside, aside.open("wb") as file:
        np.savez_compressed(file, **arrays)


def read_reduced(path: Path) -> dict[str, PackedRanks]:
    """Return the ranks of each split; a candidate that represents others appears once for each of them."""
    try:
        header, arrays = _unpacked(path)
        REDUCED.check(header, str(path))
        if header["tie_rule"] != TIE_RULE:
            raise RanksError(f"{path} has the tie rule {header['tie_rule']!r}, expected {TIE_RULE!r}. {REDUCED.remedy}")
        reduction = Reduction(int(header["keep"]), int(header["sample"]))
        splits = {}
        for split, described in header["splits"].items():
            if split not in SPLITS:
                raise ValueError(f"ranks of {split!r}")
            mine = {name.removeprefix(f"{split}."): array for name, array in arrays.items()}
            _check_expanded(path, mine)
            splits[split] = _packed(described, reduction, mine)
            check_ranges(splits[split], f"{path}, split {split},", REDUCED.remedy)
        return splits
    except InputError:
        raise
    except OSError as error:
        raise RanksError(f"cannot read {path}: {error.strerror or error}. {REDUCED.remedy}") from error
    except _DAMAGE as error:
        raise RanksError(f"{path} is not a file of reduced ranks, or damaged ({error!r}). {REDUCED.remedy}") from error


def _unpacked(path: Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return the header of a file, and its other arrays by name; nothing of theirs is trusted yet."""
    # numpy would take any other file for a pickle, and make room for whatever an array says it holds.
    with path.open("rb") as opened:
        if not is_zipfile(opened):
            raise BadZipFile("no .npz file")
    with ZipFile(path) as archive:
        members = archive.infolist()
        check_unpacked(path, sum(member.file_size for member in members))
        for member in members:
            if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED) or member.flag_bits & 1:
                raise BadZipFile(f"{member.filename} is compressed in another way, or locked")
        contents = {member.filename.removesuffix(".npy"): _content(archive, member) for member in members}
    arrays = {}
    for name, content in contents.items():
        form = parse_npy(content, len(content))
        numbers = np.frombuffer(content, form.dtype, math.prod(form.shape), form.offset)
        arrays[name] = numbers.reshape(form.shape, order=form.order)
    header = parse_json(arrays.pop(_HEADER).tobytes().decode())
    if not isinstance(header, dict):
        raise TypeError(f"found a header of type {type(header).__name__}")
    return header, arrays


def _content(archive: ZipFile, member: ZipInfo) -> bytes:
    """Return the content of a member, no more than the list of members says."""
    with archive.open(member) as file:
        return file.read(member.file_size)


def _check_expanded(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Raise an error unless multiplicities and counts fit the tables, and these have room for all they represent."""
    counts, multiplicity, contested = arrays["counts"], arrays["multiplicity"], arrays["contested"]
    if counts.dtype != np.int64 or multiplicity.dtype != np.int32 or counts.ndim != 1 or multiplicity.ndim != 1:
        raise ValueError(f"counts of {counts.dtype} and multiplicities of {multiplicity.dtype}")
    n_kept = len(multiplicity)
    if (counts < 0).any() or (counts > n_kept).any() or counts.sum() != n_kept or (multiplicity < 1).any():
        raise ValueError("the counts of queries do not add up to the number of multiplicities, or these are below 1")
    planes = [contested, arrays["gaps"]] if "gaps" in arrays else [contested]
    for table in planes:
        if table.dtype != np.uint8 or table.ndim != 3 or table.shape[1:] != (contested.shape[1], n_kept):
            raise ValueError(f"a table has the shape {table.shape} of {table.dtype} for {n_kept} candidates")
    per_candidate = contested.shape[1] * (len(contested) + 4 * (len(planes) - 1))
    check_unpacked(path, int(multiplicity.sum(dtype=np.int64)) * per_candidate, ratio=_REPRESENTED)


def _describe(packed: PackedRanks) -> dict[str, Any]:
    """Return everything but the arrays, as JSON values."""
    return {
        "models": packed.models,
        "relations": packed.relations,
        "cardinalities": packed.cardinalities,
        "provenance": packed.provenance.to_json(),
        "gap_scales": None if packed.gap_scales is None else packed.gap_scales.tolist(),
    }


def _arrays(packed: PackedRanks, view: ContestedView) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of one split, tables (N, K') as planes of bytes, which compress better than numbers."""
    assert view.rows is not None
    assert view.multiplicity is not None  # a thinned view has both
    arrays = {
        "queries": packed.queries.columns(),
        "n_candidates": packed.n_candidates,
        "answer": packed.answer,
        "always_ahead": packed.always_ahead,
        "counts": np.diff(view.offsets),
        "multiplicity": view.multiplicity,
        "contested": _planes(packed.contested[:, view.rows]),
    }
    if packed.gaps is not None:
        arrays["gaps"] = _planes(_rounded(packed.gaps[:, view.rows]))
    return arrays


def _packed(described: Any, reduction: Reduction, arrays: Mapping[str, npt.NDArray[Any]]) -> PackedRanks:
    """Rebuild the ranks of one split from its checked tables."""
    provenance = Provenance.from_json(described["provenance"])
    among = f"{provenance.candidates}{REDUCED_TO}{reduction.keep}+{reduction.sample} contested"
    multiplicity = arrays["multiplicity"]
    ends = offsets_from(multiplicity)
    scales = described["gap_scales"]
    if arrays["queries"].dtype != np.int32:
        raise ValueError(f"queries of {arrays['queries'].dtype}")
    header = PackHeader(
        models=tuple(described["models"]),
        relations=tuple(described["relations"]),
        queries=Queries.from_columns(arrays["queries"]),
        provenance=replace(provenance, candidates=among),
        gap_scales=None if scales is None else np.array(scales, dtype=np.float64),
        cardinalities=tuple(described["cardinalities"]),
    )
    contested = np.repeat(_numbers(arrays["contested"]), multiplicity, axis=1)
    gaps = None if scales is None else np.repeat(_unrounded(_numbers(arrays["gaps"])), multiplicity, axis=1)
    offsets = ends[offsets_from(arrays["counts"])]
    return PackedRanks(
        header,
        PackArrays(arrays["n_candidates"], arrays["answer"], arrays["always_ahead"], offsets, contested, gaps),
    )


def _planes(numbers: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return the lowest bytes of all numbers, then the next ones, and so on: (bytes, *shape)."""
    little = np.ascontiguousarray(numbers, dtype=numbers.dtype.newbyteorder("<"))
    return np.ascontiguousarray(np.moveaxis(little.view(np.uint8).reshape(*numbers.shape, -1), -1, 0))


def _numbers(planes: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    """Return the numbers again, the inverse of ``_planes``."""
    together = np.ascontiguousarray(np.moveaxis(planes, 0, -1))
    return together.view(np.dtype(f"<u{len(planes)}"))[..., 0]


def _rounded(gaps: npt.NDArray[np.int32]) -> npt.NDArray[np.uint16]:
    """Return gaps as the upper halves of float32, rounded to nearest even; signs stay, and no gap becomes zero."""
    bits = gaps.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def _unrounded(halves: npt.NDArray[np.uint16]) -> npt.NDArray[np.int32]:
    return (halves.astype(np.uint32) << 16).view(np.float32).astype(np.int32)
