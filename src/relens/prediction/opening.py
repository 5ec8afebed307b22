"""Open a run for predictions: its device, its graph, and the checks that members, ranks and weights belong together."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict, Unpack

from relens.data.dataset import Dataset
from relens.data.queries import EVALUATED
from relens.devices import pick_device
from relens.ensemble.weights import EnsembleWeights
from relens.errors import InputError, WeightsError
from relens.importers.members import Member, check_trust
from relens.prediction.candidates import CandidatesOption
from relens.prediction.confidence import Confidence
from relens.prediction.facts import Facts, GivenFacts
from relens.prediction.members import LoadedModels
from relens.prediction.voting import Voting
from relens.runs import Run

if TYPE_CHECKING:
    import torch

    from relens.training.trained import TrainedModel


class Loading(TypedDict, total=False):
    """How the models of a run are loaded; ``Ensemble.open`` explains the options."""

    weights: str | None
    device: "torch.device | str"
    trust: bool


class WithFacts(Loading, total=False):
    """How a run is opened, with given facts."""

    facts: Facts | None


class Opening(WithFacts, total=False):
    """How a run is opened for questions."""

    candidates: CandidatesOption | None


def open_voting(run: Run, *, calibrated: bool = True, **options: Unpack[WithFacts]) -> tuple[Voting, str]:
    """Open the models of a run with its weights; return them with the name of the weights.

    Without ``calibrated``, leave out the confidence that the run keeps, which may be damaged.
    """
    device = options.get("device", "auto")
    chosen = None if device == "auto" else pick_device(device)
    check_models(run)
    name = run.choose_weights(options.get("weights"))
    weights, trust = run.weights(name), options.get("trust", False)
    check_trusted(run, needed_members(run, weights), trust=trust)
    dataset = graph_of(run, weights)
    check_ranks(run, weights)
    facts = options.get("facts")
    given = None if facts is None else GivenFacts.read(facts, dataset)
    models = LoadedModels(run, dataset, chosen or ranked_device(run), given, trust=trust)
    voting = Voting(weights, models, Confidence.load(run, name, weights) if calibrated else None)
    if given is not None and not voting.propagating:
        raise InputError(f"`facts=…` adds edges that no training has seen, {no_propagation(voting)}")
    return voting, name


def no_propagation(voting: Voting) -> str:
    """Say that no model propagates, and what to do."""
    from relens.models import MODELS

    names = [name for name, entry in MODELS.items() if entry.propagates]
    run = voting.models.run.path
    return (
        f"but no model of {run} with a weight ({', '.join(voting.weights.models)}) sends anything along the edges. "
        f"Train one that does ({', '.join(names)}), then rank and search again: `relens train {voting.dataset.name} "
        f"--model {names[0]} --run {run}; relens rank {run} --force; relens search {run}`"
    )


def ranked_device(run: Run) -> str:
    """Return the device that a run was ranked on, ``cpu`` or ``cuda``; the CPU if that is unknown or not here."""
    if (run.made_by() or {}).get("device") != "cuda":
        return "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def check_models(run: Run) -> None:
    """Raise an error if a run has ranks but no model."""
    if not run.member_names and any(map(run.has_ranks, EVALUATED)):
        raise InputError(
            f"{run.path} holds ranks only, and predictions need the models that made them{_imported(run)}: train some "
            f"with `relens run DATASET`, or add models of yours with `relens ranks add {run.path}`. Ranks alone are "
            f"enough for `relens evaluate {run.path}` and `relens report {run.path}`."
        )


def needed_members(run: Run, weights: EnsembleWeights) -> "dict[str, TrainedModel | Member]":
    """Open the members with a weight in some group, by name; nothing is loaded.

    A member that is missing, or is another one than the run was ranked with, raises an error.
    """
    needed = [model for model, used in zip(weights.models, weights.table.max(axis=0), strict=True) if used]
    missing = [model for model in needed if model not in run.member_names]
    if missing:
        raise InputError(
            f"{run.path} has weights of {', '.join(needed)}, but no model {missing[0]!r}: predictions need the models "
            f"themselves, not their ranks alone{_imported(run, missing[0])}. Train it with `relens train`, copy "
            f"the whole run if a part of it is missing, or choose other weights."
        )
    members = {model: run.member(model) for model in needed}
    ranked = (run.made_by() or {}).get("models", {})
    for model, found in members.items():
        if ranked.get(model, found.digest) != found.digest:
            how = "is another one since" if isinstance(found, Member) else "was trained again after"
            raise InputError(f"{run.path}: {model} {how} the run was ranked: {_again(run)}")
    return members


def check_trusted(run: Run, members: "Mapping[str, TrainedModel | Member]", *, trust: bool) -> None:
    """Raise an error that lists the members that run code of others, unless the user trusts it."""
    try:
        check_trust((member for member in members.values() if isinstance(member, Member)), trust=trust)
    except InputError as error:
        raise InputError(f"{run.path}: {error}") from None


def graph_of(run: Run, weights: EnsembleWeights) -> Dataset:
    """Load the graph that the models of the weights were trained on. Their parameters stay on the disk."""
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
            f"({valid.digest}): search again with `relens search {run.path}`"
        )


def _imported(run: Run, model: str | None = None) -> str:
    """Say that a model, or all models, came from files of ranks or scores; empty where that is not known."""
    layouts = (run.made_by() or {}).get("imported", {})
    layout = next(iter(layouts.values()), None) if model is None else layouts.get(model)
    if layout is None:
        return ""
    return f" (files were imported, layout {layout}: they can be evaluated, and know no other questions)"


def _again(run: Run) -> str:
    return f"rank and search again, e.g. `relens rank {run.path} --force; relens search {run.path}`"
