"""Tables of searches: the paper's beside the sweep, inputs and shrinkage, learning curves."""

import statistics
from collections.abc import Sequence
from typing import Any

from reproduction.evidence import EVERY, Evidence, load

from .markdown import figure, table
from .paper import Row, by_dataset

TRIALS = (50, 100, 300)


def searches() -> str:
    """Return what each search finds on reduced ranks, validation and test MRR, and the seconds it takes."""
    rows: list[Row] = [
        (f"`{name}`", lambda of, name=name: _found(of, [name])) for name in ("mean", "mrr-mean", "stacking")
    ]
    for method in ("simple", "basic", "dsc"):
        for q in TRIALS:
            prefix = f"{method}, tpe, Q = {q}, seed"
            if any(_named(of, prefix) for of in EVERY):
                rows.append((f"`{method}`, TPE, Q = {q}", lambda of, prefix=prefix: _found(of, _named(of, prefix))))
        if method != "basic":
            rows.append((f"`{method}`, sweep", lambda of, m=method: _found(of, [f"{m}, sweep"])))
            prefix = f"{method}, sweep, resample"
            rows.append((f"`{method}`, sweep, resampled", lambda of, prefix=prefix: _found(of, _named(of, prefix))))
            rows.append(
                (f"`{method}`, sweep, relens's default", lambda of, m=method: _found(of, [f"{m}, sweep, default"]))
            )
    together = ["dsc, sweep, both directions together", "dsc, sweep, default, both directions together"]
    bounds = [name for name in EVERY[0].searches if name.endswith("on test itself")]
    for name in together + bounds:
        title = name.replace("dsc", "`dsc`").replace("default", "relens's default")
        rows.append((title, lambda of, name=name: _found(of, [name])))
    return by_dataset("validation MRR, test MRR, seconds", rows)


def inputs() -> str:
    """Return the cross-validated MRR of each input, with the best shrinkage, and of the two extremes of shrinkage."""

    def cell(of: Evidence, name: str) -> str:
        scores = of.searches["dsc, sweep, default"]["settings"]["cross_validation"][name]
        best = max(scores, key=lambda kappa: scores[kappa])
        return f"{figure(scores['0.0'])}, {figure(scores['inf'])}, {figure(scores[best])} (κ {best.removesuffix('.0')})"

    def chosen(of: Evidence) -> str:
        simple, dsc = (of.six["methods"][method]["fit"] for method in ("simple", "dsc"))
        return f"`{simple['input']}`; `{dsc['input']}`, κ {dsc['kappa']:g}"

    rows: list[Row] = [
        (f"`{name}`", lambda of, name=name: cell(of, name)) for name in ("rank", "sqrt", "log", "rrf", "score")
    ]
    rows.append(("chosen on all ranks: `simple`; `dsc`", chosen))
    return by_dataset("cross-validated MRR: κ 0, κ ∞, best", rows)


def ogb_curves() -> str:
    """Return where the learning curves at the sizes of OGB's graphs end."""
    sizes = ("biokg", "wikikg2")
    found = [load(f"curves-{size}")["curves"] for size in sizes]
    rows = []
    for curves in zip(*found, strict=True):
        (title,) = {_title(curve) for curve in curves}
        rows.append([title, *(f"{figure(c['mrr'][-1])}, {c['seconds'][-1]:.1f} s" for c in curves)])
    return table(["validation MRR, seconds", *(f"ogbl-{size}'s size" for size in sizes)], rows)


def _title(curve: dict[str, Any]) -> str:
    """Say which search a learning curve is of."""
    title = f"`{curve['method']}`, " + ("sweep" if curve["searcher"] == "sweep" else f"TPE, Q = {curve['trials']}")
    workers = f", {curve['workers']} workers" if curve["workers"] > 1 else ""
    return title + workers + " (replayed)" * curve["replayed"]


def _named(of: Evidence, prefix: str) -> list[str]:
    return [name for name in of.searches if name.startswith(prefix)]


def _found(of: Evidence, names: Sequence[str]) -> str:
    """Return the mean and standard deviation over several searches, or the values of one; a dash for none."""
    names = [name for name in names if name in of.searches]
    if not names:
        return "–"
    cells = []
    for split in ("valid", "test"):
        values = [of.searches[name][split]["mrr"] for name in names]
        spread = f" ± {figure(statistics.stdev(values))}" if len(values) > 1 else ""
        cells.append(figure(statistics.mean(values)) + spread)
    seconds = statistics.median(of.searches[name]["seconds"] for name in names)
    return f"{cells[0]}, {cells[1]}, {seconds:.1f} s"
