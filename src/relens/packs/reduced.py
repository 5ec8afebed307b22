"""Reduced ranks: packed ranks of all splits in one small file, for searches elsewhere.

A reduced file keeps the contested candidates of each query that have the best rank in any model, and a systematic
sample of the others, which represents them. Score gaps are rounded to eight significant bits. Numbers computed from
such ranks are close, not exact, and their provenance names the reduction.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, is_zipfile

import numpy as np
import numpy.typing as npt

from relens.data.queries import Queries
from relens.errors import RanksError
from relens.files import whole_file
from relens.packs.checks import check_ranges
from relens.packs.pack import PackArrays, PackedRanks, PackHeader, offsets_from
from relens.packs.thinning import FINE, ContestedView, Reduction
from relens.records import REDUCED, TIE_RULE, Provenance

_HEADER = "header"


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
        # numpy takes any other file for a pickle, and advises to trust it.
        with path.open("rb") as opened:
            if not is_zipfile(opened):
                raise BadZipFile("no .npz file")
        with np.load(path, allow_pickle=False) as file:
            header = json.loads(file[_HEADER].tobytes())
            REDUCED.check(header, str(path))
            if header["tie_rule"] != TIE_RULE:
                raise RanksError(
                    f"{path} has the tie rule {header['tie_rule']!r}, expected {TIE_RULE!r}. {REDUCED.remedy}"
                )
            reduction = Reduction(int(header["keep"]), int(header["sample"]))
            splits = {
                split: _packed(described, reduction, lambda name, split=split: file[f"{split}.{name}"])
                for split, described in header["splits"].items()
            }
        for split, packed in splits.items():
            check_ranges(packed, f"{path}, split {split},", REDUCED.remedy)
        return splits
    except RanksError:
        raise
    except OSError as error:
        raise RanksError(f"cannot read {path}: {error.strerror or error}. {REDUCED.remedy}") from error
    except (BadZipFile, EOFError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise RanksError(f"{path} is not a file of reduced ranks, or damaged ({error!r}). {REDUCED.remedy}") from error


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


def _packed(described: dict[str, Any], reduction: Reduction, array: Any) -> PackedRanks:
    """Rebuild the ranks of one split; ``array`` returns the array of a name."""
    provenance = Provenance.from_json(described["provenance"])
    among = f"{provenance.candidates}, reduced to {reduction.keep}+{reduction.sample} contested"
    multiplicity, counts = array("multiplicity"), array("counts")
    ends = offsets_from(multiplicity)
    scales = described["gap_scales"]
    header = PackHeader(
        models=tuple(described["models"]),
        relations=tuple(described["relations"]),
        queries=Queries.from_columns(array("queries")),
        provenance=replace(provenance, candidates=among),
        gap_scales=None if scales is None else np.array(scales, dtype=np.float64),
        cardinalities=tuple(described["cardinalities"]),
    )
    arrays = PackArrays(
        n_candidates=array("n_candidates"),
        answer=array("answer"),
        always_ahead=array("always_ahead"),
        offsets=ends[offsets_from(counts)],
        contested=np.repeat(_numbers(array("contested")), multiplicity, axis=1),
        gaps=None if scales is None else np.repeat(_unrounded(_numbers(array("gaps"))), multiplicity, axis=1),
    )
    return PackedRanks(header, arrays)


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
