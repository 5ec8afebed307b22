"""The data of a report: everything that a run holds, and sentences on what it lacks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from joblib import cpu_count

from relens.comparison import Comparison, compare
from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset
from relens.ensemble.methods import METHODS
from relens.ensemble.settings import SearchSettings
from relens.ensemble.weights import EnsembleWeights
from relens.errors import DamagedError, InputError, RelensError
from relens.evaluation import Evaluation
from relens.files import read_json, write_json
from relens.packs.pack import PackedRanks
from relens.prediction.reliability import Reliability, measure_reliability
from relens.progress import SILENT, Progress
from relens.records import COMPARISON as COMPARED
from relens.records import TRAINED
from relens.runs import COMPARISON, RETRAIN, Run
from relens.training.log import LOG, read_log


@dataclass(frozen=True)
class Training:
    """The training of a model: the records of its log, its settings and its result; both are empty until it ends."""

    records: list[dict[str, Any]]
    settings: dict[str, Any]
    result: dict[str, Any]


@dataclass(frozen=True)
class Material:
    """The data of a report.

    Attributes:
        run: the run.
        comparison: all methods and single models, evaluated on the test split.
        valid, test: packed ranks of the models that were compared.
        dataset: the graph; None if it cannot be loaded.
        trainings: trainings by model; empty for imported ranks.
        missing: sentences that say what the run lacks.
        reliability: stated probabilities beside observed shares on test, by population; None without a calibration.
    """

    run: Run
    comparison: Comparison
    valid: PackedRanks
    test: PackedRanks
    dataset: Dataset | None
    trainings: dict[str, Training]
    missing: tuple[str, ...]
    reliability: dict[str, Reliability] | None = None

    @property
    def ensemble(self) -> str:
        """The ensemble of the report: the default method, preferably with default settings, or the last compared."""
        weights, default = self.comparison.weights, SearchSettings().method
        variants = [name for name in weights if weights[name].settings.get("method") == default]
        return default if default in weights else (variants or list(weights))[-1]

    def evaluation(self, name: str) -> Evaluation:
        """Return the evaluation of a model or method."""
        return next(evaluation for evaluation in self.comparison.evaluations if evaluation.name == name)

    def group_weights(self) -> EnsembleWeights | None:
        """Return the weights of the ensemble; None if no group has weights of its own."""
        weights = self.comparison.weights[self.ensemble]
        return weights.aligned_to(self.test) if weights.own.any() else None

    def shared_weights(self) -> tuple[str, EnsembleWeights] | None:
        """Return the name and the weights of a row that searched one vector for all groups; None if there is none.

        Prefer the ensemble itself, then rows with the same input as the ensemble, then the row that was compared last.
        """
        weights = self.comparison.weights
        names = [name for name, found in weights.items() if _is_searched(found) and not found.own.any()]
        if not names:
            return None
        alike = [name for name in names if weights[name].input == weights[self.ensemble].input]
        name = self.ensemble if self.ensemble in names else (alike or names)[-1]
        return name, weights[name].aligned_to(self.test)


def gather(run: Run, *, progress: Progress = SILENT) -> Material:
    """Gather the data of a run; if its ranks were not compared yet, compare them and keep the comparison in the run."""
    valid, test = run.ranks("valid"), run.ranks("test")
    comparison = _kept_comparison(run, valid, test)
    if comparison is None:
        comparison = compare(valid, test, jobs=cpu_count(), progress=progress)
        write_json(run.path / COMPARISON, comparison.to_json())
    models = comparison.spread["models"]
    valid, test = _of_models(valid, models), _of_models(test, models)
    trainings = {name: _training(run, name) for name in models if (run.path / "models" / name / LOG).is_file()}
    dataset, without = _dataset(run, test)
    missing = list(comparison.notes)
    if not trainings:
        missing.append("The run holds ranks but no trained models, so there are no training curves.")
    if without:
        missing.append(without)
    reliability = _reliability(run, progress, missing) if trainings else None
    return Material(run, comparison, valid, test, dataset, trainings, tuple(missing), reliability)


def _reliability(run: Run, progress: Progress, missing: list[str]) -> dict[str, Reliability] | None:
    """Return the reliability of the default weights' probabilities; if there is none, ``missing`` gets a sentence."""
    try:
        found = measure_reliability(run, run.choose_weights(), progress=progress)
    except RelensError as error:
        missing.append(f"The reliability of the confidence is not shown: {error}")
        return None
    if found is None:
        missing.append(f"The confidence is not calibrated: `relens calibrate {run.path}` does it.")
    return found


def _is_searched(weights: EnsembleWeights) -> bool:
    method = METHODS.get(weights.settings.get("method", ""))
    return method is not None and method.searches


def _kept_comparison(run: Run, valid: PackedRanks, test: PackedRanks) -> Comparison | None:
    """Return the comparison kept in the run; None if it is missing, of another version, or of other ranks."""
    path = run.path / COMPARISON
    if not path.is_file():
        return None
    record = read_json(path, "comparison", COMPARED.remedy)
    try:
        comparison = Comparison.from_json(record, str(path))
    except (InputError, KeyError, TypeError, AttributeError):
        return None  # written by another version: compare again
    models = comparison.spread["models"]
    same_data = all(evaluation.provenance == test.provenance for evaluation in comparison.evaluations)
    if not (comparison.weights and same_data and set(models) <= set(valid.models) & set(test.models)):
        return None
    packs = {"valid": _of_models(valid, models), "test": _of_models(test, models)}
    same_ranks = all(packed.is_named(str(comparison.ranks.get(split))) for split, packed in packs.items())
    return comparison if same_ranks else None


def _of_models(packed: PackedRanks, models: Sequence[str]) -> PackedRanks:
    """Return the ranks of these models in this order; ``packed`` itself if it has exactly these."""
    return packed if packed.models == tuple(models) else packed.select_models(models)


def _training(run: Run, name: str) -> Training:
    folder = run.model_path(name)
    trained = folder / "trained" / "model.json"
    record = read_json(trained, "trained model", TRAINED.remedy) if trained.is_file() else {}
    records, result = read_log(folder / LOG), dict(record.get("result", {}))
    complete = result and not (folder / RETRAIN).exists()
    if complete and (not records or records[-1].get("step") != result.get("step")):
        raise DamagedError(
            f"{folder / LOG} does not end with step {result.get('step')}, the last one of the training. Remove the "
            f"file: reports go on without it."
        )
    return Training(records, dict(record.get("settings", {})), result)


def _dataset(run: Run, test: PackedRanks) -> tuple[Dataset | None, str]:
    """Return the graph of the ranks if it can be loaded offline, or None and a sentence that says so."""
    for source in _sources(run):
        try:
            dataset = load_dataset(source, offline=True)
        except RelensError:
            continue
        if dataset.fingerprint == test.provenance.fingerprint:
            return dataset, ""
    return None, f"The data set {run.dataset!r} could not be loaded, so its statistics are left out."


def _sources(run: Run) -> list[str]:
    """Return the names and paths to try for the data set: those that the models were trained on, then its name."""
    records = [run.model_path(name) / "trained" / "model.json" for name in run.model_names]
    sources = [
        str(read_json(path, "trained model", TRAINED.remedy).get("source", "")) for path in records if path.is_file()
    ]
    return [source for source in dict.fromkeys([*sources, run.dataset]) if source]
