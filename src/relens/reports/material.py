"""The data of a report: everything that a run holds, and sentences on what it lacks."""

from dataclasses import dataclass, replace
from typing import Any

from joblib import cpu_count

from relens.comparison import Comparison, compare
from relens.data.dataset import Dataset
from relens.data.stored import is_graph
from relens.ensemble.methods import METHODS
from relens.ensemble.settings import SearchSettings
from relens.ensemble.weights import EnsembleWeights
from relens.errors import DamagedError, RelensError
from relens.evaluation import Evaluation, evaluate
from relens.files import read_json, write_json
from relens.packs.pack import PackedRanks
from relens.prediction.reliability import Reliability, measure_reliability
from relens.progress import SILENT, Progress
from relens.records import TRAINED
from relens.runs import RETRAIN, Run
from relens.staleness import changed_methods, is_of_ranks, kept_comparison, of_models, stale_weights
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
        dataset: the graph of the ranks; None if the run does not have it.
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
    """Gather the data of a run, with a comparison of its ranks and weights, which the run keeps.

    If the ranks were not compared yet, compare them. If the run has other weights of a compared method, evaluate those.
    """
    valid, test = run.ranks("valid"), run.ranks("test")
    comparison = kept = kept_comparison(run)
    if comparison is None or not is_of_ranks(comparison, run):
        comparison = compare(valid, test, jobs=cpu_count(), progress=progress)
    for method, weights in changed_methods(comparison, run).items():
        progress.note(f"{method}: evaluating the weights that the run has now")
        comparison = _with_weights(comparison, method, weights, test)
    if comparison is not kept:
        write_json(run.comparison_path, comparison.to_json())
    models = comparison.spread["models"]
    valid, test = of_models(valid, models), of_models(test, models)
    trainings = {name: _training(run, name) for name in models if (run.path / "models" / name / LOG).is_file()}
    dataset, without = _dataset(run, test)
    missing = list(comparison.notes)
    if not trainings:
        missing.append("The run holds ranks but no trained models, so there are no training curves.")
    if without:
        missing.append(without)
    if stale := stale_weights(run):
        missing.append(
            f"The run has weights of earlier validation ranks ({', '.join(stale)}). The weights of this report were "
            f"fitted on the ranks that the run has now."
        )
    reliability = _reliability(run, progress, missing) if trainings else None
    return Material(run, comparison, valid, test, dataset, trainings, tuple(missing), reliability)


def _reliability(run: Run, progress: Progress, missing: list[str]) -> dict[str, Reliability] | None:
    """Return the reliability of the default weights' probabilities; if there is none, ``missing`` gets a sentence."""
    try:
        found = measure_reliability(run, run.choose_weights(), progress=progress)
    except DamagedError:
        raise
    except RelensError as error:
        missing.append(f"The reliability of the confidence is not shown: {error}")
        return None
    if found is None:
        missing.append(f"The confidence is not calibrated: `relens calibrate {run.path}` does it.")
    return found


def _with_weights(comparison: Comparison, method: str, weights: EnsembleWeights, test: PackedRanks) -> Comparison:
    """Return a comparison with other weights of one method, evaluated on test as the others were."""
    packed = of_models(test, comparison.spread["models"])

    def evaluated(old: Evaluation) -> Evaluation:
        reference = None if old.paired is None else old.paired.reference
        return evaluate(packed, weights, name=method, reference=reference, seed=old.seed, jobs=cpu_count())

    found = tuple(evaluated(old) if old.name == method else old for old in comparison.evaluations)
    return replace(comparison, evaluations=found, weights={**comparison.weights, method: weights})


def _is_searched(weights: EnsembleWeights) -> bool:
    method = METHODS.get(weights.settings.get("method", ""))
    return method is not None and method.searches


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
    """Return the graph of the ranks, or None and a sentence that says why its statistics are left out."""
    if not is_graph(run.graph_path):
        remedy = "add it with `relens upgrade RUN --data DATASET`"
        return None, f"The run has no graph, so its statistics are left out: {remedy}."
    dataset = run.graph(candidates=False)
    if dataset.fingerprint != test.provenance.fingerprint:
        return None, "The ranks belong to another graph than that of the run, so statistics of the graph are left out."
    return dataset, ""
