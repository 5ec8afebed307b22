"""Open a run for predictions: its device, its graph, and the checks that models, ranks and weights belong together."""

from relens.data.dataset import Dataset
from relens.data.queries import EVALUATED
from relens.ensemble.weights import EnsembleWeights
from relens.errors import InputError, WeightsError
from relens.runs import Run


def ranked_device(run: Run) -> str:
    """Return the device that a run was ranked on, ``cpu`` or ``cuda``; the CPU if that is unknown or not here."""
    import torch

    ranked = (run.made_by() or {}).get("device")
    return "cuda" if ranked == "cuda" and torch.cuda.is_available() else "cpu"


def check_models(run: Run) -> None:
    """Raise an error if a run has ranks but no model."""
    if not run.model_names and any(map(run.has_ranks, EVALUATED)):
        raise InputError(
            f"{run.path} holds ranks only, and predictions need the models that made them: train some with "
            f"`relens run DATASET`. Ranks alone are enough for `relens evaluate {run.path}` and "
            f"`relens report {run.path}`."
        )


def graph_of(run: Run, weights: EnsembleWeights) -> Dataset:
    """Load the graph that the models of the weights were trained on. Their parameters stay on the disk."""
    needed = [model for model, used in zip(weights.models, weights.table.max(axis=0), strict=True) if used]
    missing = [model for model in needed if model not in run.model_names]
    if missing:
        raise InputError(
            f"{run.path} has weights of {', '.join(needed)}, but no trained model {missing[0]!r}: predictions need the "
            f"models themselves, not their ranks alone. Train it with `relens train`, or choose other weights."
        )
    trained = {model: run.model(model) for model in needed}
    ranked = (run.made_by() or {}).get("models", {})
    for model, found in trained.items():
        if ranked.get(model, found.digest) != found.digest:
            raise InputError(f"{run.path}: {model} was trained again after the run was ranked: {_again(run)}")
    dataset = run.graph(candidates=False)
    if dataset.fingerprint != weights.dataset[1]:
        raise WeightsError(
            f"the weights were fitted on {weights.dataset[0]!r} ({weights.dataset[1]}), the graph in {run.path} is "
            f"another one ({dataset.fingerprint}): train, rank and search again"
        )
    return dataset


def check_ranks(run: Run, weights: EnsembleWeights) -> None:
    """Raise an error if the weights were fitted on other validation ranks than the run has now."""
    if not (weights.fitted_on and run.has_ranks("valid")):
        return
    valid = run.ranks("valid")
    if weights.models != valid.models and set(weights.models) <= set(valid.models):
        valid = valid.select_models(weights.models)
    if not valid.is_named(weights.fitted_on):
        raise WeightsError(
            f"{run.path}: the weights were fitted on other validation ranks ({weights.fitted_on}) than the run has now "
            f"({valid.digest}): {_again(run)}"
        )


def _again(run: Run) -> str:
    return f"rank and search again, e.g. `relens rank {run.path} --force; relens search {run.path}`"
