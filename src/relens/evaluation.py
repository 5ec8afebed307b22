"""Evaluate ranks: the metrics of a model or an ensemble, overall and by part, with intervals and a paired test."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt

from relens.data.grouping import Grouping
from relens.data.queries import DIRECTIONS
from relens.ensemble import objective
from relens.ensemble.grid import vertices
from relens.ensemble.weights import EnsembleWeights
from relens.errors import InputError, RanksError
from relens.metrics import METRICS
from relens.packs.pack import PackedRanks
from relens.ranking.answer_ranks import AnswerRanks
from relens.records import EVALUATION, TIE_RULE, Provenance, mapping, number, text, texts, whole
from relens.significance import Interval, PairedTest, bootstrap_interval, paired_test

PARTS = ("direction", "relation", "group", "cardinality")
"""The ways to divide the queries; ``Evaluation`` has a mapping ``by_…`` for each."""


class Metrics(Mapping[str, float]):
    """The metrics of a set of queries by name, also as attributes: ``metrics["mrr"]`` is ``metrics.mrr``.

    An evaluation that is read from a file has the metrics that were installed when it was written.
    """

    def __init__(self, queries: int, values: Mapping[str, float]) -> None:
        """Hold ``values`` by the name of the metric, measured on this number of ``queries``."""
        self.queries = queries
        self._by_name = dict(values)

    @classmethod
    def measure(cls, answer_ranks: AnswerRanks, index: npt.NDArray[Any] | None = None) -> Self:
        """Measure ``answer_ranks`` (Q,), or only those at ``index``: positions (n,) or a mask (Q,)."""
        chosen = answer_ranks if index is None else answer_ranks[index]
        return cls(len(chosen), {name: metric.measure(chosen) for name, metric in METRICS.items()})

    def to_json(self) -> dict[str, Any]:
        """Return the number of queries and the metrics as plain JSON values."""
        return {"queries": self.queries, **self._by_name}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Rebuild metrics from the result of ``to_json``. Every evaluation has the MRR."""
        values = {name: number(entry) for name, entry in value.items() if name != "queries"}
        if "mrr" not in values:
            raise KeyError("mrr")
        return cls(whole(value["queries"]), values)

    def __getitem__(self, name: str) -> float:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __getattr__(self, name: str) -> float:
        if name.startswith("_") or name not in self._by_name:
            raise AttributeError(f"no metric {name!r}")
        return self._by_name[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._by_name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Metrics) and self.to_json() == other.to_json()

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.to_json().items())
        return f"Metrics({values})"


@dataclass(frozen=True)
class NamedRanks:
    """The ranks that one model or ensemble gives the answers of a split.

    Attributes:
        name: the model or the method, such as ``rotate`` or ``dsc``.
        ranks: one rank per query, (Q,).
        settings: how the weights were made, plain JSON values; empty for a single model.
    """

    name: str
    ranks: AnswerRanks
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reciprocal(self) -> npt.NDArray[np.float64]:
        """The reciprocal of each realistic rank, (Q,)."""
        return 1 / self.ranks.realistic


M = TypeVar("M")


@dataclass(frozen=True, kw_only=True)
class Measured(Generic[M]):
    """What was measured of one model or ensemble on one split, with the facts that identify it.

    Attributes:
        name: the model or the method, such as ``rotate`` or ``dsc``.
        provenance: data set, split, filter and candidates of the ranks.
        seed: root seed of everything random.
        overall: what was measured of all questions.
        by_relation: the same by the label of the relation, for those with questions.
    """

    name: str
    provenance: Provenance
    seed: int
    overall: M
    by_relation: Mapping[str, M]


