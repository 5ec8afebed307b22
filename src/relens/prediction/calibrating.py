"""Calibrate the probabilities of a run's predictions on its validation split."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.queries import SPLITS, query_key
from relens.ensemble.methods import METHODS
from relens.ensemble.search import search
from relens.ensemble.searchers import SEARCHERS
from relens.ensemble.weights import EnsembleWeights
from relens.errors import InputError, RanksError
from relens.packs.pack import PackedRanks
from relens.packs.packing import UNITS_PER_GAP
from relens.prediction.calibration import FOLDS
from relens.prediction.confidence import Confidence, made_from
from relens.prediction.ensemble import Ensemble
from relens.prediction.judging import Hidden, Panel, judge
from relens.prediction.population import SIZE, Population, SampleSize
from relens.progress import SILENT, Progress
from relens.runs import Run
from relens.seeding import generator

TRAIN, VALID, TEST = SPLITS


def calibrate(
    run: Run,
    name: str,
    device: str = "auto",
    *,
    trust: bool = False,
    seed: int = 0,
    size: SampleSize = SIZE,
    progress: Progress = SILENT,
) -> Confidence:
    """Fit the probabilities of predictions by the weights of a name to sampled questions, and return them.

    Answers in train are known, those in validation are hidden and to be found; those in test are left out, as in every
    validation rank. Each question is judged under weights that were fitted without its hidden facts.
    """
    weights = run.weights(name)
    origin = made_from(run, weights)
    try:
        Confidence.load(run, name, weights)
    except InputError:  # the old one is damaged: opening the ensemble would raise an error
        run.calibration_path(name).unlink()
    ensemble = Ensemble.open(run, name, device, trust=trust)
    valid = valid_ranks(run, ensemble.weights)
    population = Population.sample(ensemble.dataset, (TRAIN,), VALID, seed, size)
    fold = generator(seed, "folds").permutation(len(population)) % FOLDS
    sets = [ensemble.weights, *_refitted(ensemble.weights, valid, population, fold)]
    assert valid.gap_scales is not None
    panel = Panel(ensemble.models, ensemble.dataset, ensemble.groups, valid.gap_scales * UNITS_PER_GAP, sets)
    judgement = judge(panel, population, Hidden((TRAIN,), VALID), 1 + fold, progress)
    return Confidence.fit(ensemble.weights, panel.scales, judgement, (population.weight, fold), origin)


def valid_ranks(run: Run, weights: EnsembleWeights) -> PackedRanks:
    """Return the validation ranks that the weights were fitted on; an error says why they do not serve."""
    valid = run.ranks("valid")
    if valid.provenance.candidates != "all" or valid.gap_scales is None:
        among = valid.provenance.candidates
        found = f"among other candidates ({among})" if among != "all" else "without scores"
        raise RanksError(
            f"{run.path} was ranked {found}, and probabilities are calibrated on the scores of all entities: rank "
            f"again with the trained models, `relens rank {run.path} --force`, and search again"
        )
    return valid if valid.models == weights.models else valid.select_models(weights.models)


def _refitted(
    weights: EnsembleWeights, valid: PackedRanks, population: Population, fold: npt.NDArray[np.int64]
) -> Sequence[EnsembleWeights]:
    """Return weights for each fold, fitted without the validation triples that answer its questions.

    Where a method cannot be repeated cheaply, all folds have the weights themselves.
    """
    arguments = _arguments(weights)
    if arguments is None:
        return [weights] * FOLDS
    queries, n_relations = valid.queries, len(valid.relations)
    asked = query_key(queries.anchor.astype(np.int64), queries.relation, queries.direction, n_relations)
    judged = query_key(population.anchor, population.relation, population.direction, n_relations)
    found = []
    for number in range(FOLDS):
        left_out = np.unique(queries.triple[np.isin(asked, judged[fold == number])])
        kept = np.flatnonzero(~np.isin(queries.triple, left_out))
        again = search(valid.select_queries(kept), **arguments) if len(kept) else weights
        found.append(replace(weights, table=again.table))
    return found


def _arguments(weights: EnsembleWeights) -> dict[str, Any] | None:
    """Return the arguments of the search that found the weights, choices included; None if it cannot be repeated."""
    settings = weights.settings
    method, searcher = METHODS.get(settings.get("method", "")), SEARCHERS.get(settings.get("searcher", "sweep"))
    if method is None or searcher is None or not searcher.cross_validates:
        return None
    if settings.get("grouping", weights.grouping.scheme) != weights.grouping.scheme:
        return None  # a file, which may be gone
    kept = {name: settings[name] for name in ("method", "searcher", "input", "seed", "max_models") if name in settings}
    return kept | {"regularise": settings.get("kappa", "none"), "group": weights.grouping.scheme}
