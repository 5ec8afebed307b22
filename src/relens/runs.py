"""A run: the directory that holds one experiment's ranks, weights and evaluations."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

from relens.data.queries import SPLITS
from relens.errors import InputError, RanksError, WeightsError, nearest
from relens.files import LOCK, is_left_over, locked, remove_left_overs, whole_folder, write_json
from relens.packs.pack import PackedRanks
from relens.packs.store import load_pack
from relens.records import RANKED_BY, RUN

RECORD = "run.json"
COMPARISON = "comparison.json"
MADE_BY = "made_by.json"
FOLDERS = ("models", "ranks", "weights", "evaluations", "stages")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_MAKERS = (
    "Make one with `relens run DATASET`, which trains models, or with `relens ranks import DIR --run RUN` from those "
    "you have."
)


@dataclass(frozen=True)
class Run:
    """A directory: ``run.json`` and ``FOLDERS``. Whoever writes into it, but for a model's own folder, holds it.

    Attributes:
        path: the directory.
        name: how tables call the run.
        dataset: the data set its ranks were made on, as their provenance names it.
    """

    path: Path
    name: str
    dataset: str

    @classmethod
    def create(cls, path: Path | str, dataset: str, name: str | None = None) -> Self:
        """Make a new run; a directory that holds anything but what a killed relens left is refused."""
        path = Path(path)
        _check_vacant(path)
        run = cls(path, name or path.resolve().name, dataset)
        write_json(path / RECORD, run._record())
        return run

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Open an existing run."""
        path = Path(path)
        if not (path / RECORD).is_file():
            found = "has no run.json" if path.is_dir() else "is a file" if path.exists() else "does not exist"
            raise InputError(f"{path} is not a run: it {found}. {_beside(path)}{_MAKERS}")
        record = RUN.read(path / RECORD)
        with RUN.parsing(str(path / RECORD)):
            return cls(path, str(record["name"]), str(record["dataset"]))

    @contextmanager
    def held(self) -> Iterator[Self]:
        """Hold the run, in which what killed processes left is removed; other processes that ask for it are refused.

        Who only reads need not ask: files appear whole.
        """
        with locked(self.path):
            remove_left_overs(self.path, *(self.path / folder for folder in FOLDERS))
            yield self

    @classmethod
    @contextmanager
    def receive_ranks(
        cls, path: Path | str, dataset: str, split: str | None = None, *, force: bool = False
    ) -> Iterator[Path]:
        """Yield the folder to write stores into, one per split; run and ranks appear when the context ends well.

        Makes the run if there is none, and holds it if there is one. All ranks of a run are replaced, or those of one
        ``split``, but only with ``force``.
        """
        path = Path(path)
        if (path / RECORD).is_file():
            with cls.open(path).held() as run, run.replace_ranks(dataset, split, force=force) as folder:
                yield folder
            return
        _check_vacant(path)
        with whole_folder(path) as aside:
            run = cls(path, path.resolve().name, dataset)
            (aside / RECORD).write_text(json.dumps(run._record(), indent=1) + "\n", encoding="utf-8")
            yield aside / "ranks"
            _check_vacant(path)  # somebody else may have made a run there in the meantime

    @contextmanager
    def replace_ranks(self, dataset: str, split: str | None = None, *, force: bool = False) -> Iterator[Path]:
        """Do as ``receive_ranks`` in a run that the caller holds."""
        present = [name for name in (SPLITS if split is None else [split]) if self.has_ranks(name)]
        if present and not force:
            raise RanksError(f"{self.path} already has ranks of {' and '.join(present)}: give --force to replace them.")
        if split is None:
            with whole_folder(self.path / "ranks") as aside:
                yield aside
        else:
            yield self.path / "ranks"
        write_json(self.path / RECORD, replace(self, dataset=dataset)._record())

    def has_ranks(self, split: str) -> bool:
        """Say whether the run has packed ranks of a split."""
        return self.ranks_path(split).is_dir()

    def ranks(self, split: str) -> PackedRanks:
        """Load the packed ranks of a split, memory-mapped."""
        if not self.has_ranks(split):
            present = ", ".join(name for name in SPLITS if self.has_ranks(name)) or "none"
            raise RanksError(
                f"{self.path} has no ranks of {split} (present: {present}). "
                f"Add them with `relens ranks pack --run {self.path} --split {split}` or `relens ranks import`."
            )
        return load_pack(self.ranks_path(split))

    def ranks_path(self, split: str) -> Path:
        """Return where the packed ranks of a split are, or belong."""
        if split not in SPLITS:
            raise InputError(f"unknown split {split!r}; {nearest(split, SPLITS)}")
        return self.path / "ranks" / split

    def made_by(self) -> dict[str, Any] | None:
        """Return what made the ranks: ``device``, and digests of the ``models`` by name; None for imported ranks."""
        path = self.path / "ranks" / MADE_BY
        return RANKED_BY.read(path) if path.is_file() else None

    def default_weights(self, name: str | None = None) -> Path:
        """Return the file of the weights of that name; without one those of ``dsc``, or the only ones there are."""
        names = self.weights_names()
        if not names:
            raise WeightsError(f"{self.path} has no weights yet: search them with `relens search {self.path}`")
        if name is None:
            name = "dsc" if "dsc" in names else names[0]
            if name not in names or (name != "dsc" and len(names) > 1):
                raise WeightsError(f"{self.path} has several weights: choose one with --weights {{{','.join(names)}}}")
        path = self.weights_path(name)
        if name not in names:
            raise WeightsError(f"{self.path} has no weights {name!r}; {nearest(name, names)}")
        return path

    def weights_path(self, name: str) -> Path:
        """Return where the weights of that name are, or belong."""
        return self.path / "weights" / f"{_checked_name(name)}.json"

    def weights_names(self) -> list[str]:
        """Return the names of all weights of the run, sorted."""
        return sorted(path.stem for path in (self.path / "weights").glob("*.json") if is_name(path.stem))

    def model_path(self, name: str) -> Path:
        """Return where the model of that name is trained and kept."""
        return self.path / "models" / _checked_name(name)

    def model_names(self) -> list[str]:
        """Return the names of all models whose training is complete, sorted."""
        names = (path.parent.name for path in (self.path / "models").glob("*/trained"))
        return sorted(filter(is_name, names))

    def evaluation_path(self, name: str, split: str) -> Path:
        """Return where the evaluation of some weights (or of one model) on a split is, or belongs."""
        self.ranks_path(split)
        return self.path / "evaluations" / f"{_checked_name(name)}-{split}.json"

    def _record(self) -> dict[str, Any]:
        return RUN.stamp({"name": self.name, "dataset": self.dataset})


def _check_vacant(path: Path) -> None:
    if (path / RECORD).is_file():
        raise InputError(f"{path} is a run already: open it, or choose another directory.")
    if path.exists() and not (
        path.is_dir() and all(is_left_over(entry) or entry.name == LOCK for entry in path.iterdir())
    ):
        raise InputError(f"{path} exists and is not a run: choose another directory, or empty it first.")


def _beside(path: Path) -> str:
    """Return a hint at a run beside ``path`` that is called almost so; nothing where there is none."""
    folder = path.parent
    try:
        runs = [entry.name for entry in folder.iterdir() if (entry / RECORD).is_file()]
    except OSError:
        return ""
    close = get_close_matches(path.name, sorted(runs), n=1)
    return f"Did you mean {folder / close[0]}? " if close else ""


def is_name(text: str) -> bool:
    """Say whether a text can name weights, a model or an evaluation."""
    return _NAME.fullmatch(text) is not None


def _checked_name(name: str) -> str:
    if not is_name(name):
        raise WeightsError(
            f"{name!r} cannot name weights or an evaluation: expected 1 to 100 letters, digits and . _ + -, "
            f"beginning with a letter or digit. Choose another name."
        )
    return name
