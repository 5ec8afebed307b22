"""Fitting: from validation ranks to ensemble weights, by any method."""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from relens.clusters.remote import Remote
from relens.data.grouping import Grouping
from relens.ensemble.baselines import best_single, greedy, mrr_mean, stacking
from relens.ensemble.crossval import Choice, choose, split_by_group
from relens.ensemble.grid import Weights, uniform
from relens.ensemble.inputs import INPUTS, Input, available_inputs, check_input
from relens.ensemble.results import QueryIndex, SearchResult
from relens.ensemble.sampling import sample_groups, sample_jointly, startup_trials
from relens.ensemble.shrinkage import KAPPAS, Shrinkage
from relens.ensemble.sparse import sparsify
from relens.ensemble.sweep import sweep, sweep_groups
from relens.ensemble.weights import EnsembleWeights
from relens.errors import InputError, RanksError, nearest
from relens.packs.pack import PackedRanks
from relens.packs.thinning import ContestedViews
from relens.progress import SILENT, Progress

Method = Literal["mean", "mrr-mean", "stacking", "best-single", "greedy", "simple", "basic", "dsc"]
METHODS: tuple[Method, ...] = get_args(Method)
Searcher = Literal["sweep", "tpe", "random"]
SEARCHERS: tuple[Searcher, ...] = get_args(Searcher)
TRACE_POINTS = 200


@dataclass(frozen=True)
class SearchSettings:
    """How weights are found.

    Attributes:
        method: ``dsc`` searches every group on its own (the paper's RelEns-DSC), ``simple`` one vector for all,
            ``basic`` all groups jointly; the others are baselines.
        searcher: ``sweep`` is exact along lines of weights; ``tpe`` and ``random`` sample, as the paper does.
        input: what the weights are applied to; ``auto``: cross-validation chooses (with the sweep; else ``rank``).
        regularise: κ of the shrinkage towards the global weights, ``none``, or ``auto``: cross-validation chooses
            (with the sweep; ``none`` otherwise).
        group: ``relation-direction``, ``relation``, or a file of ``relation TAB group`` lines.
        fallback: weights of groups without validation data: ``global`` or ``uniform``.
        trials: samples per search of ``tpe`` and ``random`` (the paper's Q).
        seed: root of all randomness.
        max_models: models that may have a weight in a group; None for all. Fewer make predictions cheaper.
    """

    method: Method = "dsc"
    searcher: Searcher = "sweep"
    input: str = "auto"
    regularise: str | float = "auto"
    group: str = "relation-direction"
    fallback: Literal["global", "uniform"] = "global"
    trials: int = 100
    seed: int = 0
    max_models: int | None = None

    def __post_init__(self) -> None:
        for value, known, what in (
            (self.method, METHODS, "method"),
            (self.searcher, SEARCHERS, "searcher"),
            (self.input, ("auto", *INPUTS), "input"),
            (self.fallback, ("global", "uniform"), "fallback"),
        ):
            if value not in known:
                raise InputError(f"unknown {what} {value!r}; {nearest(value, known)}")
        if self.trials < 1:
            raise InputError(f"trials is {self.trials}, expected at least 1")
        if self.max_models is not None and self.max_models < 1:
            raise InputError(f"max_models is {self.max_models}, expected at least 1")
        if self.max_models is not None and self.fallback == "uniform":
            raise InputError("fallback 'uniform' gives every model a weight: with max_models the fallback is 'global'")
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}, expected at least 0")
        if self.method == "basic" and self.searcher == "sweep":
            raise InputError(
                "method 'basic' searches all groups jointly, and with the sweep that would be 'dsc', because the "
                "objective is a sum over groups. Choose the searcher tpe or random, or the method dsc."
            )
        self.kappas()

    def kappas(self) -> tuple[float, ...]:
        """Return the strengths of shrinkage to choose from."""
        if self.regularise == "none" or (self.regularise == "auto" and self.searcher != "sweep"):
            kappas: tuple[float, ...] = (0.0,)
        elif self.regularise == "auto":
            kappas = KAPPAS
        else:
            try:
                kappas = (float(self.regularise),)
            except (TypeError, ValueError):
                kappas = (math.nan,)
            if not kappas[0] >= 0:
                raise InputError(f"regularise is {self.regularise!r}, expected auto, none, or a number κ of at least 0")
        return (math.inf,) if self.method == "simple" else kappas

    def inputs(self, packed: PackedRanks) -> tuple[Input, ...]:
        """Return the inputs to choose from."""
        if self.input != "auto":
            return (check_input(self.input, packed),)
        searched = self.method in ("simple", "dsc") and self.searcher == "sweep"
        return available_inputs(packed) if searched else ("rank",)


