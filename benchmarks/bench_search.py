"""How long a search of weights takes, and how good they are: the authors' procedure, TPE and the sweep side by side.

One run measures, on one shape and with the same number of workers: (a) the authors' procedure done kindly, on a sample
of groups, extrapolated; (b) relens with TPE; (c) relens with the sweep. Compilation is excluded, any reduction
included, and all MRRs come from the lossless pack. Besides: the size of the pack, one evaluation of a weight vector
against the speed of reading its bytes, and how time grows with the queries.

    python benchmarks/bench_search.py --shape fb15k-237 --output out/search-fb15k-237.json
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from authors import STARTUP_TRIALS, TRIALS, Procedure, Searched, Source, stratified_sample
from environment import (
    Target,
    Timing,
    describe,
    growth_exponent,
    say,
    say_targets,
    seconds_of,
    time_in_turn,
    write,
)
from reading import KERNELS, reader, words_of
from shapes import DEFAULT_CACHE, SHAPES, SPLIT, Shape, as_stored, groups_of, statistics, subset

from relens.ensemble.grid import to_grid, uniform, vertices
from relens.ensemble.objective import answer_ranks
from relens.ensemble.search import search
from relens.ensemble.weights import EnsembleWeights
from relens.packs.pack import PackedRanks
from relens.seeding import generator

PAPER: dict[str, Any] = {"method": "dsc", "input": "rank", "regularise": "none"}
FRACTIONS = (1 / 16, 1 / 4, 1.0)
EVALUATIONS = 15
"""Repeats of everything that takes milliseconds."""
WARM_UP_TRIPLES = 64
SEARCH_TIME_ONLY = ("wn18rr",)
"""Shapes of which only the time of a search is asked; all other targets are for FB15k-237's."""


@dataclass(frozen=True)
class Settings:
    """Settings of a run: its measurements, and how often."""

    jobs: int
    repeats: int
    seed: int
    sample_groups: int
    authors_trials: int
    tpe_trials: int


@click.command()
@click.option("--shape", "shape_name", type=click.Choice(list(SHAPES)), default="fb15k-237", show_default=True)
@click.option("--jobs", default=2, show_default=True, help="Workers, the same for everything that is measured.")
@click.option("--repeats", default=5, show_default=True, help="Runs of the sweep; their median counts.")
@click.option("--seed", default=0, show_default=True, help="Seed of the shape, the sample and the searches.")
@click.option("--sample-groups", default=12, show_default=True, help="Groups the authors' procedure is run on.")
@click.option("--authors-trials", default=TRIALS, show_default=True, help="Trials of the authors' procedure a group.")
@click.option("--tpe-trials", default=100, show_default=True, help="Trials of relens tpe a group.")
@click.option("--skip-authors", is_flag=True, help="Leave the authors' procedure out.")
@click.option("--skip-tpe", is_flag=True, help="Leave relens tpe out.")
@click.option("--cache", type=click.Path(path_type=Path), default=DEFAULT_CACHE, help="Where simulated packs are kept.")
@click.option("--output", type=click.Path(path_type=Path), help="JSON file to write.  [default: stdout]")
def main(shape_name: str, cache: Path, output: Path | None, skip_authors: bool, skip_tpe: bool, **options: Any) -> None:
    """Measure the searches on data of one shape."""
    settings = Settings(**options)
    shape = SHAPES[shape_name].with_seed(settings.seed)
    say(f"{shape.name}: simulating or loading the pack")
    bench = Bench(shape, shape.packed(cache, settings.jobs), settings)
    report: dict[str, Any] = {
        "benchmark": "search",
        "shape": {"name": shape.name, **statistics(bench.packed), "real": shape.real},
        "settings": {**options, "search": PAPER},
        "environment": describe(),
    }
    bench.warm_up()
    report["sweep"] = bench.sweep()
    report["methods"] = bench.methods()
    report["evaluation"] = bench.evaluation()
    report["growth"] = bench.growth()
    report["default_fit"] = bench.default_fit()
    report["tpe"] = None if skip_tpe else bench.tpe()
    report["authors"] = None if skip_authors else bench.authors()
    targets = targets_of(report)
    report["targets"] = [target.to_json() for target in targets]
    write(report, output)
    say_targets(targets)


