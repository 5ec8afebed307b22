"""The page: what the template shows, as sentences, tables and drawings."""

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from relens import __version__
from relens.data.checks import describe
from relens.data.dataset import Dataset
from relens.data.queries import SPLITS
from relens.ensemble.inputs import INPUTS
from relens.ensemble.weights import EnsembleWeights
from relens.evaluation import Evaluation
from relens.records import TIE_RULE
from relens.reports.curves import Curve
from relens.reports.figures import LARGEST, curve_label, method_label
from relens.reports.highest import Highest, highest_row
from relens.reports.material import Material
from relens.reports.patterns import relation_patterns
from relens.reports.relations import ALPHA, MIN_QUERIES, RelationRow
from relens.reports.style import Drawing
from relens.significance import LEVEL

GENERATOR = '<meta name="generator" content="relens'
NOTHING = "–"
ALL_UP_TO = 60
"""Rows of the relations' table that are all shown at once; more scroll in a box."""
_PACKAGES = ("numpy", "numba", "joblib", "matplotlib", "optuna", "scikit-learn", "torch")

INPUT_NAMES = {name: f"ranks on the scale {name}" for name in INPUTS} | {"rank": "ranks", "score": "score gaps"}
INPUT_WORDS = INPUT_NAMES | {"score": "score gaps, each model's in units of its own"}


@dataclass(frozen=True)
class Grid:
    """A table of text: ``head`` names the columns, the first cell of each row names the row."""

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    marked: int | None = None
    """The row to stress."""


def render(
    material: Material, rows: Sequence[RelationRow], curves: Sequence[Curve], drawings: Mapping[str, Drawing]
) -> str:
    """Return the page, one HTML file that needs no other."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder, simple = Path(__file__).parent, material.weights_of("simple")
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"mrr": _mrr, "signed": _signed, "count": _count, "p": _p, "method": method_label}
    return environment.get_template("page.html").render(
        version=__version__,
        css=(folder / "page.css").read_text(encoding="utf-8"),
        js=(folder / "page.js").read_text(encoding="utf-8"),
        run=material.run,
        facts=facts(material),
        headline=headline(material),
        highest=highest_sentence(highest_row(material), method_label(material.ensemble)),
        numbers=key_numbers(material, rows),
        level=_share(LEVEL),
        comparison=comparison_grid(material),
        best_single=material.comparison.best_single,
        ensemble=material.ensemble,
        drawings=drawings,
        inputs=weight_inputs(material),
        simple=simple[0] if simple else "",
        models=material.test.models,
        rows=rows,
        equal=any(row.equal for row in rows),
        largest=LARGEST,
        all_up_to=ALL_UP_TO,
        n_relations=len({row.relation for row in rows}),
        min_queries=MIN_QUERIES,
        alpha=ALPHA,
        tested=sum(row.paired is not None for row in rows),
        classes=class_grid(material),
        curves=curve_grid(curves),
        replayed=any(curve.replayed for curve in curves),
        trainings=training_grid(material),
        graph=graph_facts(material.dataset),
        graph_relations=graph_grid(material.dataset),
        missing=material.missing,
        methods=method_grid(material),
        notes=[f"{method_label(n)}: {line}" for n, w in material.comparison.weights.items() for line in w.notes],
        model_settings={name: training.settings for name, training in material.trainings.items() if training.settings},
        versions=versions(),
    )


def headline(material: Material) -> str:
    """Say in one sentence what the ensemble is worth, with its numbers."""
    ours, best = material.evaluation(material.ensemble), material.evaluation(material.comparison.best_single)
    low, high = ours.interval
    text = (
        f"On the {ours.provenance.split} split of {ours.provenance.dataset} the ensemble {method_label(ours.name)} "
        f"reaches an MRR of {_mrr(ours.overall.mrr)} ({_share(LEVEL)} interval {_mrr(low)} to {_mrr(high)})"
    )
    if ours.paired is None:
        return f"{text}."
    difference, p = ours.paired.difference, ours.paired.p_value
    than = f"{best.name}, the best single model"
    if p >= ALPHA:
        return f"{text}, which cannot be told apart from {than} with {_mrr(best.overall.mrr)} ({_p_of(p)})."
    word = "above" if difference > 0 else "below"
    return f"{text}, {_mrr(abs(difference))} {word} {than} ({_p_of(p)})."


def highest_sentence(found: Highest | None, ensemble: str) -> str:
    """Name the row with the highest MRR where that is not the ensemble's, and say whether that could be chance."""
    if found is None:
        return ""
    difference, p = found.paired.difference, found.paired.p_value
    more = _mrr(difference) if difference >= 0.00005 else "less than 0.0001"
    verdict = (
        f"a paired test cannot tell the two apart ({_p_of(p)})"
        if p >= ALPHA
        else f"a paired test tells the two apart ({_p_of(p)}), but the row was picked on the queries it is tested on"
    )
    name, mrr = method_label(found.name), _mrr(found.mrr)
    return f"The highest MRR in the table is that of {name}: {mrr}, {more} above {ensemble}; {verdict}."


