"""A run: the folder that holds the models, ranks, weights and evaluations of one experiment."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Self

from relens.comparison import Comparison
from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset
from relens.data.queries import SPLITS
from relens.data.stored import copy_graph, graph_facts, holds, is_graph, keeps_candidates, read_graph, write_graph
from relens.ensemble.settings import SearchSettings
from relens.ensemble.weights import EnsembleWeights
from relens.errors import (
    DamagedError,
    DatasetError,
    InputError,
    MissingExtraError,
    RanksError,
    RelensError,
    WeightsError,
    nearest,
)
from relens.evaluation import Evaluation
from relens.files import LOCK, is_left_over, json_text, locked, read_json, remove_left_overs, whole_folder, write_json
from relens.importers.members import MEMBER_FILE, Member
from relens.packs.pack import PackedRanks
from relens.packs.store import load_pack
from relens.records import COMPARISON as COMPARED
from relens.records import EVALUATION, RANKED_BY, RUN, mapping
from relens.records import PLAN as PLANNED
from relens.staleness import stale_results

if TYPE_CHECKING:
    from relens.training.trained import TrainedModel

RECORD = "run.json"
COMPARISON = "comparison.json"
MADE_BY = "made_by.json"
PLAN = "plan.json"
"""The plan for a time budget."""
GRAPH = "graph"
RETRAIN = ".again"
"""An empty file in the folder of a model that must be trained again; training removes it at the end."""
FOLDERS = (
    "models", "ranks", "weights", "calibrations", "thresholds", "relation_scales", "reliability", "evaluations",
    "stages",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_MAKERS = (
    "Make one with `relens run DATASET`, which trains models, or with `relens ranks import DIR --run RUN` from models "
    "of yours."
)
LOGS = (
    ".lock",
    "models/*/.lock",
    "models/*/log.jsonl",
    "weights/*.log.jsonl",
    "curves.json",
    "report/log.html",
    "report/figures/curves.svg",
    "report/figures/curves.png",
)
"""The files that differ in equal runs: locks hold the id of a process, all others hold times."""


@dataclass(frozen=True)
class Run:
    """A folder with ``run.json`` and ``FOLDERS``. Hold it while you write to it, except to the folder of one model.

    Attributes:
        path: the folder.
        name: the name of the run in tables.
        dataset: the name of the data set of its ranks.
    """

    path: Path
    name: str
    dataset: str

    @classmethod
    def create(cls, path: Path | str, dataset: str, name: str | None = None) -> Self:
        """Make a new run. The folder must be missing or empty, except for leftovers of a killed relens."""
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
            raise InputError(f"{path} is not a run: it {found}. {_similar_run(path)}{_MAKERS}")
        record = read_json(path / RECORD, "run", RUN.remedy)
        if record.get("kind") == RUN.name and record.get("format") in range(1, RUN.format):
            raise InputError(
                f"{path} is a run of format {record['format']}, this relens reads format {RUN.format}: convert it with "
                f"`relens upgrade {path}`"
            )
        RUN.check(record, str(path / RECORD))
        with RUN.parsing(str(path / RECORD)):
            return cls(path, str(record["name"]), str(record["dataset"]))

    @classmethod
    def open_or_create(cls, path: Path | str, dataset: str) -> Self:
        """Open the run at a path, or make it; a run of another data set raises an error.

        If ``run.json`` is damaged, or missing beside trained models, it is written again.
        """
        path = Path(path)
        try:
            if not any((path / "models").glob("*/trained")) and not (path / RECORD).is_file():
                return cls.create(path, dataset)
            read_json(path / RECORD, "run")
        except DamagedError:
            write_json(path / RECORD, cls(path, path.resolve().name, dataset)._record())
        run = cls.open(path)
        if run.dataset != dataset:
            raise InputError(f"{path} is a run on {run.dataset!r}, not on {dataset!r}: choose another with `run=PATH`")
        return run

    @contextmanager
    def held(self) -> Iterator[Self]:
        """Lock the run and remove leftovers of killed processes; raise an error if another process holds it.

        Readers need no lock: files appear whole.
        """
        with locked(self.path):
            remove_left_overs(self.path, *(self.path / folder for folder in FOLDERS))
            yield self

    @classmethod
    @contextmanager
    def receive_ranks(
        cls, path: Path | str, dataset: Dataset | str, split: str | None = None, *, force: bool = False
    ) -> Iterator[Path]:
        """Yield a folder to write one store per split into; run and ranks appear when the context succeeds.

        A missing run is made, an existing one is held. All ranks of the run are replaced, or those of one ``split``;
        existing ranks need ``force``.

        Args:
            path: the run.
            dataset: the data set of the ranks, whose graph the run keeps; or its name, if it is not at hand.
            split: the split of the ranks; None for all.
            force: replace existing ranks.
        """
        path = Path(path)
        if (path / RECORD).is_file():
            with cls.open(path).held() as run, run.replace_ranks(dataset, split, force=force) as folder:
                yield folder
            return
        _check_vacant(path)
        with whole_folder(path) as aside:
            run = cls(path, path.resolve().name, _name_of(dataset))
            (aside / RECORD).write_text(json_text(run._record()), encoding="utf-8")
            if isinstance(dataset, Dataset):
                write_graph(dataset, aside / GRAPH)
            yield aside / "ranks"
            _check_vacant(path)  # another process may have made a run there in the meantime

    @contextmanager
    def replace_ranks(self, dataset: Dataset | str, split: str | None = None, *, force: bool = False) -> Iterator[Path]:
        """Replace ranks as ``receive_ranks`` does, in a run that the caller holds."""
        present = [name for name in (SPLITS if split is None else [split]) if self.has_ranks(name)]
        if present and not force:
            raise RanksError(
                f"{self.path} already has ranks of {' and '.join(present)}: pass `force=True` to replace them."
            )
        if isinstance(dataset, Dataset):
            self._check_graph(dataset.name, dataset.fingerprint)
        if split is None:
            with whole_folder(self.path / "ranks") as aside:
                yield aside
        else:
            yield self.path / "ranks"
        if isinstance(dataset, Dataset):
            self.keep_graph(dataset)
        write_json(self.path / RECORD, replace(self, dataset=_name_of(dataset))._record())

    def graph(self, *, candidates: bool = True) -> Dataset:
        """Load the graph of the run, which does not need the folder that it came from.

        Args:
            candidates: load the data set's own candidates, too, which ranking and validation need. Candidates that are
                too large for a copy are read from the data set of that name; if it is not here, raise an error.
        """
        if not is_graph(self.graph_path):
            raise DatasetError(
                f"{self.path} has no graph: an older relens made the run, or its ranks were imported without a data "
                f"set. Add the graph with `relens upgrade {self.path}`, or with `relens upgrade {self.path} --data "
                f"DATASET` if the data set has moved"
            )
        if candidates and not keeps_candidates(self.graph_path):
            with suppress(RelensError):
                dataset = load_dataset(self.dataset, offline=True)
                if holds(self.graph_path, dataset):
                    return dataset
        return read_graph(self.graph_path, candidates=candidates)

    def keep_graph(self, dataset: Dataset) -> None:
        """Write the graph of the run, unless it is there. If models were trained on another one, raise an error."""
        if not holds(self.graph_path, dataset):
            self._check_graph(dataset.name, dataset.fingerprint)
            write_graph(dataset, self.graph_path)

    def copy_graph(self, other: "Run") -> None:
        """Copy the graph of another run, unless it is there. If models were trained on another one, raise an error."""
        facts = graph_facts(other.graph_path)
        if not is_graph(self.graph_path) or graph_facts(self.graph_path) != facts:
            self._check_graph(facts["dataset"], facts["fingerprint"])
            copy_graph(other.graph_path, self.graph_path)

    def _check_graph(self, dataset: str, fingerprint: str) -> None:
        """Raise an error if the run has models of another graph that are not going to be trained again."""
        with suppress(DamagedError):  # models say what they were trained on, too
            if not is_graph(self.graph_path) or graph_facts(self.graph_path).get("fingerprint") == fingerprint:
                return
        for name, model in self.models.items():
            if model.fingerprint != fingerprint and not (self.model_path(name) / RETRAIN).exists():
                raise InputError(
                    f"{self.model_path(name)} was trained on another graph (fingerprint {model.fingerprint}) than "
                    f"{dataset} as it is now ({fingerprint}): choose another run, or remove the folder"
                )

    @property
    def graph_path(self) -> Path:
        """The folder of the graph, whether it exists or not."""
        return self.path / GRAPH

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
        """Return the folder of the packed ranks of a split, whether it exists or not."""
        if split not in SPLITS:
            raise InputError(f"unknown split {split!r}; {nearest(split, SPLITS)}")
        return self.path / "ranks" / split

    def made_by(self) -> dict[str, Any] | None:
        """Return the ``device`` and the digests of the ``models`` that made the ranks; None for imported ranks."""
        path = self.path / "ranks" / MADE_BY
        if not path.is_file():
            return None
        record = RANKED_BY.read(path)
        with RANKED_BY.parsing(str(path)):
            return record | {key: mapping(record[key]) for key in ("models", "imported") if key in record}

    @property
    def weights_names(self) -> list[str]:
        """The names of all weights of the run, sorted."""
        return sorted(path.stem for path in (self.path / "weights").glob("*.json") if is_name(path.stem))

    def choose_weights(self, name: str | None = None) -> str:
        """Return ``name`` if the run has such weights; for None the default method's, or the only ones there are."""
        names = self.weights_names
        if not names:
            raise WeightsError(f"{self.path} has no weights yet: search them with `relens search {self.path}`")
        if name is None:
            default = SearchSettings().default_name()
            if default not in names and len(names) > 1:
                raise WeightsError(f"{self.path} has several weights: choose one with `weights={{{','.join(names)}}}`")
            return default if default in names else names[0]
        _check_name(name)
        if name not in names:
            raise WeightsError(f"{self.path} has no weights {name!r}; {nearest(name, names)}")
        return name

    def weights(self, name: str | None = None) -> EnsembleWeights:
        """Load weights of the run by name; without a name those of the default method, or the only ones."""
        return EnsembleWeights.load(self.weights_path(self.choose_weights(name)))

    def keep_weights(self, name: str, weights: EnsembleWeights) -> Path:
        """Write weights of the run, and the log of their search beside them; return the file of the weights."""
        path = self.weights_path(name)
        weights.save(path)
        weights.save_log(path.with_suffix(".log.jsonl"))
        return path

    def weights_path(self, name: str) -> Path:
        """Return the file of the weights of a name, whether it exists or not."""
        return self.path / "weights" / f"{_check_name(name)}.json"

    def calibration_path(self, name: str) -> Path:
        """Return the file that keeps the probabilities' calibration for the weights of a name, if it exists or not."""
        return self.path / "calibrations" / f"{_check_name(name)}.json"

    def thresholds_path(self, name: str) -> Path:
        """Return the file that keeps the thresholds of verdicts by the weights of a name, if it exists or not."""
        return self.path / "thresholds" / f"{_check_name(name)}.json"

    def relation_scale_path(self, name: str) -> Path:
        """Return the folder that keeps the scale of relations for the weights of a name, if it exists or not."""
        return self.path / "relation_scales" / _check_name(name)

    def reliability_path(self, name: str) -> Path:
        """Return the file that keeps the reliability of these probabilities on test, whether it exists or not."""
        return self.path / "reliability" / f"{_check_name(name)}.json"

    @property
    def model_names(self) -> list[str]:
        """The names of all completely trained models, sorted."""
        names = (path.parent.name for path in (self.path / "models").glob("*/trained"))
        return sorted(filter(is_name, names))

    @property
    def models(self) -> dict[str, "TrainedModel"]:
        """All completely trained models by name, sorted. Parameters stay on the disk until ``TrainedModel.load``."""
        return {name: self.model(name) for name in self.model_names}

    def model(self, name: str) -> "TrainedModel":
        """Open a trained model by name. Its parameters stay on the disk until ``TrainedModel.load``."""
        try:
            from relens.training.trained import TrainedModel
        except ImportError as error:
            raise MissingExtraError("opening a trained model", "train") from error
        folder = self.model_path(name) / "trained"
        if not folder.is_dir():
            raise InputError(f"{self.path} has no trained model {name!r}; {nearest(name, self.model_names)}")
        return TrainedModel.open(folder)

    @property
    def member_names(self) -> list[str]:
        """The names of all members, sorted: completely trained models, and models of others that can be loaded."""
        others = (path.parent.name for path in (self.path / "models").glob(f"*/{MEMBER_FILE}"))
        return sorted({*self.model_names, *filter(is_name, others)})

    def member(self, name: str) -> "TrainedModel | Member":
        """Open a member by name: a trained model, or one of others. Nothing is loaded before its ``load``."""
        if name in self.model_names:
            return self.model(name)
        folder = self.model_path(name)
        if not (folder / MEMBER_FILE).is_file():
            raise InputError(f"{self.path} has no member {name!r}; {nearest(name, self.member_names)}")
        return Member.open(folder)

    def model_path(self, name: str) -> Path:
        """Return the folder in which the model of a name is trained and kept."""
        return self.path / "models" / _check_name(name)

    def evaluation(self, name: str, split: str = "test", candidates: str | None = None) -> Evaluation:
        """Load the evaluation of some weights, or of one model, on a split; per-query ranks are not kept.

        ``candidates`` are those that were chosen for the evaluation, as its provenance names them.
        """
        path = self.evaluation_path(name, split, candidates)
        if not path.is_file():
            raise InputError(
                f"{self.path} has no evaluation of {name!r} on {split}: make it with "
                f"`relens evaluate {self.path} --weights {name} --split {split}`, or with --model for one model"
            )
        return Evaluation.from_json(read_json(path, "evaluation", EVALUATION.remedy), str(path))

    def evaluation_path(self, name: str, split: str, candidates: str | None = None) -> Path:
        """Return the file of the evaluation of some weights, or of one model, on a split.

        ``candidates`` are those of ``relens evaluate --candidates``, as their provenance names them. Such an evaluation
        has a file of its own.
        """
        self.ranks_path(split)
        among = "" if candidates is None else "-" + re.sub(r"[^A-Za-z0-9._+-]+", "-", candidates)
        return self.path / "evaluations" / f"{_check_name(name)}-{split}{among}.json"

    def comparison(self) -> Comparison:
        """Load the comparison of all methods and models on test, which ``relens.run`` or ``relens.report`` made.

        If the weights or ranks of the run have changed since, the notes of the comparison say so.
        """
        if not self.comparison_path.is_file():
            raise InputError(
                f"{self.path} has no comparison yet: make it with `relens report {self.path}`, or with `relens run`"
            )
        record = read_json(self.comparison_path, "comparison", COMPARED.remedy)
        comparison = Comparison.from_json(record, str(self.comparison_path))
        return replace(comparison, notes=(*comparison.notes, *stale_results(self)))

    @property
    def comparison_path(self) -> Path:
        """The file of the comparison, whether it exists or not."""
        return self.path / COMPARISON

    def unspent(self) -> str:
        """Return what twice the time would have bought, if the run has a plan for a time budget."""
        path = self.path / PLAN
        return str(PLANNED.read(path).get("more", "")) if path.is_file() else ""

    @property
    def report_path(self) -> Path:
        """The folder of the report, whether it exists or not."""
        return self.path / "report"

    def _record(self) -> dict[str, Any]:
        return RUN.stamp({"name": self.name, "dataset": self.dataset})


