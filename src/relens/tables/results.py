"""The tables of evaluations: one evaluation, its parts, several evaluations, and the spread of the models."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from relens.errors import InputError, nearest
from relens.evaluation import Evaluation, Metrics
from relens.metrics import METRICS, Metric
from relens.records import TIE_RULE
from relens.run_comparison import RunComparison
from relens.significance import LEVEL
from relens.tables.table import Column, Row, Table

INTERVAL = f"{LEVEL:.0%} interval"
QUERIES = Column("queries", ",d")


def evaluation_table(evaluation: Evaluation) -> Table:
    """Return one evaluation: overall, by direction and by cardinality class, with all metrics."""
    parts = {
        "overall": evaluation.overall,
        **{f"direction {label}": metrics for label, metrics in evaluation.by_direction.items()},
        **{f"class {label}": metrics for label, metrics in evaluation.by_cardinality.items()},
    }
    low, high = evaluation.interval
    notes = [f"overall MRR: {INTERVAL} [{low:.4f}, {high:.4f}], {evaluation.resamples:,} bootstrap resamples by triple"]
    if evaluation.paired is not None:
        paired = evaluation.paired
        low, high = paired.interval
        notes.append(
            f"overall MRR minus that of {paired.reference}: {paired.difference:+z.4f}, {INTERVAL} [{low:+z.4f}, "
            f"{high:+z.4f}], p = {paired.p_value:.2g} ({'exact ' * paired.exact}paired sign-flip test by triple)"
        )
    if evaluation.settings:
        notes.append("settings: " + ", ".join(f"{name} {value}" for name, value in evaluation.settings.items()))
    return _metrics_table(f"Evaluation of {evaluation.name}", "part", parts, evaluation, tuple(notes))


def breakdown_table(evaluation: Evaluation, by: str = "relation") -> Table:
    """Return one evaluation by one of ``relens.evaluation.PARTS``; parts with the most queries come first."""
    ordered = dict(sorted(evaluation.by(by).items(), key=lambda part: -part[1].queries))
    return _metrics_table(f"Evaluation of {evaluation.name} by {by}", by, ordered, evaluation)


def comparison_table(
    evaluations: Sequence[Evaluation], *, ensemble: str | None = None, over: Sequence[str] | None = None
) -> Table:
    """Return evaluations of one split, one row each, the highest MRR first.

    A row ``Relative ↑`` follows for every name in ``over``: the improvement of ``ensemble`` (by default the last
    evaluation) over it. By default, ``over`` is the reference of the ensemble's paired test, usually the best single
    model; the paper's own tables give the improvement over ``simple``.
    """
    facts = _facts(evaluations)
    by_name = {evaluation.name: evaluation for evaluation in evaluations}
    improved = _named(by_name, ensemble or evaluations[-1].name)
    if over is None:
        over = [improved.paired.reference] if improved.paired and improved.paired.reference in by_name else []
    first, *others = (metric_column(metric) for metric in compared_metrics())
    return Table(
        title=f"Comparison on {facts['data set']} ({facts['split']})",
        columns=(
            Column("method", align="left"),
            Column("kind", align="left", spare=35),
            first,
            Column(INTERVAL, ".4f", spare=60),
            *others,
            Column("Δ MRR", "+z.4f"),
            Column("p", ".2g", spare=20),
        ),
        rows=(
            *(_comparison_row(evaluation) for evaluation in by_mrr(evaluations)),
            *(_relative_row(improved, _named(by_name, base)) for base in over),
        ),
        facts=facts,
        notes=_comparison_notes(evaluations, relative=bool(over)),
        mark_best=True,
    )


def run_comparison_table(found: RunComparison) -> Table:
    """Return two runs side by side: overall, then by relation, those with the most queries first."""
    overall = found.ours.paired
    assert overall is not None  # a comparison of runs always has a paired test
    relations = sorted(found.ours.by_relation.items(), key=lambda part: -part[1].queries)
    lines = [("all relations", found.ours.overall, found.theirs.overall, overall)]
    lines += [(label, mine, found.theirs.by_relation[label], found.by_relation[label]) for label, mine in relations]
    return Table(
        title=f"{found.ours.name}, beside {found.theirs.name}",
        columns=(
            Column("relation", align="left"),
            QUERIES,
            Column("MRR", ".4f"),
            Column("other MRR", ".4f"),
            Column("Δ MRR", "+z.4f"),
            Column(INTERVAL, "+z.4f", spare=60),
            Column("p", ".2g", spare=20),
        ),
        rows=tuple(
            Row((label, mine.queries, mine.mrr, other.mrr, test.difference, test.interval, test.p_value))
            for label, mine, other, test in lines
        ),
        facts=_facts([found.ours]),
        notes=(
            f"Δ MRR: paired query by query; {INTERVAL} of {found.ours.resamples:,} bootstrap resamples by triple, "
            f"two-sided p of a paired sign-flip test by triple",
            "p of single relations are not corrected for the number of relations",
        ),
    )


def spread_table(spread: Mapping[str, Any], evaluations: Sequence[Evaluation]) -> Table:
    """Return ``relens.evaluation.relation_spread`` of the models in ``evaluations``; the largest spread comes first."""
    ordered = sorted(spread["relations"].items(), key=lambda relation: -relation[1]["std"])
    return Table(
        title=f"Relation-wise MRR of {', '.join(spread['models'])}",
        columns=(
            Column("relation", align="left"),
            QUERIES,
            Column("std", ".4f"),
            Column("best", align="left"),
            Column("best MRR", ".4f"),
            Column("worst", align="left"),
            Column("worst MRR", ".4f"),
        ),
        rows=tuple(
            Row((label, r["queries"], r["std"], r["best"], r["mrr"][r["best"]], r["worst"], r["mrr"][r["worst"]]))
            for label, r in ordered
        ),
        facts=_facts(evaluations),
        notes=(
            f"std over the models, mean over relations: {spread['std_by_queries']:.4f} weighted by queries, "
            f"{spread['std_by_relations']:.4f} unweighted",
        ),
    )


def by_mrr(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return the evaluations sorted by MRR, the best first; equal ones keep their order."""
    return sorted(evaluations, key=lambda evaluation: -evaluation.overall.mrr)