def key_numbers(material: Material, rows: Sequence[RelationRow]) -> list[tuple[str, str]]:
    """Return the figures at the top of the page: a number and what it is."""
    ours, best = material.evaluation(material.ensemble), material.evaluation(material.comparison.best_single)
    simple, tested = material.weights_of("simple"), [row for row in rows if row.paired is not None]
    numbers = [(_mrr(ours.overall.mrr), f"test MRR of {method_label(ours.name)}")]
    if ours.paired is not None:
        relative = _minus(f"{ours.paired.difference / best.overall.mrr:+z.1%}".replace("%", "\N{NO-BREAK SPACE}%"))
        numbers.append((_signed(ours.paired.difference), f"over {best.name} ({relative})"))
    if simple is not None and simple[0] != ours.name:
        over = ours.overall.mrr - material.evaluation(simple[0]).overall.mrr
        numbers.append((_signed(over), f"over {method_label(simple[0])}: {_of_simple(material, simple[1])}"))
    if tested:
        better = sum(row.significant and row.gain > 0 for row in tested)
        worse = sum(row.significant and row.gain < 0 for row in tested)
        numbers.append((f"{better} : {worse}", f"of {len(tested)} relations × directions clearly better : worse"))
    return numbers


def _of_simple(material: Material, simple: EnsembleWeights) -> str:
    """Say what ``simple`` is, and what else differs from the ensemble: the input."""
    ours, theirs = material.comparison.weights[material.ensemble].input, simple.input
    also = (
        ""
        if ours == theirs
        else f", on {INPUT_NAMES[theirs]} where {method_label(material.ensemble)} has {INPUT_NAMES[ours]}"
    )
    return f"one weight vector for all relations{also}"


def facts(material: Material) -> dict[str, str]:
    """Return what every number of the page must name."""
    evaluation = material.evaluation(material.ensemble)
    provenance = evaluation.provenance
    return {
        "data set": provenance.dataset,
        "fingerprint": provenance.fingerprint,
        "split": provenance.split,
        "filter": " + ".join(provenance.filter_splits) or "as imported",
        "candidates": provenance.candidates,
        "ties": f"{TIE_RULE} (a tied block shares its mean rank); {_without_ties(evaluation)}",
        "grouping": evaluation.grouping,
        "seed": str(evaluation.seed),
        "resamples": _count(evaluation.resamples),
        "queries": f"{_count(material.valid.n_queries)} valid, {_count(material.test.n_queries)} test",
    }


def _without_ties(evaluation: Evaluation) -> str:
    """Say what the MRR would be were all ties won, and were all lost."""
    name, won, lost = (
        method_label(evaluation.name),
        evaluation.overall.mrr_optimistic,
        evaluation.overall.mrr_pessimistic,
    )
    if _mrr(won) == _mrr(lost):
        return f"they do not matter here: won or lost, the MRR of {name} is {_mrr(won)}"
    return f"the MRR of {name} would be {_mrr(won)} were all ties won, {_mrr(lost)} were all lost"


def comparison_grid(material: Material) -> Grid:
    """Return every model and method with its metrics, intervals, gain and p."""
    head = ("method", "MRR", f"{_share(LEVEL)} interval", "Hit@1", "Hit@3", "Hit@10", "mean rank",
            f"gain over {material.comparison.best_single}", "interval of that gain", "p of that gain")  # fmt: skip
    names = [evaluation.name for evaluation in material.comparison.evaluations]
    rows = [_comparison_row(evaluation) for evaluation in material.comparison.evaluations]
    return Grid(head, rows, names.index(material.ensemble))


def _comparison_row(evaluation: Evaluation) -> tuple[str, ...]:
    m, paired = evaluation.overall, evaluation.paired
    low, high = evaluation.interval
    gain = (NOTHING,) * 3
    if paired is not None:
        gain = (_signed(paired.difference), "{} to {}".format(*map(_signed, paired.interval)), _p(paired.p_value))
    return (
        method_label(evaluation.name), _mrr(m.mrr), f"{_mrr(low)}–{_mrr(high)}", _mrr(m.hits_at_1), _mrr(m.hits_at_3),
        _mrr(m.hits_at_10), f"{m.mean_rank:,.1f}", *gain,
    )  # fmt: skip


def weight_inputs(material: Material) -> str:
    """Say what the weights in the figure are applied to, because weights of different inputs do not compare."""
    found = {method: weights for method in ("simple", "dsc") if (weights := material.weights_of(method)) is not None}
    words = {method_label(name): INPUT_WORDS[weights.input] for name, weights in found.values()}
    if len(set(words.values())) < 2:
        return "".join(f"The weights are applied to {word}." for word in set(words.values()))
    parts = " and ".join(f"those of {name} to {word}" for name, word in words.items())
    return f"The weights are applied to different things, {parts}, so they do not compare across that line."


