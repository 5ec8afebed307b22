"""Tables of models and ensembles on the paper's data sets, with its figures, and of the leaderboard's models."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from reproduction.claims import CLAIMS, RELATIONS, VERDICTS, Finding
from reproduction.evidence import (
    DSC_AS_PUBLISHED,
    EVERY,
    LEADERBOARD,
    METRICS,
    PROTOCOLS,
    SIMPLE_AS_PUBLISHED,
    SIX,
    Evidence,
    Leaderboard,
)

from relens.metrics.mrr import mrr
from relens.significance import paired_test

from .markdown import figure, signed, table

Row = tuple[str, Callable[[Evidence], str]]
"""A row of a table with a column for each data set: its title, and what says the cells."""

BY_NAME = {of.dataset: of for of in EVERY}


def headline() -> str:
    """Return the test MRRs of the best single model and of the methods, each beside the paper's."""
    titles = {
        "mean": "mean of all six ranks",
        "stacking": "stacking",
        SIMPLE_AS_PUBLISHED: f"one weight vector for all relations, as in the paper (`{SIMPLE_AS_PUBLISHED}`)",
        DSC_AS_PUBLISHED: f"weights per relation and direction, as in the paper (`{DSC_AS_PUBLISHED}`)",
        "simple": "one weight vector for all relations, relens's default (`simple`)",
    }
    published = {"mean": "mean", "stacking": "stacking", SIMPLE_AS_PUBLISHED: "simple", DSC_AS_PUBLISHED: "dsc"}
    rows = [["best single model"], *([title] for title in titles.values())]
    rows.append(["**weights per relation and direction, relens's default (`dsc`)**"])
    for of in EVERY:
        ours, theirs = best_single(of)
        rows[0] += [figure(of.test(ours)["mrr"]), figure(of.paper[theirs][0])]
        for row, name in zip(rows[1:-1], titles, strict=True):
            row += [figure(of.test(name)["mrr"]), figure(of.paper[published[name]][0]) if name in published else ""]
        rows[-1] += [f"**{figure(of.test('dsc')['mrr'])}**", ""]
    return table(["", *(heading for of in EVERY for heading in (of.title, "paper"))], rows)


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
        ("**`dsc`, relens's default**", lambda of: f"**{figure(of.test('dsc')['mrr'])}**"),
        ("`dsc`, with further members", lambda of: figure(of.members["methods"]["dsc"]["test"]["mrr"])),
    ]
    return by_dataset("test MRR", rows)


def results(dataset: str) -> str:
    """Return Tables 1 and 8 for a data set: ours, and the paper's in brackets."""
    of = BY_NAME[dataset]
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
        rows.append([f"`{name}` of {n} members", *(figure(methods[name]["test"][metric]) for metric in METRICS)])
    return table(["test", "MRR", "Hit@1", "Hit@3", "Hit@10"], rows)


def training(dataset: str) -> str:
    """Return how each model of a data set was trained, and what it is worth."""
    of = BY_NAME[dataset]
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
                figure(theirs),
                signed(ours - theirs),
            ]
        )
    return table(header, rows)


def ties() -> str:
    """Return the test MRR of every model and method by each rule for ties."""
    names = [*SIX, "mean", "mrr-mean", "stacking", "greedy", SIMPLE_AS_PUBLISHED, DSC_AS_PUBLISHED, "simple", "dsc"]

    def cell(of: Evidence, name: str) -> str:
        ranks = of.ranks.of[name]
        return " / ".join(figure(mrr(each)) for each in (ranks.optimistic, ranks.realistic, ranks.pessimistic))

    rows = [(SIX.get(name, f"`{name}`"), lambda of, name=name: cell(of, name)) for name in names]
    return by_dataset("optimistic / mean / pessimistic", rows)


def significance() -> str:
    """Return how much weights per relation are ahead of one vector for all, and how sure that is."""
    pairs = {
        "on ranks, as in the paper": (DSC_AS_PUBLISHED, SIMPLE_AS_PUBLISHED),
        "relens's default": ("dsc", "simple"),
    }

    def cell(of: Evidence, ours: str, reference: str) -> str:
        ranks = of.ranks
        found = paired_test(ranks.reciprocal(ours), ranks.reciprocal(reference), ranks.triple, reference=reference)
        low, high = (signed(end) for end in found.interval)
        return signed(found.difference) + f" ({low} to {high}), p {_p(found.p_value)}"

    rows = [(title, lambda of, pair=pair: cell(of, *pair)) for title, pair in pairs.items()]
    return by_dataset("`dsc` − `simple`, test MRR", rows)


