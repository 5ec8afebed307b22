"""The tables of evaluations: one, its parts, several side by side, and the spread of the models."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

from relens.errors import InputError, nearest
from relens.evaluation import Evaluation, Metrics
from relens.records import TIE_RULE
from relens.significance import LEVEL
from relens.tables.table import Column, Row, Table

Part = Literal["direction", "relation", "group", "cardinality"]

MEASURES = {
    "queries": Column("queries", ",d"),
    "mrr": Column("MRR", ".4f", better="higher"),
    "hits_at_1": Column("Hit@1", ".4f", better="higher"),
    "hits_at_3": Column("Hit@3", ".4f", better="higher", spare=3),
    "hits_at_10": Column("Hit@10", ".4f", better="higher", spare=5),
    "mean_rank": Column("MR", ",.1f", better="lower", spare=1),
    "mrr_optimistic": Column("MRR optimistic", ".4f", better="higher", spare=4),
    "mrr_pessimistic": Column("MRR pessimistic", ".4f", better="higher", spare=4),
}
COMPARED = ("mrr", "hits_at_1", "hits_at_3", "hits_at_10", "mean_rank")
INTERVAL = f"{LEVEL:.0%} interval"


def evaluation_table(evaluation: Evaluation) -> Table:
    """Show one evaluation: overall, by direction and by cardinality class, with the bounds that ties leave open."""
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


def breakdown_table(evaluation: Evaluation, by: Part = "relation") -> Table:
    """Show one evaluation part by part, the parts with most queries first."""
    parts: Mapping[str, Metrics] = getattr(evaluation, f"by_{by}")
    ordered = dict(sorted(parts.items(), key=lambda part: -part[1].queries))
    return _metrics_table(f"Evaluation of {evaluation.name} by {by}", by, ordered, evaluation)


def comparison_table(
    evaluations: Sequence[Evaluation], *, ensemble: str | None = None, over: Sequence[str] | None = None
) -> Table:
    """Show evaluations of one split side by side, one row each, as the paper's Table 8 does.

    A row ``Relative ↑`` follows for every name in ``over``: the improvement of ``ensemble`` (the last evaluation
    unless named) over it. Without ``over`` that is the reference of the ensemble's paired test, usually the best
    single model; the paper's own tables give the improvement over ``simple``.
    """
    facts = _facts(evaluations)
    by_name = {evaluation.name: evaluation for evaluation in evaluations}
    improved = _named(by_name, ensemble or evaluations[-1].name)
    if over is None:
        over = [improved.paired.reference] if improved.paired and improved.paired.reference in by_name else []
    measures = [MEASURES[name] for name in COMPARED]
    return Table(
        title=f"Comparison on {facts['data set']} ({facts['split']})",
        columns=(
            Column("method", align="left"),
            measures[0],
            Column(INTERVAL, ".4f", spare=6),
            *measures[1:],
            Column("Δ MRR", "+z.4f"),
            Column("p", ".2g", spare=2),
        ),
        rows=(
            *(_comparison_row(evaluation) for evaluation in evaluations),
            *(_relative_row(improved, _named(by_name, base)) for base in over),
        ),
        facts=facts,
        notes=_comparison_notes(evaluations, relative=bool(over)),
        mark_best=True,
    )


def spread_table(spread: Mapping[str, Any], evaluations: Sequence[Evaluation]) -> Table:
    """Show ``relens.evaluation.relation_spread`` of the models that ``evaluations`` evaluate, largest spread first."""
    ordered = sorted(spread["relations"].items(), key=lambda relation: -relation[1]["std"])
    return Table(
        title=f"Relation-wise MRR of {', '.join(spread['models'])}",
        columns=(
            Column("relation", align="left"),
            Column("queries", ",d"),
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


def _metrics_table(
    title: str, heading: str, parts: Mapping[str, Metrics], evaluation: Evaluation, notes: tuple[str, ...] = ()
) -> Table:
    """Show all measures of labelled parts of one evaluation."""
    return Table(
        title=title,
        columns=(Column(heading, align="left"), *MEASURES.values()),
        rows=tuple(Row((label, *(getattr(metrics, name) for name in MEASURES))) for label, metrics in parts.items()),
        facts=_facts([evaluation]),
        notes=notes,
    )


def _comparison_row(evaluation: Evaluation) -> Row:
    mrr, *others = (getattr(evaluation.overall, name) for name in COMPARED)
    paired = evaluation.paired
    difference, p_value = (paired.difference, paired.p_value) if paired else (None, None)
    return Row((evaluation.name, mrr, evaluation.interval, *others, difference, p_value))


def _relative_row(ours: Evaluation, base: Evaluation) -> Row:
    """Return the improvements as fractions of the base's values; of the mean rank, the reduction."""
    improvements = []
    for name in COMPARED:
        new, old = getattr(ours.overall, name), getattr(base.overall, name)
        gain = old - new if MEASURES[name].better == "lower" else new - old
        improvements.append(gain / old if old else None)
    label = f"Relative ↑ of {ours.name} over {base.name}"
    return Row((label, improvements[0], None, *improvements[1:], None, None), spec="+.2%")


def _comparison_notes(evaluations: Sequence[Evaluation], relative: bool) -> tuple[str, ...]:
    resamples = _joined(f"{evaluation.resamples:,}" for evaluation in evaluations)
    notes = [f"{INTERVAL} of MRR: {resamples} bootstrap resamples by triple"]
    references = _joined(evaluation.paired.reference for evaluation in evaluations if evaluation.paired)
    if references:
        notes.append(f"Δ MRR: difference to {references}, with the two-sided p of a paired sign-flip test by triple")
    if relative:
        notes.append("Relative ↑: improvement in per cent; of MR, the reduction")
    return tuple(notes)


def _facts(evaluations: Sequence[Evaluation]) -> dict[str, str]:
    """Return what every table must name; evaluations of different ranks do not belong in one table."""
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
        "candidates": first.provenance.candidates,
        "seed": _joined(str(evaluation.seed) for evaluation in evaluations),
    }


def _joined(values: Iterable[str]) -> str:
    """Name every different value once, in order."""
    return " / ".join(dict.fromkeys(values))


def _named(by_name: Mapping[str, Evaluation], name: str) -> Evaluation:
    if name not in by_name:
        raise InputError(f"no evaluation is named {name!r}; {nearest(name, by_name)}")
    return by_name[name]
