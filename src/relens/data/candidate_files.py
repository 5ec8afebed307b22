"""Candidates on disk: an array per split beside a record that says whose queries they are for."""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from relens.data.candidates import Candidates, check_candidates
from relens.data.dataset import Dataset
from relens.data.queries import EVALUATED
from relens.errors import DatasetError
from relens.files import open_npy
from relens.records import CANDIDATES

RECORD = "candidates.json"


def array_file(split: str) -> str:
    """Return the name of the file with the negatives of a split."""
    return f"{split}_candidates.npy"


def write_candidates(dataset: Dataset, candidates: Mapping[str, Candidates], folder: Path) -> None:
    """Write the candidates of a data set's queries into a folder, the record last."""
    for split, chosen in candidates.items():
        np.save(folder / array_file(split), np.asarray(chosen.negatives, dtype="<i4"), allow_pickle=False)
    about = {
        split: {
            "shape": list(chosen.negatives.shape),
            "source": chosen.source,
            "filter_splits": list(chosen.filter_splits),
        }
        for split, chosen in candidates.items()
    }
    CANDIDATES.write(folder / RECORD, {**_identity(dataset), "splits": about})


def with_candidates(dataset: Dataset, folder: Path) -> Dataset:
    """Return the data set with the candidates that a folder holds; those of other data are refused."""
    record = CANDIDATES.read(folder / RECORD)
    for what, expected in _identity(dataset).items():
        if what != "dataset" and record.get(what) != expected:
            raise DatasetError(
                f"{folder} has candidates for {record.get('dataset')!r} ({what} {record.get(what)}), not for "
                f"{dataset.name!r} ({what} {expected}). {CANDIDATES.remedy}"
            )
    with CANDIDATES.parsing(str(folder / RECORD)):
        splits = {
            split: Candidates(open_npy(folder / array_file(split)), about["source"], tuple(about["filter_splits"]))
            for split, about in record["splits"].items()
        }
        shapes = {split: tuple(about["shape"]) for split, about in record["splits"].items()}
    for split in EVALUATED:
        if split not in splits:
            raise DatasetError(
                f"{folder} has no candidates of {split}: expected those of valid and test. {CANDIDATES.remedy}"
            )
    for split, chosen in splits.items():
        file = folder / array_file(split)
        if chosen.negatives.shape != shapes[split] or chosen.negatives.dtype != np.int32:
            found = f"{chosen.negatives.shape} of {chosen.negatives.dtype}"
            raise DatasetError(
                f"{file} has shape {found}, its record says {shapes[split]} of int32. {CANDIDATES.remedy}"
            )
        check_candidates(chosen.negatives, dataset.queries(split), len(dataset.entities), str(file))
    return replace(dataset, candidates=splits)


def _identity(dataset: Dataset) -> dict[str, Any]:
    """Return what must be the same for ids and query numbers to mean the same."""
    labels = sha256("\n".join(dataset.entities.labels).encode()).hexdigest()[:16]
    return {"dataset": dataset.name, "fingerprint": dataset.fingerprint, "entity_numbering": labels}