def open_run(path: Run | Path | str) -> Run:
    """Open an existing run by its path; a ``Run`` is returned as it is.

    For example::

        run = relens.open_run("runs/patterns")
        print(run.model_names, run.weights_names, run.comparison().best_single)
        weights = run.weights("dsc")
    """
    return path if isinstance(path, Run) else Run.open(path)


def _check_vacant(path: Path) -> None:
    if (path / RECORD).is_file():
        raise InputError(f"{path} is a run already: open it, or choose another directory.")
    if path.exists() and not (
        path.is_dir() and all(is_left_over(entry) or entry.name == LOCK for entry in path.iterdir())
    ):
        raise InputError(f"{path} exists and is not a run: choose another directory, or empty it first.")


def _name_of(dataset: Dataset | str) -> str:
    return dataset if isinstance(dataset, str) else dataset.name


def _similar_run(path: Path) -> str:
    """Return a hint at a run beside ``path`` with a similar name; empty if there is none."""
    folder = path.parent
    try:
        runs = [entry.name for entry in folder.iterdir() if (entry / RECORD).is_file()]
    except OSError:
        return ""
    close = get_close_matches(path.name, sorted(runs), n=1)
    return f"Did you mean {folder / close[0]}? " if close else ""


def is_log(path: PurePath) -> bool:
    """Say whether a file, by its path in its run, may differ in equal runs."""
    return any(len(path.parts) == len(PurePath(log).parts) and path.match(log) for log in LOGS)


def is_name(text: str) -> bool:
    """Say whether a text can be the name of weights, a model or an evaluation."""
    return _NAME.fullmatch(text) is not None


def _check_name(name: str) -> str:
    """Return the name, or raise an error if it cannot be the name of a file."""
    if not is_name(name):
        raise WeightsError(
            f"{name!r} cannot name weights or an evaluation: expected 1 to 100 letters, digits and . _ + -, "
            f"beginning with a letter or digit. Choose another name."
        )
    return name