@dataclass(frozen=True, kw_only=True)
class Evaluation(Measured[Metrics]):
    """The metrics of one model or ensemble on one split, with the facts that identify them.

    Attributes:
        grouping: the scheme of the groups in ``by_group``.
        resamples: bootstrap resamples, and sign flips where the test is not exact.
        settings: how the weights were made (method, searcher, input, …), plain JSON values; empty for a single model.
        by_direction, by_group, by_cardinality: metrics by label, for the parts that have queries. ``by_cardinality``
            leaves out relations of unknown class.
        interval: bootstrap interval of the overall MRR, by triple.
        paired: comparison with a reference such as the best single model.
        answer_ranks: the ranks (Q,) that the metrics were computed from; None after ``from_json``.
    """

    grouping: str
    resamples: int
    settings: Mapping[str, Any]
    by_direction: Mapping[str, Metrics]
    by_group: Mapping[str, Metrics]
    by_cardinality: Mapping[str, Metrics]
    interval: Interval
    paired: PairedTest | None = None
    answer_ranks: AnswerRanks | None = field(default=None, compare=False, repr=False)

    @property
    def kind(self) -> str:
        """Whether this is a single ``model`` or an ``ensemble``."""
        return "ensemble" if self.settings else "model"

    def by(self, part: str) -> Mapping[str, Metrics]:
        """Return the metrics by label of one of ``PARTS``."""
        parts: Mapping[str, Metrics] = getattr(self, f"by_{part}")
        return parts

    def to_json(self) -> dict[str, Any]:
        """Return everything but the ranks as plain JSON values."""
        values = {
            "name": self.name,
            "provenance": self.provenance.to_json(),
            "tie_rule": TIE_RULE,
            "grouping": self.grouping,
            "seed": self.seed,
            "resamples": self.resamples,
            "settings": dict(self.settings),
            "overall": self.overall.to_json(),
            **{f"by_{part}": {label: m.to_json() for label, m in self.by(part).items()} for part in PARTS},
            "interval": list(self.interval),
            "paired": None if self.paired is None else {**asdict(self.paired), "interval": list(self.paired.interval)},
        }
        return EVALUATION.stamp(values)

    @classmethod
    def from_json(cls, value: Mapping[str, Any], where: str = "the evaluation") -> Self:
        """Rebuild an evaluation, without the ranks, from the result of ``to_json``; ``where`` names it in errors."""
        EVALUATION.check(value, where)
        if value.get("tie_rule") != TIE_RULE:
            raise InputError(
                f"{where} has the tie rule {value.get('tie_rule')!r}, expected {TIE_RULE!r}. {EVALUATION.remedy}"
            )
        with EVALUATION.parsing(where):
            return cls._from_json(value)

    @classmethod
    def _from_json(cls, value: Mapping[str, Any]) -> Self:
        def by(part: str) -> dict[str, Metrics]:
            return {label: Metrics.from_json(metrics) for label, metrics in value[f"by_{part}"].items()}

        def interval(ends: Any) -> Interval:
            return Interval(*map(number, ends))

        paired = None
        if value["paired"] is not None:
            given = mapping(value["paired"])
            paired = PairedTest(
                reference=text(given["reference"]),
                difference=number(given["difference"]),
                interval=interval(given["interval"]),
                p_value=number(given["p_value"]),
                exact=bool(given["exact"]),
            )
        return cls(
            name=text(value["name"]),
            provenance=Provenance.from_json(value["provenance"]),
            grouping=text(value["grouping"]),
            seed=whole(value["seed"]),
            resamples=whole(value["resamples"]),
            settings=mapping(value["settings"]),
            overall=Metrics.from_json(value["overall"]),
            by_direction=by("direction"),
            by_relation=by("relation"),
            by_group=by("group"),
            by_cardinality=by("cardinality"),
            interval=interval(value["interval"]),
            paired=paired,
        )


def evaluate(
    ranks: PackedRanks,
    weights: EnsembleWeights | str,
    *,
    name: str | None = None,
    reference: str | None = None,
    seed: int = 0,
    jobs: int = 1,
) -> Evaluation:
    """Evaluate an ensemble, or one model alone, on packed ranks.

    If the weights were fitted on ranks among other candidates, the setting ``fitted_among`` of the result says so.

    Args:
        ranks: packed ranks of any split, usually test.
        weights: weights that were fitted on validation ranks of the same models, or the name of one model.
        name: name of the ensemble in tables; its method by default.
        reference: model for the paired test, usually the best on validation. A model is not compared with itself.
        seed: seed of the resampling.
        jobs: number of threads.
    """
    if isinstance(weights, str):
        ours = NamedRanks(name or weights, model_ranks(ranks, weights, jobs=jobs))
        grouping = Grouping.by_relation_and_direction(ranks.relations)
    else:
        settings = {key: value for key, value in weights.settings.items() if key != "cross_validation"}
        method = str(settings.get("method", "ensemble"))
        if weights.fitted_among_others(ranks.provenance.candidates):
            settings["fitted_among"] = weights.candidates
        ours = NamedRanks(name or method, weights.answer_ranks(ranks, jobs=jobs), settings)
        grouping = weights.grouping
    theirs = None
    if reference is not None and reference != weights:
        theirs = NamedRanks(reference, model_ranks(ranks, reference, jobs=jobs))
    return evaluate_ranks(ours, ranks, grouping, reference=theirs, seed=seed)


def model_ranks(packed: PackedRanks, model: str, *, jobs: int = 1) -> AnswerRanks:
    """Return the ranks (Q,) that one model alone gives the answers."""
    return objective.answer_ranks(packed, vertices(packed.n_models)[packed.model_index(model)], jobs=jobs)