class Bench:
    """One shape and everything that is measured on it."""

    def __init__(self, shape: Shape, packed: PackedRanks, settings: Settings) -> None:
        self.shape, self.packed, self.settings = shape, packed, settings
        self.groups, self.members = groups_of(packed)
        self.swept: EnsembleWeights | None = None

    def search(self, packed: PackedRanks | None = None, **changes: Any) -> EnsembleWeights:
        """Fit with the workers and the seed of the run."""
        jobs, seed = self.settings.jobs, self.settings.seed
        return search(self.packed if packed is None else packed, jobs=jobs, seed=seed, **changes)

    def mrr(self, weights: EnsembleWeights) -> float:
        """Return the lossless validation MRR."""
        return float(np.mean(1.0 / weights.answer_ranks(self.packed, jobs=self.settings.jobs).realistic))

    def warm_up(self) -> None:
        """Compile everything on a small part of the pack, of the same array types."""
        some = as_stored(subset(self.packed, WARM_UP_TRIPLES / (self.packed.n_queries / 2), self.settings.seed))
        for changes in (PAPER, {}, {**PAPER, "method": "simple"}, {**PAPER, "searcher": "tpe", "trials": 2}):
            self.search(some, **changes)
        for kernel in KERNELS.values():
            reader(kernel, [words_of(some.contested)], self.settings.jobs)()

    def sweep(self) -> dict[str, Any]:
        """Time (c), the sweep."""
        found = []
        timing = repeated(lambda: found.append(self.search(**PAPER)), self.settings.repeats)
        self.swept = found[-1]
        mrr = self.mrr(self.swept)
        say(f"(c) sweep: {timing.median:.2f} s, MRR {mrr:.5f}")
        return {**timing.to_json(), "mrr": mrr}

    def methods(self) -> dict[str, float]:
        """Return the validation MRRs that say what the shape is like."""
        jobs = self.settings.jobs

        def of(weights: npt.NDArray[np.int64]) -> float:
            return float(np.mean(1.0 / answer_ranks(self.packed, weights, jobs=jobs).realistic))

        assert self.swept is not None
        mrrs = {
            "best_single": max(of(vertex) for vertex in vertices(self.packed.n_models)),
            "mean": of(uniform(self.packed.n_models)),
            "simple": self.mrr(self.search(method="simple", input="rank", regularise="none")),
            "dsc": self.mrr(self.swept),
        }
        say("    " + ", ".join(f"{name} {value:.4f}" for name, value in mrrs.items()))
        return mrrs

    def default_fit(self) -> dict[str, Any]:
        """Time one fit as it comes: cross-validation chooses input and shrinkage."""
        found: list[EnsembleWeights] = []
        seconds = seconds_of(lambda: found.append(self.search()))
        chosen = {key: found[0].settings[key] for key in ("input", "kappa")}
        say(f"    default fit with cross-validation: {seconds:.2f} s, {chosen}")
        return {"seconds": seconds, "mrr": self.mrr(found[0]), **chosen}

    def tpe(self) -> dict[str, Any]:
        """Time (b), TPE on packed ranks."""
        found: list[EnsembleWeights] = []
        changes = {**PAPER, "searcher": "tpe", "trials": self.settings.tpe_trials}
        seconds = seconds_of(lambda: found.append(self.search(**changes)))
        mrr = self.mrr(found[0])
        say(f"(b) relens tpe: {seconds:.1f} s, MRR {mrr:.5f}")
        startup = found[0].settings["startup_trials"]
        return {"seconds": seconds, "mrr": mrr, "trials": changes["trials"], "startup_trials": startup}

    def authors(self) -> dict[str, Any]:
        """Time (a) on a sample of groups, and compare its weights with the sweep's on the same groups."""
        settings, sizes = self.settings, np.array([len(queries) for queries in self.members])
        sample = stratified_sample(sizes, settings.sample_groups, settings.seed)
        source = Source(self.shape.simulation, self.packed.queries, SPLIT)
        procedure = Procedure(source, settings.jobs, settings.seed)
        found = procedure.search([self.members[g] for g in sample], settings.authors_trials)
        extrapolated = procedure.extrapolate(found, settings.authors_trials, len(self.groups))
        rows = [self._compared(int(g), searched) for g, searched in zip(sample, found, strict=True)]
        weight = np.array([row["queries"] for row in rows])
        mrrs = {key: float(np.average([row[key] for row in rows], weights=weight)) for key in ("mrr", "mrr_sweep")}
        say(f"(a) authors' procedure: {extrapolated['seconds']:.0f} s extrapolated from {len(rows)} groups, {mrrs}")
        return {
            "startup_trials": STARTUP_TRIALS,
            "sample": rows,
            "sample_queries": int(weight.sum()),
            **mrrs,
            "instruction_set": procedure.kindest,
            "seconds_per_query_candidate_by_instruction_set": procedure.rates,
            "extrapolated": extrapolated,
        }

    def _compared(self, g: int, searched: Searched) -> dict[str, Any]:
        """Return one group of the sample: its cost, and the lossless MRRs of both procedures' weights."""
        assert self.swept is not None
        both = np.array([to_grid(searched.weights), self.swept.table[self.groups[g]]])
        mrr, mrr_sweep = (
            float(np.mean(1.0 / answer_ranks(self.packed, weights, queries=self.members[g]).realistic))
            for weights in both
        )
        return {
            "group": self.swept.grouping.labels[self.groups[g]],
            "queries": searched.queries,
            "objective_seconds": searched.objective_seconds,
            "hyperopt_seconds": searched.overhead_seconds,
            "mrr_dense": searched.mrr,
            "mrr": mrr,
            "mrr_sweep": mrr_sweep,
        }

    def evaluation(self) -> dict[str, Any]:
        """Time one evaluation of a weight vector against reading its bytes."""
        packed, jobs = self.packed, self.settings.jobs
        weights = to_grid(generator(self.settings.seed, "evaluated weights").random(packed.n_models))
        words = [words_of(packed.contested), words_of(packed.answer)]
        n_bytes = packed.contested.nbytes + packed.answer.nbytes
        functions: dict[str, Callable[[], Any]] = {"evaluation": lambda: answer_ranks(packed, weights, jobs=jobs)}
        functions |= {name: reader(kernel, words, jobs) for name, kernel in KERNELS.items()}
        time_in_turn(functions, 1)
        timings = time_in_turn(functions, EVALUATIONS)
        rates = {name: n_bytes / timing.median / 1e9 for name, timing in timings.items()}
        mine = rates.pop("evaluation")
        best = max(rates, key=lambda name: rates[name])
        say(f"    evaluation: {timings['evaluation'].median * 1e3:.1f} ms, {mine:.1f} GB/s; {best}: {rates[best]:.1f}")
        return {
            **timings["evaluation"].to_json(),
            "bytes": n_bytes,
            "gb_per_second": mine,
            "read_gb_per_second": rates,
            "best_read_kernel": best,
            "ratio_to_best_read": mine / rates[best],
        }

    def growth(self) -> dict[str, Any]:
        """Time sweep and evaluation on growing numbers of queries, and fit the exponents."""
        weights, jobs = uniform(self.packed.n_models), self.settings.jobs
        queries: list[int] = []
        seconds: dict[str, list[float]] = {"sweep": [], "evaluation": []}
        for fraction in FRACTIONS:
            some = as_stored(subset(self.packed, fraction, self.settings.seed))
            queries.append(some.n_queries)
            seconds["sweep"].append(repeated(lambda s=some: self.search(s, **PAPER), self.settings.repeats).median)
            evaluate = repeated(lambda s=some: answer_ranks(s, weights, jobs=jobs), EVALUATIONS)
            seconds["evaluation"].append(evaluate.median)
        exponents = {name: growth_exponent(queries, values) for name, values in seconds.items()}
        say("    time grows like " + ", ".join(f"n^{value:.2f} ({name})" for name, value in exponents.items()))
        return {"queries": queries, "seconds": seconds, "exponents": exponents}


