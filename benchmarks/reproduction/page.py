"""Tables of docs/reproduction.md, docs/ogb.md and docs/scale.md, from the evidence below docs/results.

    python benchmarks/reproduction/page.py            # writes them into the pages
    python benchmarks/reproduction/page.py --check    # fails where a page says something else

A table stands between ``<!-- table NAME -->`` and ``<!-- end -->``; what stands around it is written by hand.
"""

import json
import re
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click
from claims import RELATIONS, claims
from evidence import (
    DSC_AS_PUBLISHED,
    EVERY,
    LEADERBOARD,
    METRICS,
    PROTOCOLS,
    ROOT,
    SIMPLE_AS_PUBLISHED,
    SIX,
    Evidence,
    Leaderboard,
)

from relens.ranking.answer_ranks import mrr
from relens.significance import paired_test

PAGES = tuple(ROOT / "docs" / name for name in ("reproduction.md", "ogb.md", "scale.md"))
TRIALS = (50, 100, 300)

Row = tuple[str, Callable[[Evidence], str]]
"""A row of a table with a column for each data set: its title, and what says the cells."""


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; fail where a page differs from the evidence.")
def main(check: bool) -> None:
    """Write the tables into the pages."""
    for page in PAGES:
        found = page.read_text(encoding="utf-8")
        wanted = filled(found)
        if check and found != wanted:
            raise click.ClickException(f"{page.name} differs from its evidence: run benchmarks/reproduction/page.py")
        if not check:
            page.write_text(wanted, encoding="utf-8")


def filled(page: str) -> str:
    """Return the page with every table as the evidence has it."""
    tables: dict[str, Callable[[], str]] = {
        "significance": significance, "searches": searches, "ties": ties, "claims": lambda: claims(EVERY),
        "inputs": inputs, "relations": relations, "summary": summary,
        "leaderboard": leaderboard, "leaderboard training": leaderboard_training,
        "curves": ogb_curves,
    }  # fmt: skip
    for of in EVERY:
        tables[f"results {of.dataset}"] = partial(results, of)
        tables[f"training {of.dataset}"] = partial(training, of)
    return re.sub(
        r"(<!-- table (.*?) -->\n).*?(<!-- end -->)",
        lambda match: f"{match[1]}{tables[match[2]]()}\n{match[3]}",
        page,
        flags=re.DOTALL,
    )


def summary() -> str:
    """Return the test MRRs in short, the paper's in brackets."""
    beside = {
        "`mean`": ("mean", "mean"),
        "`stacking`": ("stacking", "stacking"),
        "`simple`, as in the paper": (SIMPLE_AS_PUBLISHED, "simple"),
        "`dsc`, as in the paper": (DSC_AS_PUBLISHED, "dsc"),
    }
    rows: list[Row] = [("the best single model on validation (in the paper: on test)", _best_single)]
    rows += [(title, lambda of, pair=pair: _beside(of, *pair)[0]) for title, pair in beside.items()]
    rows += [
        ("**`dsc`, relens's default**", lambda of: f"**{_figure(of.test('dsc')['mrr'])}**"),
        ("`dsc`, with further members", lambda of: _figure(of.members["methods"]["dsc"]["test"]["mrr"])),
    ]
    return _by_dataset("test MRR", rows)


def results(of: Evidence) -> str:
    """Return Tables 1 and 8 for a data set: ours, and the paper's in brackets."""
    rows = [[title, *_beside(of, name, name)] for name, title in SIX.items()]
    rows += [[f"`{name}`", *_beside(of, name, name)] for name in ("mean", "stacking", "mrr-mean")]
    rows += [
        ["SimpleEns, by the sweep", *_beside(of, SIMPLE_AS_PUBLISHED, "simple")],
        ["RelEns-DSC, by the sweep", *_beside(of, DSC_AS_PUBLISHED, "dsc")],
        ["Relative ↑", *_relative(of, SIMPLE_AS_PUBLISHED, DSC_AS_PUBLISHED, of.paper["relative"])],
        ["`greedy`", *_beside(of, "greedy", None)],
        ["`simple`", *_beside(of, "simple", None)],
        ["**`dsc`**", *(f"**{cell}**" for cell in _beside(of, "dsc", None))],
        ["Relative ↑", *_relative(of, "simple", "dsc", None)],
    ]
    methods = of.members["methods"]
    n = len(of.members["models"])
    for name in ("simple", "dsc"):
        rows.append([f"`{name}` of {n} members", *(_figure(methods[name]["test"][metric]) for metric in METRICS)])
    return _table(["test", "MRR", "Hit@1", "Hit@3", "Hit@10"], rows)


