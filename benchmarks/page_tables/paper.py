"""Tables of models and ensembles: on the paper's data sets with its figures, of the leaderboard, and of the demo."""

from collections.abc import Callable, Mapping, Sequence
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
    load,
)

from relens.metrics.mrr import mrr
from relens.significance import paired_test

from .markdown import figure, signed, table

Row = tuple[str, Callable[[Evidence], str]]
"""A row of a table with a column for each data set: its title, and a function that returns a cell."""

BY_NAME = {evidence.dataset: evidence for evidence in EVERY}


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
    for evidence in EVERY:
        ours, theirs = best_single(evidence)
        rows[0] += [figure(evidence.test(ours)["mrr"]), figure(evidence.paper[theirs][0])]
        for row, name in zip(rows[1:-1], titles, strict=True):
            row += [
                figure(evidence.test(name)["mrr"]),
                figure(evidence.paper[published[name]][0]) if name in published else "",
            ]
        rows[-1] += [f"**{figure(evidence.test('dsc')['mrr'])}**", ""]
    return table(["", *(heading for evidence in EVERY for heading in (evidence.title, "paper"))], rows)


def summary() -> str:
    """Return the test MRRs in short, the paper's in brackets."""
    beside = {
        "`mean`": ("mean", "mean"),
        "`stacking`": ("stacking", "stacking"),
        "`simple`, as in the paper": (SIMPLE_AS_PUBLISHED, "simple"),
        "`dsc`, as in the paper": (DSC_AS_PUBLISHED, "dsc"),
    }
    rows: list[Row] = [("the best single model on validation (in the paper: on test)", _best_single)]
    rows += [(title, lambda evidence, pair=pair: _beside(evidence, *pair)[0]) for title, pair in beside.items()]
    rows += [
        ("**`dsc`, relens's default**", lambda evidence: f"**{figure(evidence.test('dsc')['mrr'])}**"),
        ("`dsc`, with further members", lambda evidence: figure(evidence.members["methods"]["dsc"]["test"]["mrr"])),
    ]
    return by_dataset("test MRR", rows)


def results(dataset: str) -> str:
    """Return Tables 1 and 8 for a data set: ours, and the paper's in brackets."""
    evidence = BY_NAME[dataset]
    rows = [[title, *_beside(evidence, name, name)] for name, title in SIX.items()]
    rows += [[f"`{name}`", *_beside(evidence, name, name)] for name in ("mean", "stacking", "mrr-mean")]
    rows += [
        ["SimpleEns, by the sweep", *_beside(evidence, SIMPLE_AS_PUBLISHED, "simple")],
        ["RelEns-DSC, by the sweep", *_beside(evidence, DSC_AS_PUBLISHED, "dsc")],
        ["Relative ↑", *_relative(evidence, SIMPLE_AS_PUBLISHED, DSC_AS_PUBLISHED, evidence.paper["relative"])],
        ["`greedy`", *_beside(evidence, "greedy", None)],
        ["`simple`", *_beside(evidence, "simple", None)],
        ["**`dsc`**", *(f"**{cell}**" for cell in _beside(evidence, "dsc", None))],
        ["Relative ↑", *_relative(evidence, "simple", "dsc", None)],
    ]
    methods = evidence.members["methods"]
    n = len(evidence.members["models"])
    for name in ("simple", "dsc"):
        rows.append([f"`{name}` of {n} members", *(figure(methods[name]["test"][metric]) for metric in METRICS)])
    return table(["test", "MRR", "Hit@1", "Hit@3", "Hit@10"], rows)


def training(dataset: str) -> str:
    """Return how each model of a data set was trained, and what it is worth."""
    evidence = BY_NAME[dataset]
    header = ["", "seconds", "steps", "best step", "validation MRR", "test MRR", "paper", "difference"]
    rows = []
    for name, model in evidence.members["models"].items():
        ours, seed = model["test"]["mrr"], model["settings"]["seed"]
        kind = model["settings"]["model"]
        theirs = evidence.paper[kind][0]
        rows.append(
            [
                SIX.get(name) or f"{SIX[kind]}, `{name}`, seed {seed}",
                *trained(model),
                figure(theirs),
                signed(ours - theirs),
            ]
        )
    return table(header, rows)


def ties() -> str:
    """Return the test MRR of every model and method by each rule for ties."""
    names = [*SIX, "mean", "mrr-mean", "stacking", "greedy", SIMPLE_AS_PUBLISHED, DSC_AS_PUBLISHED, "simple", "dsc"]

    def cell(evidence: Evidence, name: str) -> str:
        ranks = evidence.ranks.by_name[name]
        return " / ".join(figure(mrr(each)) for each in (ranks.optimistic, ranks.realistic, ranks.pessimistic))

    rows = [(SIX.get(name, f"`{name}`"), lambda evidence, name=name: cell(evidence, name)) for name in names]
    return by_dataset("optimistic / mean / pessimistic", rows)