def metric_column(metric: Metric) -> Column:
    """Return the column of a metric."""
    return Column(metric.heading, metric.spec, better=metric.better, spare=metric.spare)


def compared_metrics() -> list[Metric]:
    """Return the metrics that comparisons show: those of realistic ranks, the MRR first."""
    return [metric for metric in METRICS.values() if metric.ties == "realistic"]


def _metrics_table(
    title: str, heading: str, parts: Mapping[str, Metrics], evaluation: Evaluation, notes: tuple[str, ...] = ()
) -> Table:
    """Return all metrics of labelled parts of one evaluation."""
    return Table(
        title=title,
        columns=(Column(heading, align="left"), QUERIES, *map(metric_column, METRICS.values())),
        rows=tuple(
            Row((label, metrics.queries, *(metrics.get(name) for name in METRICS))) for label, metrics in parts.items()
        ),
        facts=_facts([evaluation]),
        notes=notes,
    )


def _comparison_row(evaluation: Evaluation) -> Row:
    mrr, *others = (evaluation.overall.get(metric.name) for metric in compared_metrics())
    paired = evaluation.paired
    difference, p_value = (paired.difference, paired.p_value) if paired else (None, None)
    return Row((evaluation.name, evaluation.kind, mrr, evaluation.interval, *others, difference, p_value))


def _relative_row(ours: Evaluation, base: Evaluation) -> Row:
    """Return the improvement of each metric as a fraction of the base's value."""
    first, *others = (_improvement(metric, ours.overall, base.overall) for metric in compared_metrics())
    return Row((f"Relative ↑ of {ours.name} over {base.name}", "", first, None, *others, None, None), spec="+.2%")


def _improvement(metric: Metric, ours: Metrics, base: Metrics) -> float | None:
    new, old = ours.get(metric.name), base.get(metric.name)
    if new is None or not old:
        return None
    return (old - new if metric.better == "lower" else new - old) / old


def _comparison_notes(evaluations: Sequence[Evaluation], *, relative: bool) -> tuple[str, ...]:
    resamples = _joined(f"{evaluation.resamples:,}" for evaluation in evaluations)
    notes = [f"{INTERVAL} of MRR: {resamples} bootstrap resamples by triple"]
    references = _joined(evaluation.paired.reference for evaluation in evaluations if evaluation.paired)
    if references:
        notes.append(f"Δ MRR: difference to {references}, with the two-sided p of a paired sign-flip test by triple")
    if relative:
        lower = " and ".join(metric.heading for metric in compared_metrics() if metric.better == "lower")
        notes.append("Relative ↑: improvement in per cent" + (f"; of {lower}, the reduction" if lower else ""))
    return tuple(notes)


def _facts(evaluations: Sequence[Evaluation]) -> dict[str, str]:
    """Return the facts that identify the numbers; raise an error if the evaluations are of different ranks."""
    if not evaluations:
        raise InputError("there is nothing to show: no evaluations were given. Evaluate at least one model first.")
    first = evaluations[0]
    expected = asdict(first.provenance)
    for other in evaluations[1:]:
        for name, found in asdict(other.provenance).items():
            if found != expected[name]:
                raise InputError(
                    f"evaluations of {first.name!r} and {other.name!r} do not belong in one table: {name} is "
                    f"{expected[name]!r} and {found!r}. Evaluate both on the same packed ranks."
                )
    return {
        "data set": first.provenance.dataset,
        "split": first.provenance.split,
        "filter": "+".join(first.provenance.filter_splits) or "as imported",
        "ties": TIE_RULE,
        "grouping": _joined(evaluation.grouping for evaluation in evaluations),
        "candidates": first.provenance.among(first.overall.queries),
        "seed": _joined(str(evaluation.seed) for evaluation in evaluations),
    }


def _joined(values: Iterable[str]) -> str:
    """Join the different values, in order."""
    return " / ".join(dict.fromkeys(values))


def _named(by_name: Mapping[str, Evaluation], name: str) -> Evaluation:
    if name not in by_name:
        raise InputError(f"no evaluation is named {name!r}; {nearest(name, by_name)}")
    return by_name[name]
