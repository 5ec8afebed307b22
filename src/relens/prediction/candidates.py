"""The option ``candidates=…``: which entities compete with an answer, in place of all entities."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from relens.data.candidates import RECORD
from relens.data.dataset import Dataset
from relens.data.restriction import Restriction
from relens.data.tsv import read_lines
from relens.errors import InputError, RelensError, counted, nearest
from relens.prediction.names import AmbiguousNameError, Names, NoSuchNameError

CandidatesOption = str | Path | Sequence[str]
"""``observed``, ``types``, the path of a list or of a folder with sampled negatives, or labels of entities.

A text is a word or a path, a ``Path`` is always a path: so is ``./observed``.
"""
KEYWORDS = {"observed": Restriction.observed, "types": Restriction.of_types}
LISTED = 40
"""Wrong names that an error lists."""


def with_candidates(dataset: Dataset, candidates: CandidatesOption | None) -> Dataset:
    """Return the data set with the candidates that an option asks for; None leaves it as it is."""
    if candidates is None:
        return dataset
    folder = _path(candidates)
    if folder is not None and folder.is_dir():
        return dataset.with_candidates(folder)
    return dataset.restricted(restriction_for(dataset, candidates))


def restriction_for(dataset: Dataset, candidates: CandidatesOption) -> Restriction:
    """Return the restriction that an option asks for. Sampled negatives are none: they are those of given queries."""
    if isinstance(candidates, str) and candidates in KEYWORDS:
        return KEYWORDS[candidates](dataset)
    path = _path(candidates)
    if path is None:
        assert not isinstance(candidates, str | Path)  # they have a path
        names = [(f"`candidates=…`, number {number}", name) for number, name in enumerate(candidates, start=1)]
        return _listed(dataset, names, "`candidates=…`", f"of {counted(len(names), 'entity', 'entities')}")
    if path.is_dir():
        held = "sampled negatives" if (path / RECORD).is_file() else "no list"
        raise InputError(
            f"{path} is a folder with {held}: the candidates of a question are {' or '.join(KEYWORDS)}, or a file with "
            f"a line for each entity. Sampled negatives belong to the queries of valid and test: use them with "
            f"`relens rank` and `relens evaluate`."
        )
    if not path.exists():
        raise _nothing_there(path if isinstance(candidates, Path) else str(candidates))
    return _listed(dataset, list(_lines(path)), str(path), path.name)


def _path(candidates: CandidatesOption) -> Path | None:
    """Return the path that an option names; None for a keyword and for names of entities."""
    if isinstance(candidates, Path):
        return candidates
    return Path(candidates) if isinstance(candidates, str) and candidates not in KEYWORDS else None


def _nothing_there(candidates: str | Path) -> InputError:
    """Return the error about an option that is neither a keyword nor an existing path."""
    expected = f"{', '.join(KEYWORDS)}, a file with a line for each entity, or a folder with sampled negatives"
    if isinstance(candidates, Path) or os.sep in candidates or Path(candidates).suffix:
        return InputError(f"`candidates={candidates}`: there is no such file or folder; expected {expected}")
    similar = nearest(candidates, KEYWORDS)
    return InputError(
        f"`candidates={candidates}` is neither a word for candidates nor a file; {similar} (expected {expected})"
    )


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the names in a file, each with its place."""
    try:
        lines = read_lines(path)
    except OSError as error:
        raise RelensError(f"{path} cannot be read: {error.strerror or error}") from error
    return ((f"{path}, line {number}", line) for number, line in enumerate(lines, start=1) if line.strip())


def _listed(dataset: Dataset, names: list[tuple[str, str]], source: str, title: str) -> Restriction:
    """Return the restriction to the entities with some names, given with their places."""
    if not names:
        raise InputError(f"{source} leaves nobody: it names no entity. Expected a label or readable name per line.")
    known = Names(dataset)
    ids = [known.find("entity", name) for _, name in names]
    wrong = [place_and_name for place_and_name, found in zip(names, ids, strict=True) if found is None]
    if wrong:
        listed = [f"{place}: {_fault(known, name)}" for place, name in wrong[:LISTED]]
        more = [f"… and {len(wrong) - LISTED:,} more"] if len(wrong) > LISTED else []
        count = f"{source}: {len(wrong):,} of {counted(len(names), 'name')} cannot be used:"
        raise InputError("\n".join([count, *listed, *more, "Correct the names, or remove them."]))
    return Restriction.listed(dataset, np.array(ids, dtype=np.int32), title)


def _fault(known: Names, name: str) -> str:
    """Return why a name means no entity, with similar names."""
    try:
        known.entity(name)
    except (NoSuchNameError, AmbiguousNameError) as error:
        return str(error)
    raise AssertionError(f"{name!r} means an entity")