def relations() -> str:
    """Return the models' MRR on the relations of WN18RR that the paper names."""
    ranks = BY_NAME["wn18rr"].ranks
    header = ["test MRR", *SIX.values(), "`dsc`"]
    rows = []
    for relation in RELATIONS:
        values = [ranks.by_relation(name)[relation] for name in (*SIX, "dsc")]
        best = max(values[:-1])
        rows.append([f"`{relation}`", *(f"**{figure(v)}**" if v == best else figure(v) for v in values)])
    return table(header, rows)


def claims() -> str:
    """Return a claim of the paper in each row, a finding in each data set's column."""

    def cell(of: Evidence, judge: Callable[[Evidence], Finding]) -> str:
        holds, figures = judge(of)
        return VERDICTS[holds] + figures

    rows = [(text, lambda of, judge=judge: cell(of, judge)) for text, judge in CLAIMS.items()]
    return by_dataset("the paper says", rows, align="left")


def leaderboard() -> str:
    """Return what the leaderboard's models and their ensembles are worth on FB15k-237, by both protocols."""
    found = [Leaderboard(protocol).record for protocol in PROTOCOLS]
    shown = ("mrr", "hits_at_1", "hits_at_10")
    header = ["test", *(f"{title}: {name}" for title in PROTOCOLS.values() for name in ("MRR", "Hit@1", "Hit@10"))]
    rows = []
    for name in (*LEADERBOARD, *found[0]["methods"]):
        entries = [(record["models"].get(name) or record["methods"][name])["test"] for record in found]
        rows.append([LEADERBOARD.get(name, f"`{name}`"), *(figure(test[m]) for test in entries for m in shown)])
    return table(header, rows)


def leaderboard_training() -> str:
    """Return how those models were trained."""
    header = ["", "seconds", "steps", "best step", "validation MRR", "test MRR"]
    models = Leaderboard("full").record["models"]
    return table(header, [[title, *_training(models[name])] for name, title in LEADERBOARD.items()])


def best_single(of: Evidence) -> tuple[str, str]:
    """Return our best single model, by validation MRR, and the paper's, which only has test MRRs."""
    ours = max(SIX, key=lambda name: of.six["models"][name]["best_mrr"])
    theirs = max(SIX, key=lambda name: of.paper[name][0])
    return ours, theirs


def by_dataset(corner: str, rows: Sequence[Row], *, align: Literal["left", "right"] = "right") -> str:
    """Return a table with a column for each data set."""
    return table(
        [corner, *(of.title for of in EVERY)], [[title, *map(cell, EVERY)] for title, cell in rows], align=align
    )


def _training(model: dict[str, Any]) -> list[str]:
    """Return the seconds and steps of a model, and its MRRs."""
    steps = [f"{model[key]:,}" for key in ("step", "best_step")]
    return [f"{model['seconds']:.0f}", *steps, figure(model["best_mrr"]), figure(model["test"]["mrr"])]


def _beside(of: Evidence, ours: str, theirs: str | None) -> list[str]:
    figures = [figure(of.test(ours)[metric]) for metric in METRICS]
    if theirs is None:
        return figures
    return [f"{shown} ({figure(value)})" for shown, value in zip(figures, of.paper[theirs], strict=True)]


def _relative(of: Evidence, simple: str, dsc: str, theirs: Sequence[float] | None) -> list[str]:
    gains = [f"{of.test(dsc)[metric] / of.test(simple)[metric] - 1:.2%}" for metric in METRICS]
    return gains if theirs is None else [f"{gain} ({value:.2%})" for gain, value in zip(gains, theirs, strict=True)]


def _best_single(of: Evidence) -> str:
    best, theirs = best_single(of)
    return f"{SIX[best]} {figure(of.test(best)['mrr'])} ({SIX[theirs]} {figure(of.paper[theirs][0])})"


def _p(value: float) -> str:
    return "< .001" if value < 1e-3 else f"{value:.3f}".removeprefix("0")
