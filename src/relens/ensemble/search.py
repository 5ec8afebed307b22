"""The search: from validation ranks to ensemble weights, by any method."""

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from relens.clusters.remote import Remote
from relens.data.grouping import Grouping
from relens.ensemble.context import SearchContext, SearchResult
from relens.ensemble.grid import uniform
from relens.ensemble.methods.base import MethodResult
from relens.ensemble.regularisation import Choice, choose
from relens.ensemble.settings import SearchSettings, declared_options
from relens.ensemble.sparse import sparsify
from relens.ensemble.weights import EnsembleWeights
from relens.errors import InputError, RanksError, nearest
from relens.packs.pack import PackedRanks
from relens.packs.packing import saturated_models
from relens.packs.thinning import ContestedViews
from relens.progress import SILENT, Progress


def search(
    packed: PackedRanks,
    *,
    method: str = "dsc",
    searcher: str = "sweep",
    input: str = "auto",
    regularise: str | float = "auto",
    group: str = "relation-direction",
    fallback: str = "global",
    trials: int = 100,
    seed: int = 0,
    max_models: int | None = None,
    jobs: int = 1,
    remote: Remote[SearchResult] | None = None,
    progress: Progress = SILENT,
    **options: Any,
) -> EnsembleWeights:
    """Search ensemble weights on validation ranks.

    Args:
        packed: packed ranks of the validation split, such as ``run.ranks("valid")``.
        method: ``dsc`` searches every group on its own (the paper's RelEns-DSC), ``simple`` one vector for all,
            ``basic`` all groups jointly; the others are baselines. See ``relens.ensemble.methods``.
        searcher: ``sweep`` is exact along lines of weights; ``tpe`` and ``random`` sample, as the paper does.
        input: what the weights are applied to; ``auto``: cross-validation chooses (with the sweep; else ``rank``).
        regularise: κ of the shrinkage towards the global weights, ``none``, or ``auto``: cross-validation chooses
            (with the sweep; else ``none``).
        group: ``relation-direction``, ``relation``, or a file of ``relation TAB group`` lines.
        fallback: weights of groups without validation queries: ``global`` or ``uniform``.
        trials: samples of each search by ``tpe`` or ``random`` (the paper's Q).
        seed: root of all randomness.
        max_models: most models with a weight in a group; None for all. Fewer make predictions cheaper.
        jobs: workers; the result does not depend on it.
        remote: searches groups on other machines; the result is the same.
        progress: where to show progress.
        **options: options that a method or searcher of another package declares.
    """
    unknown = next((name for name in options if name not in declared_options()), None)
    if unknown is not None:
        raise TypeError(f"search() has no argument {unknown!r}; {nearest(unknown, SearchSettings().arguments())}")
    settings = SearchSettings(
        method, searcher, input, regularise, group, fallback, trials, seed, max_models, options
    )  # fmt: skip
    if jobs < 1:
        raise InputError(f"jobs is {jobs}, expected at least 1")
    _check_ranks(packed, settings)
    grouping = Grouping.from_spec(settings.group, packed.relations)
    inputs = settings.inputs(packed)
    if any(input.needs_gaps for input in inputs):
        _warn_of_saturated_gaps(packed)
    context = SearchContext(
        ContestedViews(packed, jobs), inputs[0], settings.searcher_entry, grouping.groups_of(packed.queries),
        trials=trials, seed=seed, options=settings.own_values(), jobs=jobs, remote=remote, progress=progress,
    )  # fmt: skip
    choice = choose(context, inputs, settings.kappas())
    context = replace(context, input=choice.input, kappa=choice.kappa)
    found = settings.method_entry.search(context)
    if max_models is not None:
        found = _sparsified(context, found, max_models)
    return _weights(context, settings, grouping, found, choice)


