"""The page of a report: the template filled with sentences, tables and drawings."""

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from relens import __version__
from relens.checksums import file_checksum
from relens.evaluation import Evaluation
from relens.records import TIE_RULE
from relens.reports.figures import LARGEST
from relens.reports.graph import graph_numbers, largest_relations
from relens.reports.material import Material
from relens.reports.relations import ALPHA, FIXED_COLUMNS, LISTED, MIN_QUERIES, RelationRow, relation_table
from relens.reports.reliability import bin_table, reliability_table
from relens.reports.style import Drawing, count, method_label, mrr, p, share
from relens.reports.summary import glossary, headline, highest_row, highest_sentence, input_phrase, key_numbers
from relens.significance import LEVEL
from relens.tables import Column, Row, Table
from relens.tables.results import by_mrr, compared_metrics, metric_column
from relens.training.log import rising
from relens.visible import visible

GENERATOR = '<meta name="generator" content="relens'
FOLDER = Path(__file__).parent
"""The folder of the templates."""
ALL_UP_TO = 60
"""The table of relations shows up to this many rows at once; more scroll in a box."""
_PACKAGES = ("numpy", "numba", "joblib", "matplotlib", "optuna", "scikit-learn", "torch")


def render(
    material: Material,
    rows: Sequence[RelationRow],
    drawings: Mapping[str, Drawing],
    graph: Table | None,
    log: str,
) -> str:
    """Return the page, one HTML file that needs no other. It has no times: equal runs have equal pages.

    Args:
        material: the data of the report.
        rows: the rows of the table of relations.
        drawings: the figures by name.
        graph: the table of all relations of the graph.
        log: the file of the page with the times; empty if there is none.
    """
    return fill(
        "page.html",
        shown=file_checksum(material.run.comparison_path),
        js=(FOLDER / "page.js").read_text(encoding="utf-8"),
        drawings=drawings,
        log=log,
        **_summary_of(material, rows),
        **_relations_of(material, rows),
        **_details_of(material),
        graph_relations=None if graph is None else largest_relations(graph, LISTED),
        n_graph_relations=0 if graph is None else len(graph.rows),
    )


def fill(template: str, **variables: Any) -> str:
    """Return a template of this package, filled with variables; all have the style and the version of relens."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_for_people,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": count, "method": method_label}
    css = (FOLDER / "page.css").read_text(encoding="utf-8")
    return environment.get_template(template).render(css=css, version=__version__, **variables)


def _for_people(value: Any) -> Any:
    """Return a value with control characters as escapes, if it is text and not markup."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _summary_of(material: Material, rows: Sequence[RelationRow]) -> dict[str, Any]:
    """Return the variables of the header, the comparison and the glossary."""
    return {
        "run": material.run,
        "headline": headline(material),
        "highest": highest_sentence(highest_row(material), method_label(material.ensemble)),
        "numbers": key_numbers(material, rows),
        "level": share(LEVEL),
        "comparison": comparison_table(material),
        "best_single": material.comparison.best_single,
        "ensemble": material.ensemble,
        "glossary": glossary(material),
    }


def _relations_of(material: Material, rows: Sequence[RelationRow]) -> dict[str, Any]:
    """Return the variables of the sections on weights and relations."""
    simple = material.shared_weights()
    relations = list(dict.fromkeys(row.relation for row in rows))
    listed = set(relations[:LISTED])
    shown = [row for row in rows if row.relation in listed]
    return {
        "inputs": weight_inputs(material),
        "simple": simple[0] if simple else "",
        "models": material.test.models,
        "relations": relation_table(material, shown),
        "listed": LISTED,
        "n_shown": len(shown),
        "fixed": FIXED_COLUMNS,
        "equal": any(row.equal for row in rows),
        "largest": LARGEST,
        "all_up_to": ALL_UP_TO,
        "n_rows": len(rows),
        "n_relations": len(relations),
        "min_queries": MIN_QUERIES,
        "alpha": ALPHA,
        "tested": sum(row.paired is not None for row in rows),
    }


def _details_of(material: Material) -> dict[str, Any]:
    """Return the variables of the sections on training, the graph and the settings."""
    weights = material.comparison.weights
    return {
        "facts": facts(material),
        "classes": class_table(material),
        "trainings": training_table(material),
        "reliability": None if material.reliability is None else reliability_table(material.reliability),
        "reliability_bins": None if material.reliability is None else bin_table(material.reliability),
        "graph": graph_numbers(material.dataset),
        "missing": material.missing,
        "methods": method_table(material),
        "notes": [f"{method_label(name)}: {line}" for name, w in weights.items() for line in w.notes],
        "model_settings": {name: t.settings for name, t in material.trainings.items() if t.settings},
        "versions": versions(),
    }


def facts(material: Material) -> dict[str, str]:
    """Return the facts that identify the numbers of the page."""
    evaluation = material.evaluation(material.ensemble)
    provenance = evaluation.provenance
    return {
        "data set": provenance.dataset,
        "fingerprint": provenance.fingerprint,
        "split": provenance.split,
        "filter": " + ".join(provenance.filter_splits) or "as imported",
        "candidates": provenance.among(evaluation.overall.queries),
        "ties": f"{TIE_RULE} (a tied block shares its mean rank); {_without_ties(evaluation)}",
        "grouping": evaluation.grouping,
        "seed": str(evaluation.seed),
        "resamples": count(evaluation.resamples),
        "queries": f"{count(material.valid.n_queries)} valid, {count(material.test.n_queries)} test",
    }