def training(of: Evidence) -> str:
    """Return how each model was trained, and what it is worth."""
    header = ["", "seconds", "steps", "best step", "validation MRR", "test MRR", "paper", "difference"]
    rows = []
    for name, model in of.members["models"].items():
        ours, seed = model["test"]["mrr"], model["settings"]["seed"]
        kind = model["settings"]["model"]
        theirs = of.paper[kind][0]
        rows.append(
            [
                SIX.get(name) or f"{SIX[kind]}, `{name}`, seed {seed}",
                *_training(model),
                _figure(theirs),
                f"{ours - theirs:+.4f}".replace("0.", "."),
            ]
        )
    return _table(header, rows)


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
    return _by_dataset("validation MRR, test MRR, seconds", rows)


def inputs() -> str:
    """Return the cross-validated MRR of each input, with the best shrinkage, and of the two extremes of shrinkage."""

    def cell(of: Evidence, name: str) -> str:
        scores = of.searches["dsc, sweep, default"]["settings"]["cross_validation"][name]
        best = max(scores, key=lambda kappa: scores[kappa])
        return (
            f"{_figure(scores['0.0'])}, {_figure(scores['inf'])}, {_figure(scores[best])} (κ {best.removesuffix('.0')})"
        )

    def chosen(of: Evidence) -> str:
        simple, dsc = (of.six["methods"][method]["fit"] for method in ("simple", "dsc"))
        return f"`{simple['input']}`; `{dsc['input']}`, κ {dsc['kappa']:g}"

    rows: list[Row] = [
        (f"`{name}`", lambda of, name=name: cell(of, name)) for name in ("rank", "sqrt", "log", "rrf", "score")
    ]
    rows.append(("chosen on all ranks: `simple`; `dsc`", chosen))
    return _by_dataset("cross-validated MRR: κ 0, κ ∞, best", rows)


def ties() -> str:
    """Return the test MRR of every model and method by each rule for ties."""
    names = [*SIX, "mean", "mrr-mean", "stacking", "greedy", SIMPLE_AS_PUBLISHED, DSC_AS_PUBLISHED, "simple", "dsc"]

    def cell(of: Evidence, name: str) -> str:
        ranks = of.ranks.of[name]
        return " / ".join(_figure(mrr(each)) for each in (ranks.optimistic, ranks.realistic, ranks.pessimistic))

    rows = [(SIX.get(name, f"`{name}`"), lambda of, name=name: cell(of, name)) for name in names]
    return _by_dataset("optimistic / mean / pessimistic", rows)


def significance() -> str:
    """Return how much weights per relation are ahead of one vector for all, and how sure that is."""
    pairs = {
        "on ranks, as in the paper": (DSC_AS_PUBLISHED, SIMPLE_AS_PUBLISHED),
        "relens's default": ("dsc", "simple"),
    }

    def cell(of: Evidence, ours: str, reference: str) -> str:
        ranks = of.ranks
        found = paired_test(ranks.reciprocal(ours), ranks.reciprocal(reference), ranks.triple, reference=reference)
        low, high = (f"{end:+.4f}".replace("0.", ".") for end in found.interval)
        return f"{found.difference:+.4f}".replace("0.", ".") + f" ({low} to {high}), p {_p(found.p_value)}"

    rows = [(title, lambda of, pair=pair: cell(of, *pair)) for title, pair in pairs.items()]
    return _by_dataset("`dsc` − `simple`, test MRR", rows)


def relations() -> str:
    """Return the models' MRR on the relations of WN18RR that the paper names."""
    ranks = Evidence("wn18rr").ranks
    header = ["test MRR", *SIX.values(), "`dsc`"]
    rows = []
    for relation in RELATIONS:
        values = [ranks.by_relation(name)[relation] for name in (*SIX, "dsc")]
        best = max(values[:-1])
        rows.append([f"`{relation}`", *(f"**{_figure(v)}**" if v == best else _figure(v) for v in values)])
    return _table(header, rows)