def search(
    packed: PackedRanks,
    settings: SearchSettings | None = None,
    *,
    jobs: int = 1,
    remote: Remote | None = None,
    progress: Progress = SILENT,
    **changes: Any,
) -> EnsembleWeights:
    """Fit ensemble weights on validation ranks.

    Args:
        packed: packed ranks of the validation split.
        settings: how; the default is the method ``dsc`` with everything chosen by cross-validation.
        jobs: workers; the result does not depend on it.
        remote: searches groups on other machines; the result is the same.
        progress: where to show it.
        **changes: fields of ``SearchSettings`` to set, for instance ``method="simple"``.
    """
    settings = replace(settings or SearchSettings(), **changes)
    if jobs < 1:
        raise InputError(f"jobs is {jobs}, expected at least 1")
    if packed.n_queries == 0:
        raise RanksError(
            f"the {packed.provenance.split} split of {packed.provenance.dataset!r} has no queries, and weights are "
            f"fitted on them. Hold out some triples of train as a validation split."
        )
    check_input("rank", packed)
    return _Fit(packed, settings, jobs, remote, progress).run()


class _Fit:
    """One fit: the packed ranks, what was asked for, and what the steps share."""

    def __init__(
        self, packed: PackedRanks, settings: SearchSettings, jobs: int, remote: Remote | None, progress: Progress
    ) -> None:
        self.packed, self.settings, self.jobs, self.remote, self.progress = packed, settings, jobs, remote, progress
        self.grouping = Grouping.make(settings.group, packed.relations)
        self.group = self.grouping.groups_of(packed.queries)
        self.views = ContestedViews(packed, jobs)
        self.everything = np.arange(packed.n_queries)
        self.notes: list[str] = []
        self.trace = np.empty((0, 3))

    def run(self) -> EnsembleWeights:
        choice = self._choose()
        if self.settings.method == "basic":
            return self._result(choice, *self._sparse(choice.input, *self._basic(choice.input)))
        if self.settings.method == "dsc":
            return self._result(choice, *self._sparse(choice.input, *self._dsc(choice)))
        common, _, _ = self._sparse(choice.input, self._global(choice.input))
        return self._result(choice, common)

    def _choose(self) -> Choice:
        inputs, kappas = self.settings.inputs(self.packed), self.settings.kappas()
        if self.settings.method not in ("simple", "dsc"):
            return Choice(inputs[0], 0.0, {})
        return choose(
            self.views, self.group, inputs, kappas,
            seed=self.settings.seed, jobs=self.jobs, remote=self.remote, progress=self.progress,
        )  # fmt: skip

    def _global(self, name: Input) -> Weights:
        """Return one weight vector for all queries, by the method asked for."""
        packed, method = self.packed, self.settings.method
        if method == "mean":
            return uniform(packed.n_models)
        if method == "best-single":
            return best_single(packed, jobs=self.jobs)
        if method == "mrr-mean":
            return mrr_mean(packed, jobs=self.jobs)
        if method == "greedy":
            return greedy(packed, name, jobs=self.jobs, progress=self.progress)
        if method == "stacking":
            weights, note = stacking(packed, seed=self.settings.seed)
            self.notes += [note] if note else []
            return weights
        found = self._search([self.everything], name)
        self.trace = _overall_trace(found, packed.n_queries)
        return found[0].weights

    def _dsc(self, choice: Choice) -> tuple[Weights, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Divide, search, combine: return the global weights, the groups searched, and their weights."""
        packed = self.packed
        searched, members = split_by_group(self.group, self.everything)
        if math.isinf(choice.kappa):
            found = self._search([self.everything], choice.input)
            self.trace = _overall_trace(found, packed.n_queries)
            return found[0].weights, searched, np.tile(found[0].weights, (len(searched), 1))
        if self.settings.searcher == "sweep":
            overall, found = sweep_groups(
                self.views, self.everything, members, choice.input,
                jobs=self.jobs, remote=self.remote, progress=self.progress,
            )  # fmt: skip
        else:
            overall = self._search([self.everything], choice.input)[0]
            found = self._search(members, choice.input)
        common = overall.weights
        self.trace = _overall_trace(found, packed.n_queries)
        own = np.array([result.weights for result in found])
        support = np.array([len(index) for index in members])
        shrinkage = Shrinkage.fit(self.views, self.everything, choice.input)
        return common, searched, shrinkage.shrink(own, common, support, choice.kappa)

    def _basic(self, name: Input) -> tuple[Weights, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        searched, dense = np.unique(self.group, return_inverse=True)
        sampler = self.settings.searcher
        assert sampler != "sweep"  # SearchSettings has refused it
        table, trace = sample_jointly(
            self.packed, dense.astype(np.int32), len(searched), name, sampler=sampler,
            trials=self.settings.trials, seed=self.settings.seed, jobs=self.jobs, progress=self.progress,
        )  # fmt: skip
        self.trace = trace / [1.0, 1.0, self.packed.n_queries]
        return uniform(self.packed.n_models), searched.astype(np.int64), table

    def _search(self, members: list[QueryIndex], name: Input) -> list[SearchResult]:
        sampler = self.settings.searcher
        if sampler == "sweep":
            return sweep(self.views, members, name, jobs=self.jobs, progress=self.progress)
        return sample_groups(
            self.packed, members, name, sampler=sampler, trials=self.settings.trials,
            seed=self.settings.seed, jobs=self.jobs, remote=self.remote, progress=self.progress,
        )  # fmt: skip

    def _sparse(
        self,
        name: Input,
        common: Weights,
        searched: npt.NDArray[np.int64] | None = None,
        table: npt.NDArray[np.int64] | None = None,
    ) -> tuple[Weights, npt.NDArray[np.int64] | None, npt.NDArray[np.int64] | None]:
        """Return global weights, groups and their weights with no more models than wanted."""
        limit = self.settings.max_models
        if limit is None:
            return common, searched, table
        members = [] if table is None else split_by_group(self.group, self.everything)[1]
        own = [] if table is None else list(table)
        common, *own = sparsify(
            self.views, [self.everything, *members], [common, *own], name, limit, jobs=self.jobs, progress=self.progress
        )
        return common, searched, None if table is None else np.array(own)

    def _result(
        self,
        choice: Choice,
        common: Weights,
        searched: npt.NDArray[np.int64] | None = None,
        table: npt.NDArray[np.int64] | None = None,
    ) -> EnsembleWeights:
        packed = self.packed
        fallback = uniform(packed.n_models) if self.settings.fallback == "uniform" and table is not None else common
        rows = np.tile(fallback, (len(self.grouping), 1))
        own = np.zeros(len(self.grouping), dtype=bool)
        if searched is not None and table is not None:
            rows[searched], own[searched] = table, True
            n_without = len(own) - len(searched)
            if n_without:
                name = "uniform" if self.settings.method == "basic" else self.settings.fallback
                self.notes.append(f"{n_without} of {len(own)} groups have no validation queries: {name} weights")
        return EnsembleWeights(
            models=packed.models,
            relations=packed.relations,
            grouping=self.grouping,
            table=rows,
            own=own,
            fallback=fallback,
            support=np.bincount(self.group, minlength=len(self.grouping)).astype(np.int64),
            input=choice.input,
            settings=self._resolved(choice),
            dataset=(packed.provenance.dataset, packed.provenance.fingerprint),
            gap_scales=packed.gap_scales,
            trace=self.trace,
            notes=tuple(self.notes),
            fitted_on=packed.digest,
        )

    def _resolved(self, choice: Choice) -> dict[str, Any]:
        """Return what was asked for and what came of it, as plain JSON values."""
        settings = self.settings
        searches = settings.method in ("simple", "basic", "dsc")
        samples = searches and settings.searcher != "sweep"
        resolved: dict[str, Any] = {"method": settings.method, "input": choice.input, "seed": settings.seed}
        if searches:
            resolved |= {"searcher": settings.searcher, "grouping": settings.group}
        if samples:
            resolved["trials"] = settings.trials
            if settings.searcher == "tpe":
                resolved["startup_trials"] = startup_trials(settings.trials)
        if settings.max_models is not None:
            resolved["max_models"] = settings.max_models
        if settings.method == "dsc":
            resolved["kappa"] = "inf" if math.isinf(choice.kappa) else choice.kappa
        if choice.scores:
            resolved["cross_validation"] = {
                name: {str(kappa): value for kappa, value in row.items()} for name, row in choice.scores.items()
            }
        return resolved


def _overall_trace(found: list[SearchResult], n_queries: int) -> npt.NDArray[np.float64]:
    """Merge the groups' traces into one of the overall MRR, (steps, 3): seconds, evaluations, MRR.

    A group counts with the first value of its trace, that of equal weights, until its search has begun.
    """
    moments: list[tuple[float, float, float]] = []
    for result in found:
        gains = np.diff(result.trace, axis=0)
        moments.extend(zip(result.trace[1:, 0], gains[:, 1], gains[:, 2], strict=True))
    moments.sort()
    _, evaluated, at_first = np.sum([result.trace[0] for result in found], axis=0)
    steps: npt.NDArray[np.float64] = np.array([(0.0, evaluated, at_first), *moments])
    steps[:, 1:] = np.cumsum(steps[:, 1:], axis=0)
    steps[:, 2] /= n_queries
    return steps[np.unique(np.linspace(0, len(steps) - 1, TRACE_POINTS).round().astype(np.int64))]
