"""A search at ogbl-wikikg2's size on one machine: what packing, search and evaluation cost, and how that grows.

Rank files in the authors' form are simulated in a stream: 858,912 rows of 1,002 columns for each of three models, 5.2
GB in all. One process packs them and reads them in turn; another does what a user does, packs, searches and evaluates,
and looks at the most memory it ever had. The same at 1/64, 1/16 and 1/4 of the triples shows how the cost grows.

    python benchmarks/bench_scale.py --folder /somewhere/with/6/GB --output out/scale.json
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import click
from environment import (
    Target,
    Timing,
    alone,
    describe,
    growth_exponent,
    memory_status,
    say,
    say_targets,
    time_in_turn,
    write,
)
from page_tables.performance import scale_table
from rank_files import DATASET, write_sampled
from reading import file_readers
from shapes import DEFAULT_CACHE, SPLIT, WIKIKG2_TRIPLES, wikikg2

from relens.cli.console import TerminalProgress
from relens.ensemble.search import search
from relens.ensemble.weights import EnsembleWeights
from relens.evaluation import evaluate
from relens.importers.dense import pack_dense
from relens.importers.layouts.authors import read_authors
from relens.packs.pack import PackedRanks
from relens.packs.store import n_bytes

PAPER: dict[str, Any] = {"method": "dsc", "input": "rank", "regularise": "none"}
WARM_UP = "test"
"""The split whose few triples are packed, searched and evaluated before anything counts, so that all is compiled."""


@dataclass(frozen=True)
class Case:
    """The files of one size, and how often to measure."""

    folder: Path
    triples: int
    jobs: int
    repeats: int
    with_default: bool

    @property
    def files(self) -> list[Path]:
        """The rank files of the validation split."""
        return sorted((self.folder / "ranks" / DATASET).glob(f"*_{SPLIT}_ranks.npy"))

    @contextmanager
    def packed(self, split: str = SPLIT) -> Iterator[PackedRanks]:
        """Pack a split; the store is there as long as the context."""
        store = self.folder / f"store-{split}"
        try:
            yield pack_dense(read_authors(self.folder)[split], store, jobs=self.jobs, progress=TerminalProgress())
        finally:
            shutil.rmtree(store)

    def search(self, packed: PackedRanks, **changes: Any) -> EnsembleWeights:
        """Search the weights of the authors' 1,070 groups."""
        return search(packed, group="relation", jobs=self.jobs, progress=TerminalProgress(), **changes)


