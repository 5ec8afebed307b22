"""Tables of searches: those of the paper and the sweep, inputs and shrinkage, learning curves."""

import statistics
from collections.abc import Sequence
from typing import Any

from reproduction.evidence import EVERY, Evidence, load

from .markdown import figure, table
from .paper import Row, by_dataset

TRIALS = (50, 100, 300)


def searches() -> str:
    """Return validation and test MRR and the duration of each search on reduced ranks."""
    rows: list[Row] = [
        (f"`{name}`", lambda evidence, name=name: _found(evidence, [name])) for name in ("mean", "mrr-mean", "stacking")
    ]
    for method in ("simple", "basic", "dsc"):
        for q in TRIALS:
            prefix = f"{method}, tpe, Q = {q}, seed"
            if any(_named(evidence, prefix) for evidence in EVERY):
                rows.append(
                    (
                        f"`{method}`, TPE, Q = {q}",
                        lambda evidence, prefix=prefix: _found(evidence, _named(evidence, prefix)),
                    )
                )
        if method != "basic":
            rows.append((f"`{method}`, sweep", lambda evidence, m=method: _found(evidence, [f"{m}, sweep"])))
            prefix = f"{method}, sweep, resample"
            rows.append(
                (
                    f"`{method}`, sweep, resampled",
                    lambda evidence, prefix=prefix: _found(evidence, _named(evidence, prefix)),
                )
            )
            rows.append(
                (
                    f"`{method}`, sweep, relens's default",
                    lambda evidence, m=method: _found(evidence, [f"{m}, sweep, default"]),
                )
            )
    together = ["dsc, sweep, both directions together", "dsc, sweep, default, both directions together"]
    bounds = [name for name in EVERY[0].searches if name.endswith("on test itself")]
    for name in together + bounds:
        title = name.replace("dsc", "`dsc`").replace("default", "relens's default")
        rows.append((title, lambda evidence, name=name: _found(evidence, [name])))
    return by_dataset("validation MRR, test MRR, seconds", rows)


def inputs() -> str:
    """Return the cross-validated MRR of each input, with the best shrinkage, and of the two extremes of shrinkage."""

    def cell(evidence: Evidence, name: str) -> str:
        scores = evidence.searches["dsc, sweep, default"]["settings"]["cross_validation"][name]
        best = max(scores, key=lambda kappa: scores[kappa])
        return f"{figure(scores['0.0'])}, {figure(scores['inf'])}, {figure(scores[best])} (κ {best.removesuffix('.0')})"

    def chosen(evidence: Evidence) -> str:
        simple, dsc = (evidence.six["methods"][method]["fit"] for method in ("simple", "dsc"))
        return f"`{simple['input']}`; `{dsc['input']}`, κ {dsc['kappa']:g}"

    rows: list[Row] = [
        (f"`{name}`", lambda evidence, name=name: cell(evidence, name))
        for name in ("rank", "sqrt", "log", "rrf", "score")
    ]
    rows.append(("chosen on all ranks: `simple`; `dsc`", chosen))
    return by_dataset("cross-validated MRR: κ 0, κ ∞, best", rows)


def ogb_curves() -> str:
    """Return the ends of the learning curves at the sizes of OGB's graphs."""
    sizes = ("biokg", "wikikg2")
    found = [load(f"curves-{size}")["curves"] for size in sizes]
    rows = []
    for curves in zip(*found, strict=True):
        (title,) = {_title(curve) for curve in curves}
        rows.append([title, *(f"{figure(c['mrr'][-1])}, {c['seconds'][-1]:.1f} s" for c in curves)])
    return table(["validation MRR, seconds", *(f"ogbl-{size}'s size" for size in sizes)], rows)


def _title(curve: dict[str, Any]) -> str:
    """Return the title of a learning curve."""
    title = f"`{curve['method']}`, " + ("sweep" if curve["searcher"] == "sweep" else f"TPE, Q = {curve['trials']}")
    workers = f", {curve['workers']} workers" if curve["workers"] > 1 else ""
    return title + workers + " (replayed)" * curve["replayed"]


def _named(evidence: Evidence, prefix: str) -> list[str]:
    return [name for name in evidence.searches if name.startswith(prefix)]


def _found(evidence: Evidence, names: Sequence[str]) -> str:
    """Return the mean and standard deviation over several searches, or the values of one; a dash for none."""
    names = [name for name in names if name in evidence.searches]
    if not names:
        return "–"
    cells = []
    for split in ("valid", "test"):
        values = [evidence.searches[name][split]["mrr"] for name in names]
        spread = f" ± {figure(statistics.stdev(values))}" if len(values) > 1 else ""
        cells.append(figure(statistics.mean(values)) + spread)
    seconds = statistics.median(evidence.searches[name]["seconds"] for name in names)
    return f"{cells[0]}, {cells[1]}, {seconds:.1f} s"
