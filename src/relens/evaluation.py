"""Evaluate: what per-query ranks are worth, overall and part by part, and how sure one can be of it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from relens.data.grouping import Grouping
from relens.data.queries import DIRECTIONS
from relens.ensemble import objective
from relens.ensemble.grid import vertices
from relens.ensemble.weights import EnsembleWeights
from relens.errors import InputError, RanksError
from relens.packs.pack import PackedRanks
from relens.ranking.answer_ranks import AnswerRanks, hits, mean_rank, mrr
from relens.records import EVALUATION, TIE_RULE, Provenance
from relens.significance import Interval, PairedTest, bootstrap_interval, paired_test


@dataclass(frozen=True)
class Metrics:
    """Metrics of a set of queries, from realistic ranks unless the name says otherwise."""

    queries: int
    mrr: float
    hits_at_1: float
    hits_at_3: float
    hits_at_10: float
    mean_rank: float
    mrr_optimistic: float
    mrr_pessimistic: float

    @classmethod
    def measure(cls, answer_ranks: AnswerRanks, index: npt.NDArray[Any] | None = None) -> Self:
        """Measure ``answer_ranks`` (Q,), or those at ``index`` (positions (n,) or a mask (Q,)) alone."""
        chosen = answer_ranks if index is None else answer_ranks[index]
        ranks = chosen.realistic
        return cls(
            queries=len(chosen),
            mrr=mrr(ranks),
            hits_at_1=hits(ranks, 1),
            hits_at_3=hits(ranks, 3),
            hits_at_10=hits(ranks, 10),
            mean_rank=mean_rank(ranks),
            mrr_optimistic=mrr(chosen.optimistic),
            mrr_pessimistic=mrr(chosen.pessimistic),
        )


@dataclass(frozen=True)
class Evaluation:
    """The numbers of one model or ensemble on one split, with everything that must be said beside them.

    Attributes:
        name: the model or the method, such as ``rotate`` or ``dsc``.
        provenance: data set, split, filter and candidates of the ranks.
        grouping: the scheme of the groups in ``by_group``.
        seed: root seed of the resampling.
        resamples: bootstrap resamples and, where not exact, sign flips.
        settings: what made the weights (method, searcher, input, …), plain JSON values.
        overall: metrics of all queries.
        by_direction, by_relation, by_group, by_cardinality: metrics by label, of the parts that have queries;
            relations of unknown class are left out of ``by_cardinality``.
        interval: bootstrap interval of the overall MRR, by triple.
        paired: comparison with a reference such as the best single model.
        answer_ranks: the per-query ranks all of this comes from; None after ``from_json``.
    """

    name: str
    provenance: Provenance
    grouping: str
    seed: int
    resamples: int
    settings: Mapping[str, Any]
    overall: Metrics
    by_direction: Mapping[str, Metrics]
    by_relation: Mapping[str, Metrics]
    by_group: Mapping[str, Metrics]
    by_cardinality: Mapping[str, Metrics]
    interval: Interval
    paired: PairedTest | None = None
    answer_ranks: AnswerRanks | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return all but the per-query ranks as plain JSON values."""
        parts = ("by_direction", "by_relation", "by_group", "by_cardinality")
        values = {
            "name": self.name,
            "provenance": self.provenance.to_json(),
            "tie_rule": TIE_RULE,
            "grouping": self.grouping,
            "seed": self.seed,
            "resamples": self.resamples,
            "settings": dict(self.settings),
            "overall": asdict(self.overall),
            **{part: {label: asdict(m) for label, m in getattr(self, part).items()} for part in parts},
            "interval": list(self.interval),
            "paired": None if self.paired is None else {**asdict(self.paired), "interval": list(self.paired.interval)},
        }
        return EVALUATION.stamp(values)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Rebuild an evaluation from ``to_json``'s result, without the per-query ranks."""
        EVALUATION.check(value, "the evaluation")
        if value.get("tie_rule") != TIE_RULE:
            raise InputError(
                f"the evaluation has the tie rule {value.get('tie_rule')!r}, expected {TIE_RULE!r}. {EVALUATION.remedy}"
            )
        with EVALUATION.parsing("the evaluation"):
            return cls._from_json(value)

    @classmethod
    def _from_json(cls, value: Mapping[str, Any]) -> Self:
        def metrics_of(part: str) -> dict[str, Metrics]:
            return {label: Metrics(**metrics) for label, metrics in value[part].items()}

        paired = value["paired"]
        return cls(
            name=value["name"],
            provenance=Provenance.from_json(value["provenance"]),
            grouping=value["grouping"],
            seed=value["seed"],
            resamples=value["resamples"],
            settings=value["settings"],
            overall=Metrics(**value["overall"]),
            by_direction=metrics_of("by_direction"),
            by_relation=metrics_of("by_relation"),
            by_group=metrics_of("by_group"),
            by_cardinality=metrics_of("by_cardinality"),
            interval=Interval(*value["interval"]),
            paired=None if paired is None else PairedTest(**{**paired, "interval": Interval(*paired["interval"])}),
        )


def evaluate(
    packed: PackedRanks,
    weights: EnsembleWeights,
    *,
    name: str | None = None,
    reference: str | None = None,
    seed: int = 0,
    jobs: int = 1,
) -> Evaluation:
    """Evaluate ensemble weights on packed ranks.

    Args:
        packed: packed ranks of any split, usually test.
        weights: fitted on validation ranks of the same models.
        name: how tables call the ensemble; its method by default.
        reference: the model to compare with, usually the best on validation.
        seed: of the resampling.
        jobs: threads.
    """
    settings = {key: value for key, value in weights.settings.items() if key != "cross_validation"}
    return evaluate_ranks(
        weights.answer_ranks(packed, jobs=jobs),
        packed,
        weights.grouping,
        name=name or str(weights.settings.get("method", "ensemble")),
        settings=settings,
        reference=None if reference is None else (reference, model_ranks(packed, reference, jobs=jobs)),
        seed=seed,
    )