def repeated(function: Callable[[], Any], repeats: int) -> Timing:
    """Time several calls."""
    return Timing(tuple(seconds_of(function) for _ in range(repeats)))


def targets_of(report: dict[str, Any]) -> list[Target]:
    """Return what this run has to say about the targets; they are meant for two cores."""
    sweep, authors, tpe = report["sweep"], report["authors"], report["tpe"]
    seconds = sweep["median_seconds"]
    targets = [Target("seconds of a search", seconds, "at most", 60)]
    if report["shape"]["name"] in SEARCH_TIME_ONLY:
        return targets
    if authors:
        faster = authors["extrapolated"]["seconds"] / seconds
        targets += [
            Target("times faster than the authors' procedure", faster, "at least", 2000),
            Target("MRR above the authors' procedure's", authors["mrr_sweep"] - authors["mrr"], "at least", 0),
        ]
    if tpe:
        targets += [
            Target("times faster than relens tpe", tpe["seconds"] / seconds, "at least", 50),
            Target("MRR above relens tpe's", sweep["mrr"] - tpe["mrr"], "at least", 0),
        ]
    growth = report["growth"]["exponents"]
    return [
        *targets,
        Target("packed over dense uint16", report["shape"]["packed_over_dense"], "at most", 0.05),
        Target("evaluation over best read kernel", report["evaluation"]["ratio_to_best_read"], "at least", 0.5),
        Target("growth exponent of the sweep", growth["sweep"], "at most", 1.1),
        Target("growth exponent of an evaluation", growth["evaluation"], "at most", 1.1),
    ]


if __name__ == "__main__":
    main()