@click.command()
@click.option("--triples", default=WIKIKG2_TRIPLES, show_default=True, help="Validation triples of the largest size.")
@click.option("--parts", default="64,16,4,1", show_default=True, help="Sizes, as what the triples are divided by.")
@click.option("--jobs", default=2, show_default=True, help="Threads, the same for everything that is measured.")
@click.option("--repeats", default=5, show_default=True, help="Runs of everything; their median counts.")
@click.option("--folder", type=click.Path(path_type=Path), default=DEFAULT_CACHE, help="Where to put 6 GB for a while.")
@click.option("--output", type=click.Path(path_type=Path), help="JSON file to write.  [default: stdout]")
def main(triples: int, parts: str, jobs: int, repeats: int, folder: Path, output: Path | None) -> None:
    """Measure packing, search and evaluation at the size of ogbl-wikikg2, and at smaller ones."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = []
    for part in sorted((int(part) for part in parts.split(",")), reverse=True):
        with TemporaryDirectory(dir=folder) as place:
            case = Case(Path(place), triples // part, jobs, repeats, with_default=part == 1)
            sizes.append(measure(case))
    report = {
        "benchmark": "scale",
        "settings": {"triples": triples, "parts": parts, "jobs": jobs, "repeats": repeats, "search": PAPER},
        "environment": describe(),
        "sizes": sizes,
        "growth": growth(sizes),
        "growth_at_last": growth(sizes[-2:]),
    }
    targets = targets_of(report)
    report["targets"] = [target.to_json() for target in targets]
    write(report, output)
    if output is not None:
        click.echo(scale_table(report))
    say_targets(targets)


def measure(case: Case) -> dict[str, Any]:
    """Write the files of one size and measure everything on them, each part in a process of its own."""
    simulation = wikikg2(case.triples)
    write_sampled(wikikg2(0), WARM_UP, case.folder, case.jobs, TerminalProgress())
    write_sampled(simulation, SPLIT, case.folder, case.jobs, TerminalProgress())
    os.sync()  # or the disk would still be busy with the files when the first store goes there
    figures = {
        "triples": sum(simulation.triples_per_relation) // 2,
        "file_bytes": sum(file.stat().st_size for file in case.files),
        **alone(packing, case),
        **alone(work, case),
    }
    say(
        f"{figures['triples']:,} triples: packing {figures['pack']['median_seconds']:.2f} s, "
        f"{figures['ratio_to_best_read']:.2f} of reading; search {figures['search']['median_seconds']:.2f} s, "
        f"evaluation {figures['evaluation']['median_seconds']:.2f} s; {figures['peak_gb']:.2f} GB"
    )
    return figures


def packing(case: Case) -> dict[str, Any]:
    """Pack the files and read them in turn; a store is removed before the next one is made, off the clock."""
    dense, store = read_authors(case.folder)[SPLIT], case.folder / "store"
    functions: dict[str, Callable[[], Any]] = {
        "pack": lambda: pack_dense(dense, store, jobs=case.jobs),
        **file_readers(case.files, case.jobs),
    }
    # Once before it counts: the system has the files cached, and everything is compiled.
    turns = [time_in_turn(functions, 1)]
    for _ in range(case.repeats):
        shutil.rmtree(store)
        turns.append(time_in_turn(functions, 1))
    timings = {name: Timing(tuple(turn[name].median for turn in turns[1:])) for name in functions}
    size = sum(file.stat().st_size for file in case.files)
    rates = {name: size / timing.median / 1e9 for name, timing in timings.items()}
    mine = rates.pop("pack")
    return {
        "pack": timings["pack"].to_json(),
        "pack_gb_per_second": mine,
        "read_gb_per_second": rates,
        "ratio_to_best_read": mine / max(rates.values()),
        "store_bytes": n_bytes(store),
    }


def work(case: Case) -> dict[str, Any]:
    """Pack, search and evaluate as a user does; report the times, the results and the most memory ever in use."""
    with case.packed(WARM_UP) as few:
        for changes in (PAPER, {}) if case.with_default else (PAPER,):
            evaluate(few, case.search(few, **changes), reference=few.models[0], jobs=case.jobs)
    with case.packed() as packed:
        found: list[EnsembleWeights] = []
        evaluations = []
        timings = time_in_turn(
            {
                "search": lambda: found.append(case.search(packed, **PAPER)),
                "evaluation": lambda: evaluations.append(
                    evaluate(packed, found[-1], reference=packed.models[0], jobs=case.jobs)
                ),
            },
            case.repeats,
        )
        figures: dict[str, Any] = {name: timing.to_json() for name, timing in timings.items()}
        assert evaluations[-1].paired is not None
        figures |= {
            "queries": packed.n_queries,
            "groups": len(found[-1].own),
            "contested": packed.n_contested,
            "contested_share": packed.n_contested / int(packed.n_candidates.sum()),
            "mrr": evaluations[-1].overall.mrr,
            "mrr_over_first_model": evaluations[-1].paired.difference,
        }
        if case.with_default:
            begun = perf_counter()
            chosen = case.search(packed).settings
            kept = ("input", "kappa", "cross_validation")
            figures["default_fit"] = {"seconds": perf_counter() - begun, **{key: chosen[key] for key in kept}}
    return {**figures, "peak_gb": memory_status("VmHWM") / 1e9}


def growth(sizes: list[dict[str, Any]]) -> dict[str, float]:
    """Return the exponents with which the costs grow with the triples; empty for one size."""
    if len(sizes) < 2:
        return {}
    triples = [size["triples"] for size in sizes]
    costs = {name: [size[name]["median_seconds"] for size in sizes] for name in ("pack", "search", "evaluation")}
    costs["store bytes"] = [size["store_bytes"] for size in sizes]
    costs["peak memory"] = [size["peak_gb"] for size in sizes]
    return {name: growth_exponent(triples, values) for name, values in costs.items()}


def targets_of(report: dict[str, Any]) -> list[Target]:
    """Return what this run has to say about the targets; they are meant for two cores, 24 GB and the full size."""
    largest = report["sizes"][-1]
    evaluation = largest["evaluation"]["median_seconds"]
    targets = [
        Target("packing over best way to read", largest["ratio_to_best_read"], "at least", 1 / 3),
        Target("seconds of search and evaluation", largest["search"]["median_seconds"] + evaluation, "at most", 120),
        Target("GB in memory at most, mapped pages included", largest["peak_gb"], "at most", 8),
    ]
    if "default_fit" in largest:
        seconds = largest["default_fit"]["seconds"] + evaluation
        targets.append(Target("seconds with cross-validation as well", seconds, "at most", 120))
    grown = {name: report["growth"][name] for name in ("pack", "search", "evaluation") if name in report["growth"]}
    return targets + [Target(f"growth exponent of {name}", value, "at most", 1.1) for name, value in grown.items()]


if __name__ == "__main__":
    main()