def model_ranks(packed: PackedRanks, model: str, *, jobs: int = 1) -> AnswerRanks:
    """Return the ranks one model alone gives the answers."""
    return objective.answer_ranks(packed, vertices(packed.n_models)[packed.model_index(model)], jobs=jobs)


def evaluate_ranks(
    answer_ranks: AnswerRanks,
    packed: PackedRanks,
    grouping: Grouping,
    *,
    name: str,
    settings: Mapping[str, Any],
    reference: tuple[str, AnswerRanks] | None = None,
    seed: int = 0,
    resamples: int = 1000,
) -> Evaluation:
    """Evaluate the ranks (Q,) that the model or ensemble ``name`` gives the answers of ``packed``'s queries.

    ``reference`` names the ranks (Q,) to compare with, usually those of the best single model.
    """
    _check_fit(name, answer_ranks, packed)
    queries = packed.queries
    reciprocal = 1 / answer_ranks.realistic
    paired = None
    if reference is not None:
        _check_fit(reference[0], reference[1], packed)
        baseline = 1 / reference[1].realistic
        paired = paired_test(
            reciprocal, baseline, queries.triple, reference=reference[0], seed=seed, resamples=resamples
        )
    return Evaluation(
        name=name,
        provenance=packed.provenance,
        grouping=grouping.scheme,
        seed=seed,
        resamples=resamples,
        settings=dict(settings),
        overall=Metrics.measure(answer_ranks),
        by_direction=_by_part(answer_ranks, queries.direction, DIRECTIONS),
        by_relation=_by_part(answer_ranks, queries.relation, packed.relations),
        by_group=_by_part(answer_ranks, grouping.groups_of(queries), grouping.labels),
        by_cardinality=_by_cardinality(answer_ranks, packed),
        interval=bootstrap_interval(reciprocal, queries.triple, seed=seed, resamples=resamples),
        paired=paired,
        answer_ranks=answer_ranks,
    )


def relation_spread(answer_ranks_by_model: Mapping[str, AnswerRanks], packed: PackedRanks) -> dict[str, Any]:
    """Return how much the models' MRR differs relation by relation, as plain JSON values.

    The spread of a relation is the (population) standard deviation over the models of its MRR. The paper explains
    its gains by one number per data set, without saying how it weights relations: ``std_by_queries`` weights them
    by their queries, ``std_by_relations`` equally. ``relations`` holds, for every relation with queries, its number
    of queries, its spread, its best and worst model (the first of equals) and the MRR of each model.
    """
    for name, answer_ranks in answer_ranks_by_model.items():
        _check_fit(name, answer_ranks, packed)
    models = list(answer_ranks_by_model)
    asked, index, queries = np.unique(packed.queries.relation, return_inverse=True, return_counts=True)
    sums = [np.bincount(index, weights=1 / ranks.realistic) for ranks in answer_ranks_by_model.values()]
    mrr_of = np.array(sums).T / queries[:, None]  # (relations asked, N)
    std = mrr_of.std(axis=1)
    return {
        "models": models,
        "std_by_queries": float(np.average(std, weights=queries)),
        "std_by_relations": float(std.mean()),
        "relations": {
            packed.relations[relation_id]: {
                "queries": int(queries[i]),
                "std": float(std[i]),
                "best": models[mrr_of[i].argmax()],
                "worst": models[mrr_of[i].argmin()],
                "mrr": dict(zip(models, mrr_of[i].tolist(), strict=True)),
            }
            for i, relation_id in enumerate(asked)
        },
    }


def _by_part(answer_ranks: AnswerRanks, part: npt.NDArray[Any], labels: Sequence[str]) -> dict[str, Metrics]:
    """Measure every part that has queries; ``part`` (Q,) holds positions in ``labels``."""
    order = np.argsort(part, kind="stable")
    present, begins = np.unique(part[order], return_index=True)
    parts = np.split(order, begins[1:])
    return {labels[i]: Metrics.measure(answer_ranks, index) for i, index in zip(present, parts, strict=True)}


def _by_cardinality(answer_ranks: AnswerRanks, packed: PackedRanks) -> dict[str, Metrics]:
    """Measure the queries of every cardinality class; relations of unknown class are left out."""
    if not packed.cardinalities:
        return {}
    labels, class_of_relation = np.unique(packed.cardinalities, return_inverse=True)
    classes = _by_part(answer_ranks, class_of_relation[packed.queries.relation], labels.tolist())
    return {label: metrics for label, metrics in classes.items() if label}


def _check_fit(name: str, answer_ranks: AnswerRanks, packed: PackedRanks) -> None:
    """Refuse ranks of other queries, and splits that ask nothing."""
    if len(answer_ranks) != packed.n_queries:
        raise RanksError(
            f"{name!r} has ranks of {len(answer_ranks):,} queries, the packed ranks of {packed.provenance.dataset} "
            f"({packed.provenance.split}) have {packed.n_queries:,}. Compute both from the same packed ranks."
        )
    if not packed.n_queries:
        raise RanksError(
            f"there is nothing to evaluate: {packed.provenance.dataset} ({packed.provenance.split}) has no queries. "
            f"Choose a split that has triples."
        )