def _check_ranks(packed: PackedRanks, settings: SearchSettings) -> None:
    """Raise an error for anything but packed ranks with queries; warn about ranks of the test split."""
    if not isinstance(packed, PackedRanks):
        raise InputError(
            f"found {type(packed).__name__} {packed!r:.80}, expected the packed ranks of the validation split: pass "
            f'`run.ranks("valid")` of a run, or `relens.load_ranks(path)` of a store'
        )
    split, dataset = packed.provenance.split, packed.provenance.dataset
    if packed.n_queries == 0:
        raise RanksError(
            f"the {split} split of {dataset!r} has no queries, and weights are fitted on them. Hold out some triples "
            f"of train as a validation split."
        )
    if split == "test" and settings.method_entry.learns:
        warnings.warn(
            f"the weights are searched on the test split of {dataset!r}: their test results will be too good. Search "
            f"on the ranks of valid.",
            stacklevel=3,
        )


def _warn_of_saturated_gaps(packed: PackedRanks) -> None:
    """Warn about models whose score gaps have lost most of their information."""
    for model, share in saturated_models(packed).items():
        warnings.warn(
            f"{share:.0%} of the score gaps of model {model!r} are as small or as large as packed gaps can be, so an "
            f"ensemble of score gaps sees little more than their signs. The scores may contain extreme values, such as "
            f"a mask: replace these and rank again, or choose an input of ranks.",
            stacklevel=3,
        )


def _sparsified(context: SearchContext, found: MethodResult, limit: int) -> MethodResult:
    """Return weights of at most ``limit`` models in each group."""
    members = [] if found.table is None else context.groups[1]
    own = [] if found.table is None else list(found.table)
    common, *own = sparsify(context, [context.everything, *members], [found.common, *own], limit)
    return replace(found, common=common, table=None if found.table is None else np.array(own))


def _weights(
    context: SearchContext, settings: SearchSettings, grouping: Grouping, found: MethodResult, choice: Choice
) -> EnsembleWeights:
    """Return the weights of all groups, with the settings that led to them."""
    packed, notes = context.packed, list(found.notes)
    per_group = found.table is not None
    fallback = uniform(packed.n_models) if settings.fallback == "uniform" and per_group else found.common
    rows = np.tile(fallback, (len(grouping), 1))
    own = np.zeros(len(grouping), dtype=bool)
    if found.table is not None:
        present, _ = context.groups
        rows[present], own[present] = found.table, True
        n_without = len(own) - len(present)
        if n_without:
            name = settings.fallback if settings.method_entry.has_global else "uniform"
            notes.append(f"{n_without} of {len(own)} groups have no validation queries: {name} weights")
    return EnsembleWeights(
        models=packed.models,
        relations=packed.relations,
        grouping=grouping,
        table=rows,
        own=own,
        fallback=fallback,
        support=np.bincount(context.group_of_query, minlength=len(grouping)).astype(np.int64),
        input=choice.input.name,
        settings=_resolved(context, settings, choice),
        dataset=(packed.provenance.dataset, packed.provenance.fingerprint),
        gap_scales=packed.gap_scales,
        trace=found.trace,
        notes=tuple(notes),
        fitted_on=packed.digest,
        candidates=packed.provenance.candidates,
    )


def _resolved(context: SearchContext, settings: SearchSettings, choice: Choice) -> dict[str, Any]:
    """Return the settings and the choices of cross-validation as plain JSON values."""
    method, searcher = settings.method_entry, settings.searcher_entry
    resolved: dict[str, Any] = {"method": method.name, "input": choice.input.name, "seed": settings.seed}
    if method.searches:
        resolved |= {"searcher": searcher.name, "grouping": settings.group} | searcher.resolved_settings(context)
    if settings.max_models is not None:
        resolved["max_models"] = settings.max_models
    if method.shrinks:
        resolved["kappa"] = "inf" if math.isinf(choice.kappa) else choice.kappa
    if choice.scores:
        resolved["cross_validation"] = {
            name: {str(kappa): value for kappa, value in row.items()} for name, row in choice.scores.items()
        }
    return resolved | settings.own_values()
