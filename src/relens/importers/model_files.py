"""Files of named models in a folder: ``{model}_{valid,test}_{ranks,scores}.npy``."""

import re
from collections.abc import Sequence
from pathlib import Path

from relens.data.queries import EVALUATED
from relens.errors import RanksError, nearest
from relens.importers.dense import Kind


def find_models(folder: Path, kind: Kind, chosen: Sequence[str] = ()) -> dict[str, dict[str, Path]]:
    """Return the file of each model and split, ``{model: {split: path}}``.

    Models are in alphabetical order, or in the order of ``chosen``. Every model must have a file for both splits.
    """
    if not folder.is_dir():
        raise RanksError(f"{folder} is not a folder; expected one with files such as transe_valid_{kind}.npy")
    pattern = re.compile(rf"(.+)_({'|'.join(EVALUATED)})_{kind}\.npy")
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        if match := pattern.fullmatch(path.name):
            found.setdefault(match[1], {})[match[2]] = path
    if not found:
        raise RanksError(f"{folder} has no files named MODEL_valid_{kind}.npy and MODEL_test_{kind}.npy")
    names = check_models(chosen or list(found))
    for name in names:
        if name not in found:
            raise RanksError(f"{folder} has no model {name!r}; {nearest(name, found)}")
        missing = [split for split in EVALUATED if split not in found[name]]
        if missing:
            raise RanksError(
                f"model {name!r} has no {name}_{missing[0]}_{kind}.npy in {folder}: expected a file for each of "
                f"{' and '.join(EVALUATED)}. Add it, or choose the other models with `models=…`."
            )
    return {name: found[name] for name in names}


def check_models(names: Sequence[str]) -> Sequence[str]:
    """Raise an error for names that differ only in case, and for names that tables cannot show."""
    seen: dict[str, str] = {}
    for name in names:
        if not name.strip() or not name.isprintable():
            raise RanksError(f"{name!r} cannot name a model: expected printable text. Rename it.")
        if name.casefold() in seen:
            raise RanksError(f"two models are called {seen[name.casefold()]!r} and {name!r}: rename or leave out one.")
        seen[name.casefold()] = name
    return names
