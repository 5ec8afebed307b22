"""Calibrate a run on its validation split: probabilities of predictions, thresholds, and the scale of relations."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from relens.data.queries import SPLITS, query_key
from relens.ensemble.methods import METHODS
from relens.ensemble.search import search
from relens.ensemble.searchers import SEARCHERS
from relens.ensemble.weights import EnsembleWeights
from relens.errors import RanksError
from relens.packs.pack import PackedRanks
from relens.packs.packing import UNITS_PER_GAP
from relens.prediction.calibration import FOLDS
from relens.prediction.confidence import Confidence
from relens.prediction.ensemble import Ensemble
from relens.prediction.fitted import keep_scale, keep_thresholds
from relens.prediction.judging import Hidden, Panel, judge
from relens.prediction.opening import open_voting
from relens.prediction.population import SIZE, Population, SampleSize
from relens.prediction.relation_scale import RelationScale
from relens.prediction.thresholds import Thresholds
from relens.progress import SILENT, Progress
from relens.runs import Run
from relens.seeding import generator
from relens.staleness import made_from

TRAIN, VALID, TEST = SPLITS


class Calibration(NamedTuple):
    """What is fitted on validation for some weights of a run, beside the weights.

    Attributes:
        confidence: the probability of answers.
        thresholds: the thresholds of verdicts; None if they were left out.
        scale: the scale of relations; None if it was left out.
        files: the files that the run keeps it in.
    """

    confidence: Confidence
    thresholds: Thresholds | None
    scale: RelationScale | None
    files: tuple[Path, ...]


def calibrate_run(
    run: Run,
    name: str,
    device: str = "auto",
    *,
    trust: bool = False,
    seed: int = 0,
    costly: bool = True,
    progress: Progress = SILENT,
) -> Calibration:
    """Fit all that answers by the weights of a name need, and keep it in the run, which the caller holds.

    Args:
        run: the run, with ranks of validation.
        name: the name of the weights.
        device: where models run.
        trust: load members of others, which runs their code.
        seed: root of the sampled questions, and of sampled negatives.
        costly: fit thresholds and scale also with models that propagate, which need a pass for each question.
        progress: where progress is shown.
    """
    voting, _ = open_voting(run, calibrated=False, weights=name, device=device, trust=trust)
    ensemble = Ensemble(voting)  # without a name it takes nothing from the run
    confidence = calibrate(ensemble, seed=seed, progress=progress)
    confidence.save(run, name)
    if ensemble.propagating and not costly:
        return Calibration(confidence, None, None, (run.calibration_path(name),))
    thresholds, scale = ensemble.thresholds(seed, progress), ensemble.choose_relation_scale(progress)
    keep_thresholds(run, name, voting.weights, thresholds, seed)
    files = (run.calibration_path(name), run.thresholds_path(name), *keep_scale(run, name, voting.weights, scale))
    return Calibration(confidence, thresholds, scale, files)


def calibrate(ensemble: Ensemble, *, seed: int = 0, size: SampleSize = SIZE, progress: Progress = SILENT) -> Confidence:
    """Fit the probabilities of predictions by an ensemble to sampled questions, and return them.

    Answers in train are known, those in validation are hidden and to be found; those in test are left out, as in every
    validation rank. Each question is judged under weights that were fitted without its hidden facts.
    """
    valid = valid_ranks(ensemble.run, ensemble.weights)
    population = Population.sample(ensemble.dataset, (TRAIN,), VALID, seed, size)
    fold = generator(seed, "folds").permutation(len(population)) % FOLDS
    sets = [ensemble.weights, *_refitted(ensemble.weights, valid, population, fold)]
    assert valid.gap_scales is not None
    panel = Panel(ensemble.models, ensemble.dataset, ensemble.voting.groups, valid.gap_scales * UNITS_PER_GAP, sets)
    judgement = judge(panel, population, Hidden((TRAIN,), VALID), 1 + fold, progress)
    return Confidence.fit(
        ensemble.weights, panel.scales, judgement, (population.weight, fold), made_from(ensemble.run, ensemble.weights)
    )


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