def evaluate_ranks(
    ours: NamedRanks,
    packed: PackedRanks,
    grouping: Grouping,
    *,
    reference: NamedRanks | None = None,
    seed: int = 0,
    resamples: int = 1000,
) -> Evaluation:
    """Evaluate the ranks (Q,) of the answers to the queries of ``packed``.

    ``reference`` holds the ranks (Q,) for the paired test, usually those of the best single model.
    """
    _check_fit(ours, packed)
    queries, paired = packed.queries, None
    if reference is not None:
        _check_fit(reference, packed)
        paired = paired_test(
            ours.reciprocal,
            reference.reciprocal,
            queries.triple,
            reference=reference.name,
            seed=seed,
            resamples=resamples,
        )
    return Evaluation(
        name=ours.name,
        provenance=packed.provenance,
        grouping=grouping.scheme,
        seed=seed,
        resamples=resamples,
        settings=dict(ours.settings),
        overall=Metrics.measure(ours.ranks),
        by_direction=_by_part(ours.ranks, queries.direction, DIRECTIONS),
        by_relation=_by_part(ours.ranks, queries.relation, packed.relations),
        by_group=_by_part(ours.ranks, grouping.groups_of(queries), grouping.labels),
        by_cardinality=_by_cardinality(ours.ranks, packed),
        interval=bootstrap_interval(ours.reciprocal, queries.triple, seed=seed, resamples=resamples),
        paired=paired,
        answer_ranks=ours.ranks,
    )


def relation_spread(answer_ranks_by_model: Mapping[str, AnswerRanks], packed: PackedRanks) -> dict[str, Any]:
    """Return how much the MRR of the models differs in each relation, as plain JSON values.

    The spread of a relation is the population standard deviation of its MRR over the models. The paper explains its
    gains by one number per data set and does not say how it weights relations: ``std_by_queries`` weights them by
    their queries, ``std_by_relations`` equally. ``relations`` has an entry for every relation with queries: the
    number of queries, the spread, the best and the worst model (the first of equals), and the MRR of each model.
    """
    for name, answer_ranks in answer_ranks_by_model.items():
        _check_fit(NamedRanks(name, answer_ranks), packed)
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


def spread_from_json(value: Any) -> dict[str, Any]:
    """Return the result of ``relation_spread`` that was kept in a record, if it is one."""
    models = texts(value["models"])
    for mean in ("std_by_queries", "std_by_relations"):
        number(value[mean])
    for entry in mapping(value["relations"]).values():
        whole(entry["queries"])
        number(entry["std"])
        for name in (text(entry["best"]), text(entry["worst"]), *models):
            number(entry["mrr"][name])
    return mapping(value)


def _by_part(answer_ranks: AnswerRanks, part: npt.NDArray[Any], labels: Sequence[str]) -> dict[str, Metrics]:
    """Measure every part that has queries; ``part`` (Q,) holds an index into ``labels`` per query.

    Parts with the same ranks share their metrics: among many relations, most have few queries.
    """
    order = np.argsort(part, kind="stable")
    present, begins = np.unique(part[order], return_index=True)
    parts = np.split(order, begins[1:])
    measured: dict[bytes, Metrics] = {}
    found = {}
    for i, index in zip(present, parts, strict=True):
        ranks = answer_ranks[index]
        key = ranks.ahead.tobytes() + ranks.tied.tobytes()
        if key not in measured:
            measured[key] = Metrics.measure(ranks)
        found[labels[i]] = measured[key]
    return found


def _by_cardinality(answer_ranks: AnswerRanks, packed: PackedRanks) -> dict[str, Metrics]:
    """Measure the queries of every cardinality class except those of relations of unknown class."""
    if not packed.cardinalities:
        return {}
    labels, class_of_relation = np.unique(packed.cardinalities, return_inverse=True)
    classes = _by_part(answer_ranks, class_of_relation[packed.queries.relation], labels.tolist())
    return {label: metrics for label, metrics in classes.items() if label}


def _check_fit(ours: NamedRanks, packed: PackedRanks) -> None:
    """Raise an error if the ranks belong to other queries, or if the split has no queries."""
    split = f"{packed.provenance.dataset} ({packed.provenance.split})"
    if len(ours.ranks) != packed.n_queries:
        raise RanksError(
            f"{ours.name!r} has ranks of {len(ours.ranks):,} queries, the packed ranks of {split} have "
            f"{packed.n_queries:,}. Compute both from the same packed ranks."
        )
    if not packed.n_queries:
        raise RanksError(f"there is nothing to evaluate: {split} has no queries. Choose a split that has triples.")