def leaderboard() -> str:
    """Return what the leaderboard's models and their ensembles are worth on FB15k-237, by both protocols."""
    found = [Leaderboard(protocol).record for protocol in PROTOCOLS]
    shown = ("mrr", "hits_at_1", "hits_at_10")
    header = ["test", *(f"{title}: {name}" for title in PROTOCOLS.values() for name in ("MRR", "Hit@1", "Hit@10"))]
    rows = []
    for name in (*LEADERBOARD, *found[0]["methods"]):
        entries = [(record["models"].get(name) or record["methods"][name])["test"] for record in found]
        rows.append([LEADERBOARD.get(name, f"`{name}`"), *(_figure(test[m]) for test in entries for m in shown)])
    return _table(header, rows)


def leaderboard_training() -> str:
    """Return how those models were trained."""
    header = ["", "seconds", "steps", "best step", "validation MRR", "test MRR"]
    models = Leaderboard("full").record["models"]
    return _table(header, [[title, *_training(models[name])] for name, title in LEADERBOARD.items()])


def ogb_curves() -> str:
    """Return where the learning curves at the sizes of OGB's graphs end."""
    sizes = ("biokg", "wikikg2")
    found = [json.loads((ROOT / f"docs/results/curves-{size}.json").read_text("utf-8"))["curves"] for size in sizes]
    rows = []
    for curves in zip(*found, strict=True):
        (title,) = {_title(curve) for curve in curves}
        rows.append([title, *(f"{_figure(c['mrr'][-1])}, {c['seconds'][-1]:.1f} s" for c in curves)])
    return _table(["validation MRR, seconds", *(f"ogbl-{size}'s size" for size in sizes)], rows)


def _title(curve: dict[str, Any]) -> str:
    """Say which search a learning curve is of."""
    title = f"`{curve['method']}`, " + ("sweep" if curve["searcher"] == "sweep" else f"TPE, Q = {curve['trials']}")
    workers = f", {curve['workers']} workers" if curve["workers"] > 1 else ""
    return title + workers + " (replayed)" * curve["replayed"]


def _training(model: dict[str, Any]) -> list[str]:
    """Return the seconds and steps of a model, and its MRRs."""
    steps = [f"{model[key]:,}" for key in ("step", "best_step")]
    return [f"{model['seconds']:.0f}", *steps, _figure(model["best_mrr"]), _figure(model["test"]["mrr"])]


def _beside(of: Evidence, ours: str, theirs: str | None) -> list[str]:
    figures = [_figure(of.test(ours)[metric]) for metric in METRICS]
    if theirs is None:
        return figures
    return [f"{figure} ({_figure(value)})" for figure, value in zip(figures, of.paper[theirs], strict=True)]


def _relative(of: Evidence, simple: str, dsc: str, theirs: Sequence[float] | None) -> list[str]:
    gains = [f"{of.test(dsc)[metric] / of.test(simple)[metric] - 1:.2%}" for metric in METRICS]
    return gains if theirs is None else [f"{gain} ({value:.2%})" for gain, value in zip(gains, theirs, strict=True)]


def _best_single(of: Evidence) -> str:
    best, theirs = (max(SIX, key=lambda name, at=at: at(name)) for at in (
        lambda name: of.six["models"][name]["best_mrr"], lambda name: of.paper[name][0]
    ))  # fmt: skip
    return f"{SIX[best]} {_figure(of.test(best)['mrr'])} ({SIX[theirs]} {_figure(of.paper[theirs][0])})"


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
        spread = f" ± {_figure(statistics.stdev(values))}" if len(values) > 1 else ""
        cells.append(_figure(statistics.mean(values)) + spread)
    seconds = statistics.median(of.searches[name]["seconds"] for name in names)
    return f"{cells[0]}, {cells[1]}, {seconds:.1f} s"


def _by_dataset(corner: str, rows: Sequence[Row]) -> str:
    return _table([corner, *(of.title for of in EVERY)], [[title, *map(cell, EVERY)] for title, cell in rows])


def _figure(value: float) -> str:
    return f"{value:.4f}".removeprefix("0")


def _p(value: float) -> str:
    return "< .001" if value < 1e-3 else f"{value:.3f}".removeprefix("0")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *rows])


if __name__ == "__main__":
    main()