def class_grid(material: Material) -> Grid | None:
    """Return the MRR of the best single model and the ensemble by cardinality class; None where classes are unknown."""
    ours, best = material.evaluation(material.ensemble), material.evaluation(material.comparison.best_single)
    if not ours.by_cardinality:
        return None
    relations = Counter(material.test.cardinalities)
    rows = [
        (label, str(relations[label]), _count(m.queries), _mrr(best.by_cardinality[label].mrr), _mrr(m.mrr),
         _signed(m.mrr - best.by_cardinality[label].mrr))
        for label, m in ours.by_cardinality.items()
    ]  # fmt: skip
    return Grid(("class", "relations", "test queries", best.name, method_label(ours.name), "gain"), rows)


def curve_grid(curves: Sequence[Curve]) -> Grid | None:
    """Return where each learning curve ended."""
    rows = [
        (curve_label(curve), str(curve.trials or NOTHING), f"{curve.seconds[-1]:.3g}", _mrr(curve.mrr[-1]))
        for curve in curves
    ]
    return Grid(("search", "Q", "seconds", "validation MRR"), rows) if rows else None


def training_grid(material: Material) -> Grid | None:
    """Return how the training of each model ended; None where nothing was trained."""
    rows = []
    for name, training in material.trainings.items():
        result, last = training.result, training.records[-1] if training.records else {}
        mrr = result.get("best_mrr", result.get("mrr"))
        rows.append((
            name, str(training.settings.get("model", NOTHING)), str(training.settings.get("loss", NOTHING)),
            _count(last.get("step", 0)), f"{last.get('seconds', 0):,.0f}", NOTHING if mrr is None else _mrr(mrr),
        ))  # fmt: skip
    return Grid(("name", "model", "loss", "steps", "seconds", "best validation MRR"), rows) if rows else None


def graph_facts(dataset: Dataset | None) -> list[tuple[str, str]]:
    """Return the statistics of the graph: a number and what it is."""
    if dataset is None:
        return []
    found = describe(dataset)
    duplicates, unseen = found["duplicates"], found["unseen_entities"]
    words = {split: f"{split} triples" for split in SPLITS}
    return [
        *((_count(number), words.get(what, what)) for what, number in found["counts"].items()),
        (_count(sum(duplicates.values())), "repeated triples"),
        (_count(sum(unseen.values())), "valid and test triples with an entity that train lacks"),
        (_count(len(found["relations_absent_from_valid"])), "relations without validation triples"),
    ]


def graph_grid(dataset: Dataset | None) -> Grid | None:
    """Return every relation of the graph: class, sizes, and the patterns its facts follow."""
    if dataset is None:
        return None
    labels, patterns = dataset.relations.labels, relation_patterns(dataset)
    head = ("relation", "class", "train", "valid", "test", "symmetric", "inverse of", "share")
    rows = []
    for r, row in enumerate(describe(dataset)["relations"]):
        inverse = patterns.inverse_of[r]
        rows.append((
            row["relation"], row["class"] or NOTHING, *(_count(row[split]) for split in SPLITS),
            _share(patterns.symmetric[r]), labels[inverse] if inverse >= 0 else NOTHING,
            _share(patterns.inverse[r]) if inverse >= 0 else NOTHING,
        ))  # fmt: skip
    return Grid(head, rows)


def method_grid(material: Material) -> Grid:
    """Return the settings of each method, as they were resolved, and what cross-validation chose of them."""
    rows = []
    for name, weights in material.comparison.weights.items():
        hidden = {"method", "cross_validation"} | (
            {"grouping"} if weights.settings.get("method") == "simple" else set()
        )
        settings = ", ".join(f"{key} {value}" for key, value in weights.settings.items() if key not in hidden)
        rows.append((method_label(name), settings, _chosen(weights.settings.get("cross_validation", {}))))
    return Grid(("method", "settings", "chosen by cross-validation"), rows)


def _chosen(tried: Mapping[str, Mapping[str, float]]) -> str:
    """Name what cross-validation had a choice of; ``tried`` holds an MRR for each input and shrinkage."""
    choices = (("input", len(tried)), ("shrinkage (kappa)", max(map(len, tried.values()), default=0)))
    return " and ".join(what for what, n in choices if n > 1) or NOTHING


def versions() -> dict[str, str]:
    """Return the versions of what computed the report."""
    found = {"relens": __version__, "Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _mrr(value: float) -> str:
    return NOTHING if np.isnan(value) else f"{value:.4f}"


def _signed(value: float) -> str:
    return NOTHING if np.isnan(value) else _minus(f"{value:+z.4f}")


def _minus(number: str) -> str:
    return number.replace("-", "−")


def _count(value: int) -> str:
    return f"{value:,}"


def _share(value: float) -> str:
    return f"{value:.0%}".replace("%", "\N{NO-BREAK SPACE}%")


def _p(value: float) -> str:
    return f"{value:.2g}" if value >= 0.0001 else "< 0.0001"


def _p_of(value: float) -> str:
    return f"p {_p(value)}" if value < 0.0001 else f"p = {_p(value)}"
