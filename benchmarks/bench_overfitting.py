"""Whether weights per group help on queries that they were not fitted on, with few and with many validation queries.

    python benchmarks/bench_overfitting.py umls=runs/umls/ranks/valid wn18rr=valid.npz --output overfitting.json

Half of the validation triples judge. A part of the other half is fitted on; cross-validation in it chooses input and
shrinkage. The difference of ``dsc`` and ``simple`` in MRR on the judging half is reported for several rules of choice:

- ``from 0``: the best of all strengths, groups without any shrinkage included;
- ``from 3``: the best of the strengths of at least 3;
- ``guarded``: ``from 0`` only if its gain over ``simple`` exceeds a standard error of it, else ``simple``.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from bench_optima import read_packed
from environment import describe, say, write

from relens.data.grouping import Grouping
from relens.ensemble.context import SearchContext
from relens.ensemble.inputs import available_inputs
from relens.ensemble.objective import answer_ranks
from relens.ensemble.regularisation import Shrinkage, cross_validate, folds
from relens.ensemble.searchers import SEARCHERS
from relens.packs.pack import PackedRanks
from relens.packs.thinning import ContestedViews

KAPPAS = (0.0, 3.0, 10.0, 30.0, 100.0, 300.0, np.inf)
RULES = ("from 0", "from 3", "guarded")


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="NAME=PATH…")
@click.option("--fractions", default="0.1,0.3,1", show_default=True, help="Parts of the first half that are fitted on.")
@click.option("--seeds", default=10, show_default=True, help="Splits of each graph.")
@click.option("--first-seed", default=0, show_default=True, help="Seed of the first split.")
@click.option("--jobs", default=1, show_default=True, help="Workers.")
@click.option("--output", type=click.Path(path_type=Path), help="JSON file to write.  [default: stdout]")
def main(sources: tuple[str, ...], fractions: str, seeds: int, first_seed: int, jobs: int, output: Path | None) -> None:
    """Judge weights per group on other queries."""
    rows: list[dict[str, Any]] = []
    for source in sources:
        name, _, path = source.partition("=")
        packed = read_packed(Path(path), "valid")
        for seed in range(first_seed, first_seed + seeds):
            for fraction in map(float, fractions.split(",")):
                rows.append({"data": name, "fraction": fraction, "seed": seed, **judge(packed, fraction, seed, jobs)})
        say(f"{name}: {summary([row for row in rows if row['data'] == name])}")
    settings = {"seeds": seeds, "first_seed": first_seed, "fractions": fractions, "jobs": jobs}
    report = {"benchmark": "overfitting", "settings": settings, "environment": describe()}
    write({**report, "summary": summary(rows), "rows": rows}, output)


def summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return mean and minimum of the differences by rule."""
    found = {rule: [row["difference"][rule] for row in rows] for rule in RULES}
    return {rule: {"mean": float(np.mean(values)), "worst": float(np.min(values))} for rule, values in found.items()}


def judge(packed: PackedRanks, fraction: float, seed: int, jobs: int) -> dict[str, Any]:
    """Fit on a part of one half of the triples; return the differences on the other half by rule."""
    triples = np.random.default_rng(seed).permutation(np.unique(packed.queries.triple))
    half = len(triples) // 2
    fitted, judging = (
        packed.select_queries(np.flatnonzero(np.isin(packed.queries.triple, some)))
        for some in (triples[: max(2, round(fraction * half))], triples[half:])
    )
    held_out, mrr = _tried(fitted, judging, seed, jobs)
    choices = _choices(held_out, fitted.queries.triple)
    simple = choices.pop("simple")
    return {
        "queries": fitted.n_queries,
        "simple": float(mrr[simple]),
        "difference": {rule: float(mrr[at] - mrr[simple]) for rule, at in choices.items()},
        "choice": {rule: [int(at[0]), str(KAPPAS[at[1]])] for rule, at in choices.items()},
    }


def _tried(
    fitted: PackedRanks, judging: PackedRanks, seed: int, jobs: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return cross-validated reciprocal ranks (inputs, κs, Q), and the MRR of the judging queries (inputs, κs)."""
    grouping = Grouping.by_relation_and_direction(fitted.relations)
    inputs = available_inputs(fitted)
    views = ContestedViews(fitted, jobs)
    context = SearchContext(
        views, inputs[0], SEARCHERS["sweep"], grouping.groups_of(fitted.queries), seed=seed, jobs=jobs
    )
    present, members = context.groups
    support = np.array([len(index) for index in members])
    held_out = np.empty((len(inputs), len(KAPPAS), fitted.n_queries))
    mrr = np.empty((len(inputs), len(KAPPAS)))
    for i, input in enumerate(inputs):
        tried = replace(context, input=input)
        held_out[i] = cross_validate(tried, folds(fitted.queries.triple, seed), KAPPAS)
        overall, found = tried.searcher.search_groups(tried, tried.everything, members)
        own = np.array([result.weights for result in found])
        shrinkage = Shrinkage.from_pairs(views, tried.everything, input)
        for k, kappa in enumerate(KAPPAS):
            table = np.tile(overall.weights, (len(grouping), 1))
            table[present] = shrinkage.shrink(own, overall.weights, support, kappa)
            ranks = answer_ranks(judging, table, grouping.groups_of(judging.queries), input=input, jobs=jobs)
            mrr[i, k] = np.mean(1.0 / ranks.realistic)
    return held_out, mrr


def _choices(held_out: npt.NDArray[np.float64], triple: npt.NDArray[np.int32]) -> dict[str, tuple[int, int]]:
    """Return the (input, κ) that each rule chooses, and that of ``simple``."""
    scores = held_out.mean(axis=2)
    simple, best = _best(scores, len(KAPPAS) - 1), _best(scores, 0)
    gain = np.bincount(np.unique(triple, return_inverse=True)[1], held_out[best] - held_out[simple])
    certain = gain.sum() > np.sqrt(len(gain)) * gain.std()
    return {"simple": simple, "from 0": best, "from 3": _best(scores, 1), "guarded": best if certain else simple}


def _best(scores: npt.NDArray[np.float64], first: int) -> tuple[int, int]:
    """Return the best (input, κ) from the strength ``first`` on: of equals the first input, the largest κ."""
    considered = np.where(np.arange(len(KAPPAS)) >= first, scores, -np.inf)
    at = np.argwhere(considered >= considered.max() - 1e-12)
    return int(at[0, 0]), int(max(k for i, k in at if i == at[0, 0]))


if __name__ == "__main__":
    main()
