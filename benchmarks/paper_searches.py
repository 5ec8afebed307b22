"""The paper's searches and the sweep, on the same packed ranks: what each finds, and how long it takes.

    python benchmarks/paper_searches.py runs/fb15k-237 --output docs/results/fb15k-237-searches.json

TPE is run for ``simple`` and ``dsc`` with Q = 50, 100 and 300 trials and five seeds, ``basic`` with 50 and 100 and one
seed. The sweep has no chance in it: its ± comes from searches on bootstrap resamples of the validation triples.
Weights are searched on validation ranks and judged on test. Two searches are on test itself and named so: weights from
validation cannot be expected to pass what they find there. Every search is written to the file when it is done, and the
same command goes on where it stopped.
"""

import json
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np

from relens.cli.options import jobs_option, models_option, run_argument
from relens.ensemble.search import search
from relens.ensemble.settings import SearchSettings
from relens.evaluation import evaluate
from relens.files import read_json, write_json
from relens.packs.pack import PackedRanks
from relens.runs import Run
from relens.seeding import generator

SEEDS = range(5)
RESAMPLES = range(10)
SEARCHED = ("simple", "dsc")
PAPER: dict[str, Any] = {"input": "rank", "regularise": "none"}
BOUNDS: dict[str, SearchSettings] = {
    "dsc, sweep, on test itself": SearchSettings(method="dsc", **PAPER),
    "dsc, sweep, score gaps, on test itself": SearchSettings(method="dsc", input="score", regularise="none"),
}


@click.command()
@run_argument
@click.option("--output", required=True, type=click.Path(path_type=Path), help="The JSON file to write, or go on with.")
@models_option
@click.option("--trials", default="50,100,300", show_default=True, help="The paper's Q, for simple and dsc.")
@click.option("--basic-trials", default="50,100", show_default=True, help="The same for basic.")
@jobs_option
def main(run_path: Path, output: Path, models: list[str], trials: str, basic_trials: str, jobs: int) -> None:
    """Search the weights of RUN by every method."""
    run = Run.open(run_path)
    valid, test = run.ranks("valid"), run.ranks("test")
    if models:
        valid, test = valid.select_models(models), test.select_models(models)
    facts = {"models": valid.models, "jobs": jobs, "ranks": [valid.digest, test.digest], **asdict(valid.provenance)}
    about = json.loads(json.dumps(facts))
    record = read_json(output, "searches") if output.exists() else {"about": about, "searches": {}}
    if record["about"] != about:
        raise click.UsageError(f"{output} has searches of other ranks, models or workers: choose another --output")
    compile_kernels(valid)
    for name, settings, resample in searches(_numbers(trials), _numbers(basic_trials)):
        if name not in record["searches"]:
            searched = test if name in BOUNDS else valid if resample is None else resampled(valid, resample)
            record["searches"][name] = measure(searched, {"valid": valid, "test": test}, settings, jobs)
            write_json(output, record)
            found = record["searches"][name]
            click.echo(
                f"{name}: valid {found['valid']['mrr']:.4f}, test {found['test']['mrr']:.4f}, {found['seconds']:.1f} s"
            )


def searches(trials: list[int], basic_trials: list[int]) -> Iterator[tuple[str, SearchSettings, int | None]]:
    """Yield the name of each search, its settings, and the number of the resample it is run on, if any."""
    for method in ("mean", "mrr-mean", "stacking"):
        yield method, SearchSettings(method=method), None
    for method in SEARCHED:
        yield f"{method}, sweep", SearchSettings(method=method, **PAPER), None
        yield f"{method}, sweep, default", SearchSettings(method=method), None
    yield "dsc, sweep, both directions together", SearchSettings(method="dsc", group="relation", **PAPER), None
    yield "dsc, sweep, default, both directions together", SearchSettings(method="dsc", group="relation"), None
    for name, settings in BOUNDS.items():
        yield name, settings, None
    for number in RESAMPLES:
        for method in SEARCHED:
            yield f"{method}, sweep, resample {number}", SearchSettings(method=method, **PAPER), number
    plans: list[tuple[str, list[int], Iterable[int]]] = [
        ("simple", trials, SEEDS), ("basic", basic_trials, [0]), ("dsc", trials, SEEDS)
    ]  # fmt: skip
    for method, counts, seeds in plans:
        for count in counts:
            for seed in seeds:
                settings = SearchSettings(method=method, searcher="tpe", trials=count, seed=seed, **PAPER)
                yield f"{method}, tpe, Q = {count}, seed {seed}", settings, None


def measure(
    searched: PackedRanks, splits: dict[str, PackedRanks], settings: SearchSettings, jobs: int
) -> dict[str, Any]:
    """Search weights, and return their metrics on the splits and the seconds of the search."""
    begun = perf_counter()
    with warnings.catch_warnings():
        # BOUNDS are searched on test on purpose.
        warnings.filterwarnings("ignore", "the weights are searched on the test split")
        weights = search(searched, **settings.arguments(), jobs=jobs)
    seconds = perf_counter() - begun
    found = {split: evaluate(packed, weights, jobs=jobs).overall.to_json() for split, packed in splits.items()}
    return {**found, "seconds": seconds, "settings": weights.settings}


def resampled(valid: PackedRanks, number: int) -> PackedRanks:
    """Return the queries of as many triples, drawn with replacement; both queries of a triple stay together."""
    triples, place = np.unique(valid.queries.triple, return_inverse=True)
    drawn = generator(number, "resample").integers(0, len(triples), len(triples))
    order, counts = np.argsort(place, kind="stable"), np.bincount(place)
    begins = np.cumsum(counts) - counts
    return valid.select_queries(np.concatenate([order[begins[t] : begins[t] + counts[t]] for t in drawn]))


def compile_kernels(valid: PackedRanks) -> None:
    """Run every kind of search once on two queries, so that no compilation is timed."""
    few = valid.select_queries(np.arange(min(2, valid.n_queries)))
    for settings in (
        SearchSettings(method="dsc", **PAPER), SearchSettings(method="dsc"), SearchSettings(searcher="tpe", trials=1)
    ):  # fmt: skip
        search(few, **settings.arguments())


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part.strip()]


if __name__ == "__main__":
    main()
