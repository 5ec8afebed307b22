"""``relens evaluate --question``: how well an ensemble finds relations, and tells true triples from false ones."""

from collections.abc import Sequence
from typing import Any

from relens.cli.console import TerminalProgress
from relens.files import write_json
from relens.metrics import METRICS
from relens.prediction import ClassificationEvaluation, Ensemble, RelationEvaluation
from relens.prediction.classification import Verdicts
from relens.records import TIE_RULE
from relens.tables import Column, Row, Table
from relens.tables.results import INTERVAL, QUERIES, metric_column

QUESTIONS = ("entity", "relation", "classify")
"""The questions of ``relens evaluate``; all but the first one need the models."""


def evaluate_question(
    ensemble: Ensemble, name: str, question: str, split: str, *, seed: int, by: Sequence[str]
) -> tuple[list[Table], dict[str, Any]]:
    """Evaluate an ensemble, whose weights have a name, keep the record in the run, and return tables and record."""
    tables: list[Table]
    if question == "relation":
        relations = ensemble.evaluate_relations(split, name=name, seed=seed, progress=TerminalProgress())
        tables, record = _relation_tables(relations, by), relations.to_json()
    else:
        verdicts = ensemble.evaluate_classification(split, name=name, seed=seed, progress=TerminalProgress())
        tables, record = _classification_tables(verdicts, by), verdicts.to_json()
    among = None if ensemble.restriction is None else ensemble.restriction.name
    write_json(ensemble.run.evaluation_path(f"{name}-{question}", split, among), record)
    return tables, record


def _relation_tables(found: RelationEvaluation, by: Sequence[str]) -> list[Table]:
    columns = (QUERIES, *map(metric_column, METRICS.values()))
    low, high = found.interval
    best = sorted(found.valid_mrr.items(), key=lambda one: -one[1])[:3]
    tried = ", ".join(f"{name} {mrr:.4f}" for name, mrr in best)
    facts = {
        "data set": found.provenance.dataset,
        "split": found.provenance.split,
        "question": "relation",
        "filter": "other known relations of all splits",
        "candidates": found.provenance.among(found.overall.queries),
        "ties": TIE_RULE,
        "scale": found.scale,
        "seed": str(found.seed),
    }
    notes = (
        f"overall MRR: {INTERVAL} [{low:.4f}, {high:.4f}]",
        f"the scale was chosen on {found.valid_triples:,} validation triples; the best MRR there: {tried}",
    )

    def table(parts: dict[str, Any], heading: str, title: str, notes: tuple[str, ...] = ()) -> Table:
        rows = [Row((label, m.queries, *(m.get(name) for name in METRICS))) for label, m in parts.items()]
        return Table(title, (Column(heading, align="left"), *columns), tuple(rows), facts, notes)

    title = f"Relations found by {found.name}"
    tables = [table({"overall": found.overall}, "part", title, notes)]
    ordered = dict(sorted(found.by_relation.items(), key=lambda part: -part[1].queries))
    return [*tables, table(ordered, "relation", f"{title}, by relation")] if "relation" in by else tables


def _classification_tables(found: ClassificationEvaluation, by: Sequence[str]) -> list[Table]:
    columns = (
        Column("examples", ",d"), Column("accuracy", ".4f", better="higher"), Column("F1", ".4f", better="higher"),
        Column("true, found true", ",d"), Column("true, found false", ",d"), Column("false, found true", ",d"),
        Column("false, found false", ",d"),
    )  # fmt: skip
    facts = {
        "data set": found.provenance.dataset,
        "split": found.provenance.split,
        "question": "classify",
        "candidates": found.provenance.among(2 * found.overall.examples),
        **{f"false triples of {split}": protocol for split, protocol in found.protocol.items()},
        "statistic": found.statistic,
    }
    tried = ", ".join(f"{name} {accuracy:.4f}" for name, accuracy in found.valid_accuracy.items())
    notes = (
        f"{found.own_thresholds:,} relations have thresholds of their own, fitted on validation; the others have the "
        f"threshold of all",
        f"accuracy on validation, thresholds of the other half: {tried}",
    )

    def row(label: str, v: Verdicts) -> Row:
        counts = (v.true_positives, v.false_negatives, v.false_positives, v.true_negatives)
        return Row((label, v.examples, v.accuracy, v.f1, *counts))

    title = f"Triples classified by {found.name}"
    tables = [Table(title, (Column("part", align="left"), *columns), (row("overall", found.overall),), facts, notes)]
    if "relation" in by:
        ordered = sorted(found.by_relation.items(), key=lambda part: -part[1].examples)
        rows = tuple(row(label, verdicts) for label, verdicts in ordered)
        tables.append(Table(f"{title}, by relation", (Column("relation", align="left"), *columns), rows, facts))
    return tables