def significance() -> str:
    """Return how much weights per relation are ahead of one vector for all, and how sure that is."""
    pairs = {
        "on ranks, as in the paper": (DSC_AS_PUBLISHED, SIMPLE_AS_PUBLISHED),
        "relens's default": ("dsc", "simple"),
    }

    def cell(evidence: Evidence, ours: str, reference: str) -> str:
        ranks = evidence.ranks
        found = paired_test(ranks.reciprocal(ours), ranks.reciprocal(reference), ranks.triple, reference=reference)
        low, high = (signed(end) for end in found.interval)
        return signed(found.difference) + f" ({low} to {high}), p {_p(found.p_value)}"

    rows = [(title, lambda evidence, pair=pair: cell(evidence, *pair)) for title, pair in pairs.items()]
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

    def cell(evidence: Evidence, judge: Callable[[Evidence], Finding]) -> str:
        holds, figures = judge(evidence)
        return VERDICTS[holds] + figures

    rows = [(text, lambda evidence, judge=judge: cell(evidence, judge)) for text, judge in CLAIMS.items()]
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
    return table(header, [[title, *trained(models[name])] for name, title in LEADERBOARD.items()])


def best_single(evidence: Evidence) -> tuple[str, str]:
    """Return our best single model, by validation MRR, and the paper's, which only has test MRRs."""
    ours = max(SIX, key=lambda name: evidence.six["models"][name]["best_mrr"])
    theirs = max(SIX, key=lambda name: evidence.paper[name][0])
    return ours, theirs


def by_dataset(corner: str, rows: Sequence[Row], *, align: Literal["left", "right"] = "right") -> str:
    """Return a table with a column for each data set."""
    return table(
        [corner, *(evidence.title for evidence in EVERY)],
        [[title, *map(cell, EVERY)] for title, cell in rows],
        align=align,
    )


def trained(model: dict[str, Any]) -> list[str]:
    """Return the seconds and steps of a model, and its MRRs."""
    steps = [f"{model[key]:,}" for key in ("step", "best_step")]
    return [f"{model['seconds']:.0f}", *steps, figure(model["best_mrr"]), figure(model["test"]["mrr"])]


def _beside(evidence: Evidence, ours: str, theirs: str | None) -> list[str]:
    figures = [figure(evidence.test(ours)[metric]) for metric in METRICS]
    if theirs is None:
        return figures
    return [f"{shown} ({figure(value)})" for shown, value in zip(figures, evidence.paper[theirs], strict=True)]


def _relative(evidence: Evidence, simple: str, dsc: str, theirs: Sequence[float] | None) -> list[str]:
    gains = [f"{evidence.test(dsc)[metric] / evidence.test(simple)[metric] - 1:.2%}" for metric in METRICS]
    return gains if theirs is None else [f"{gain} ({value:.2%})" for gain, value in zip(gains, theirs, strict=True)]


def _best_single(evidence: Evidence) -> str:
    best, theirs = best_single(evidence)
    return f"{SIX[best]} {figure(evidence.test(best)['mrr'])} ({SIX[theirs]} {figure(evidence.paper[theirs][0])})"


def _p(value: float) -> str:
    return "< .001" if value < 1e-3 else f"{value:.3f}".removeprefix("0")


def demo() -> str:
    """Return the best single model on validation, and the methods, with seed 0."""
    record = load("demo")
    best = max(record["models"], key=lambda name: record["models"][name]["best_mrr"])
    titles = {
        best: f"{SIX[best]}, the best single model on validation",
        "mean": "mean of all six",
        "stacking": "stacking",
        **{name: f"`{name}`" for name in (SIMPLE_AS_PUBLISHED, DSC_AS_PUBLISHED, "simple", "dsc")},
    }
    return _demo_table(record, titles, {"Hit@1": "hits_at_1", "Hit@10": "hits_at_10"})


def own_model() -> str:
    """Return the models and methods of ``examples/own_model.py``."""
    names = ("frequency", "complex", "mean", "simple", "dsc")
    hits = {"Hit@1": "hits_at_1", "Hit@3": "hits_at_3", "Hit@10": "hits_at_10"}
    return _demo_table(load("own-model"), {name: f"`{name}`" for name in names}, hits)


def _demo_table(record: Mapping[str, Any], titles: Mapping[str, str], hits: Mapping[str, str]) -> str:
    entries = {**record["models"], **record["methods"]}
    rows = []
    for name, title in titles.items():
        test, interval = entries[name]["test"], entries[name]["test_interval"]
        shown = "–".join(map(figure, interval))
        rows.append([title, figure(test["mrr"]), shown, *(figure(test[metric]) for metric in hits.values())])
    return table(["test split", "MRR", "95 % interval", *hits], rows)