def _without_ties(evaluation: Evaluation) -> str:
    """Return how much the ties could change the MRR."""
    name, overall = method_label(evaluation.name), evaluation.overall
    won, lost = overall.mrr_optimistic, overall.mrr_pessimistic
    if mrr(won) == mrr(lost):
        return f"they do not matter here: won or lost, the MRR of {name} is {mrr(won)}"
    return f"the MRR of {name} would be {mrr(won)} were all ties won, {mrr(lost)} were all lost"


def comparison_table(material: Material) -> Table:
    """Return every model and method with its metrics, the highest MRR first; the ensemble's row is marked."""
    first, *others = (metric_column(metric) for metric in compared_metrics())
    rows = [
        Row(_comparison_values(evaluation), css="marked" if evaluation.name == material.ensemble else "")
        for evaluation in by_mrr(material.comparison.evaluations)
    ]
    columns = (
        Column("method", align="left"),
        Column("kind", align="left"),
        first,
        Column(f"{share(LEVEL)} interval", ".4f"),
        *others,
        Column(f"gain over {material.comparison.best_single}", "+z.4f"),
        Column("interval of that gain", "+z.4f"),
        Column("p of that gain"),
    )
    return Table("Models and ensembles on the test split", columns, tuple(rows))


def _comparison_values(evaluation: Evaluation) -> tuple[Any, ...]:
    first, *others = (evaluation.overall.get(metric.name) for metric in compared_metrics())
    paired = evaluation.paired
    gain = (None, None, None) if paired is None else (paired.difference, paired.interval, p(paired.p_value))
    return (method_label(evaluation.name), evaluation.kind, first, evaluation.interval, *others, *gain)


def weight_inputs(material: Material) -> str:
    """Return what the weights in the figure are applied to, because weights of different inputs do not compare."""
    shared, own = material.shared_weights(), material.group_weights()
    found = ([shared] if shared else []) + ([(material.ensemble, own)] if own else [])
    words = {method_label(name): input_phrase(weights.input) for name, weights in found}
    if len(set(words.values())) < 2:
        return "".join(f"The weights are applied to {word}." for word in set(words.values()))
    parts = " and ".join(f"those of {name} to {word}" for name, word in words.items())
    return f"The weights are applied to different things, {parts}, so they do not compare across that line."


def class_table(material: Material) -> Table | None:
    """Return the MRR of the ensemble and the best single model by cardinality class; None if classes are unknown."""
    ours, best = material.evaluation(material.ensemble), material.evaluation(material.comparison.best_single)
    if not ours.by_cardinality:
        return None
    relations = Counter(material.test.cardinalities)
    columns = (
        Column("class", align="left"),
        Column("relations", "d"),
        Column("test queries", ",d"),
        Column(best.name, ".4f"),
        Column(method_label(ours.name), ".4f"),
        Column("gain", "+z.4f"),
    )
    rows = []
    for label, metrics in ours.by_cardinality.items():
        theirs = best.by_cardinality[label].mrr
        rows.append(Row((label, relations[label], metrics.queries, theirs, metrics.mrr, metrics.mrr - theirs)))
    return Table("Test MRR by cardinality class", columns, tuple(rows))


def training_table(material: Material) -> Table | None:
    """Return the end of each model's training; None if the run trained no models."""
    rows = []
    for name, training in material.trainings.items():
        result, last = training.result, training.records[-1] if training.records else {}
        settings = (training.settings.get("model"), training.settings.get("loss"))
        best = result.get("best_mrr", result.get("mrr"))
        rows.append(Row((name, *settings, last.get("step", 0), best)))
    columns = (
        *(Column(heading, align="left") for heading in ("name", "model", "loss")),
        Column("steps", ",d"),
        Column("best validation MRR", ".4f"),
    )
    notes = [rising(name, training.records) for name, training in material.trainings.items()]
    more = material.run.unspent()
    notes += [f"The run was planned for a time. {more}"] if more else []
    return Table("How training ended", columns, tuple(rows), notes=tuple(filter(None, notes))) if rows else None


def method_table(material: Material) -> Table:
    """Return the settings of each method, and which of them cross-validation chose."""
    rows = []
    for name, weights in material.comparison.weights.items():
        hidden = {"method", "cross_validation"} | (set() if weights.own.any() else {"grouping"})
        settings = ", ".join(f"{key} {value}" for key, value in weights.settings.items() if key not in hidden)
        rows.append(Row((method_label(name), settings, _chosen(weights.settings.get("cross_validation", {})))))
    headings = ("method", "settings", "chosen by cross-validation")
    columns = tuple(Column(heading, align="left") for heading in headings)
    return Table("How the weights of each method came about", columns, tuple(rows))


def _chosen(tried: Mapping[str, Mapping[str, float]]) -> str | None:
    """Return the settings that cross-validation chose; ``tried`` holds an MRR for each input and shrinkage."""
    choices = (("input", len(tried)), ("shrinkage (kappa)", max(map(len, tried.values()), default=0)))
    return " and ".join(what for what, n in choices if n > 1) or None


def versions() -> dict[str, str]:
    """Return the versions of relens, Python and the packages that compute reports."""
    found = {"relens": __version__, "Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
