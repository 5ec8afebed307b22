"""The thresholds of verdicts and the scale of relations that a run keeps for some weights.

Both are fitted on validation. What the run keeps names the weights, ranks and models that it was fitted with; it is
not used with others.
"""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from relens.data.dataset import Dataset
from relens.ensemble.weights import EnsembleWeights
from relens.files import whole_folder
from relens.prediction.relation_scale import RelationScale
from relens.prediction.thresholds import Thresholds
from relens.records import RELATION_SCALE, THRESHOLDS
from relens.runs import Run
from relens.staleness import SCALE_RECORD, made_from


def keep_thresholds(run: Run, name: str, weights: EnsembleWeights, thresholds: Thresholds, seed: int) -> None:
    """Keep the thresholds of the weights of a name, fitted with the negatives of a seed, in a run that is held."""
    origin = _origin_of_thresholds(run, weights, run.graph(candidates=False), seed)
    THRESHOLDS.write(run.thresholds_path(name), {"made_from": origin, **thresholds.to_json()})


def kept_thresholds(run: Run, name: str, weights: EnsembleWeights, dataset: Dataset, seed: int) -> Thresholds | None:
    """Return the thresholds that a run keeps; None if there are none, or of other weights, models or negatives."""
    path = run.thresholds_path(name)
    if not path.is_file():
        return None
    record = THRESHOLDS.read(path)
    with THRESHOLDS.parsing(str(path)):
        if record["made_from"] != _origin_of_thresholds(run, weights, dataset, seed):
            return None
        return Thresholds.from_json(record, len(dataset.relations))


def keep_scale(run: Run, name: str, weights: EnsembleWeights, scale: RelationScale) -> list[Path]:
    """Keep the scale of relations for the weights of a name in a run that is held; return its files."""
    folder = run.relation_scale_path(name)
    with whole_folder(folder) as aside:
        RELATION_SCALE.write(aside / SCALE_RECORD, {"made_from": made_from(run, weights), **scale.write(aside)})
        names = [file.name for file in aside.iterdir()]
    return [folder / name for name in sorted(names)]


def kept_scale(run: Run, name: str, weights: EnsembleWeights) -> RelationScale | None:
    """Return the scale of relations that a run keeps; None if there is none, or one of other weights or models."""
    folder = run.relation_scale_path(name)
    if not folder.exists():
        return None
    record = RELATION_SCALE.read(folder / SCALE_RECORD)
    with RELATION_SCALE.parsing(str(folder / SCALE_RECORD)):
        if record["made_from"] != made_from(run, weights):
            return None
        n_models = int((weights.table.max(axis=0) > 0).sum())
        return RelationScale.read(folder, record, n_models, len(weights.relations))


def _origin_of_thresholds(run: Run, weights: EnsembleWeights, dataset: Dataset, seed: int) -> Mapping[str, Any]:
    """Return what decides thresholds: weights, ranks and models; given negatives, or the seed of sampled ones."""
    given = dataset.negatives.get("valid")
    negatives = f"seed {seed}" if given is None else sha256(given.astype("<i8").tobytes()).hexdigest()[:16]
    # The seed also divides the examples to choose the statistic.
    return {**made_from(run, weights), "negatives": negatives, "seed": seed}


def lacking(run: Run, name: str, weights: EnsembleWeights, dataset: Dataset) -> list[str]:
    """Return what a run does not keep for the weights of a name, so that the first question fits it; in words."""
    found = []
    if kept_thresholds(run, name, weights, dataset, 0) is None:
        found.append("thresholds of verdicts")
    if kept_scale(run, name, weights) is None:
        found.append("scale of relations")
    return found
