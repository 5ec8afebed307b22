"""Many models: what packing, search and evaluation cost with 6 to 85 of them, and what few of them keep of the MRR.

The models are simulated: six families, each with several members that see much alike, as the seeds or checkpoints of
one model do. With six models there is one of each family. Their scores are simulated, ranked and packed in a stream;
then each number of models is searched and evaluated in a process of its own, which looks at the most memory it had.

    python benchmarks/bench_models.py --output out/models.json
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import click
import numpy as np
from environment import Target, alone, describe, growth_exponent, memory_status, say, say_targets, time_in_turn, write
from page_tables.performance import models_table
from shapes import DEFAULT_CACHE, SHAPES, SPLIT, as_stored, statistics, subset

from relens.cli.console import TerminalProgress
from relens.ensemble.objective import model_mrrs
from relens.ensemble.search import search
from relens.ensemble.weights import EnsembleWeights
from relens.evaluation import evaluate
from relens.packs.pack import PackedBlock, PackedRanks, PackHeader
from relens.packs.packing import pack_scores
from relens.packs.simulation import BLOCK, Simulation
from relens.packs.store import PackWriter, load_pack, n_bytes
from relens.records import Provenance

PAPER: dict[str, Any] = {"method": "dsc", "input": "rank", "regularise": "none"}
FAMILIES = 6
KINSHIP = 0.8
AGEING = 0.005
"""How much worse than the last each member of a family is."""
TILE = 4
"""Queries packed at a time, as many as ``pack_dense`` takes of 14,541 candidates and many models."""
WARM_UP_SHARE = 1 / 256
MEMORY_LIMIT = 16


@dataclass(frozen=True)
class Case:
    """The packed ranks of some number of models, and how to measure."""

    store: Path
    jobs: int
    repeats: int
    seed: int
    max_models: int | None

    def search(self, packed: PackedRanks, **changes: Any) -> EnsembleWeights:
        """Search the weights of every relation and direction."""
        return search(packed, jobs=self.jobs, seed=self.seed, progress=TerminalProgress(), **PAPER, **changes)


@click.command()
@click.option("--shape", type=click.Choice(list(SHAPES)), default="fb15k-237", show_default=True)
@click.option("--models", default="6,12,24,48,85", show_default=True, help="Numbers of models.")
@click.option("--max-models", default=3, show_default=True, help="Models a group may keep, in one more search of most.")
@click.option("--share", default=1.0, show_default=True, help="Share of the shape's triples.")
@click.option("--jobs", default=2, show_default=True, help="Threads, the same for everything that is measured.")
@click.option("--repeats", default=3, show_default=True, help="Searches and evaluations; their median counts.")
@click.option("--seed", default=0, show_default=True)
@click.option(
    "--folder", type=click.Path(path_type=Path), default=DEFAULT_CACHE, help="Where to put packs for a while."
)
@click.option("--output", type=click.Path(path_type=Path), help="JSON file to write.  [default: stdout]")
def main(
    shape: str, models: str, max_models: int, share: float, seed: int, folder: Path, output: Path | None, **options: Any
) -> None:
    """Measure packing, search and evaluation with growing numbers of models."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = sorted(int(number) for number in models.split(","))
    simulation = related(SHAPES[shape].with_seed(seed).simulation, numbers[-1], share)
    rows = []
    with TemporaryDirectory(dir=folder) as place:
        stores = {n: Path(place) / str(n) for n in numbers}
        packing = alone(pack_all, simulation, stores, options["jobs"])
        for n, store in stores.items():
            case = Case(store, seed=seed, max_models=max_models if n == numbers[-1] else None, **options)
            rows.append({"models": n, "pack_seconds": packing["seconds"][n], **alone(measure, case)})
            say(
                f"{n} models: packing {rows[-1]['pack_seconds']:.1f} s, search "
                f"{rows[-1]['search']['median_seconds']:.2f} s, MRR {rows[-1]['mrr']:.4f}, {rows[-1]['peak_gb']:.2f} GB"
            )
    report = {
        "benchmark": "models",
        "settings": {
            "shape": shape, "models": numbers, "max_models": max_models, "share": share, "seed": seed, **options,
            "families": FAMILIES, "kinship": KINSHIP, "search": PAPER,
        },
        "environment": describe(),
        "packing_peak_gb": packing["peak_gb"],
        "sizes": rows,
        "growth": growth(rows),
    }  # fmt: skip
    targets = targets_of(report)
    report["targets"] = [target.to_json() for target in targets]
    write(report, output)
    if output is not None:
        click.echo(models_table(report))
    say_targets(targets)


def related(simulation: Simulation, n_models: int, share: float) -> Simulation:
    """Return the simulation with ``n_models`` models of six families and a share of the triples, the first of each."""
    numbers = np.arange(n_models)
    handicap = np.resize(simulation.handicap or (0.0,), FAMILIES)[numbers % FAMILIES] + AGEING * (numbers // FAMILIES)
    sizes = np.ceil(np.array(simulation.triples_per_relation) * share).astype(np.int64)
    return replace(
        simulation,
        models=tuple(f"family {n % FAMILIES + 1} member {n // FAMILIES + 1}" for n in numbers.tolist()),
        triples_per_relation=tuple(sizes.tolist()),
        handicap=tuple(handicap.tolist()),
        families=tuple((numbers % FAMILIES).tolist()),
        kinship=KINSHIP,
    )


def pack_all(simulation: Simulation, stores: dict[int, Path], jobs: int) -> dict[str, Any]:
    """Simulate all models once, and pack the first n of them into a store for every n; report the times of packing."""
    queries = simulation.queries(SPLIT)
    relations = tuple(f"relation {r}" for r in range(len(simulation.triples_per_relation)))
    seconds = dict.fromkeys(stores, 0.0)

    def pack(block: int) -> dict[int, tuple[PackedBlock, float]]:
        scores = simulation.scores(queries, SPLIT, block)
        answers, packed = queries.answer[block * BLOCK : (block + 1) * BLOCK], {}
        for n in stores:
            begun = perf_counter()
            tiles = [
                pack_scores(scores[:n, first : first + TILE], answers[first : first + TILE])
                for first in range(0, len(answers), TILE)
            ]
            packed[n] = PackedBlock.join(tiles), perf_counter() - begun
        return packed

    pack(0)  # compiles
    blocks = range(-(-len(queries) // BLOCK))
    with ExitStack() as stack, ThreadPoolExecutor(jobs) as pool:
        writers = {}
        for n, store in stores.items():
            header = PackHeader(simulation.models[:n], relations, queries, Provenance("simulated", "benchmark", SPLIT))
            writers[n] = stack.enter_context(PackWriter.open(store, header, simulation.n_entities))
        advance = stack.enter_context(TerminalProgress().task("simulating and packing", len(blocks)))
        # A block per thread at a time: those of many models are large.
        for first in range(0, len(blocks), jobs):
            for packed in pool.map(pack, blocks[first : first + jobs]):
                for n, (block, taken) in packed.items():
                    writers[n].append(block)
                    seconds[n] += taken / jobs
                advance(1)
    return {"seconds": seconds, "peak_gb": memory_status("VmHWM") / 1e9}


def measure(case: Case) -> dict[str, Any]:
    """Search and evaluate; report the times, the MRRs and the most memory ever in use."""
    packed = load_pack(case.store)
    few = as_stored(subset(packed, WARM_UP_SHARE, case.seed))
    evaluate(few, case.search(few, max_models=case.max_models), reference=few.models[0], jobs=case.jobs)
    found: list[EnsembleWeights] = []
    results = []
    timings = time_in_turn(
        {
            "search": lambda: found.append(case.search(packed)),
            "evaluation": lambda: results.append(
                evaluate(packed, found[-1], reference=packed.models[0], jobs=case.jobs)
            ),
        },
        case.repeats,
    )
    figures = {
        **{name: timing.to_json() for name, timing in timings.items()},
        "statistics": statistics(packed),
        "store_bytes": n_bytes(case.store),
        "mrr": results[-1].overall.mrr,
        "mrr_best_single": float(model_mrrs(packed, jobs=case.jobs).max()),
        "models_used": models_used(found[-1]),
    }
    if case.max_models is not None:
        figures["few"] = measure_few(case, packed)
    return {**figures, "peak_gb": memory_status("VmHWM") / 1e9}


def measure_few(case: Case, packed: PackedRanks) -> dict[str, Any]:
    """Search once more with a limit on the models of a group."""
    begun = perf_counter()
    weights = case.search(packed, max_models=case.max_models)
    seconds = perf_counter() - begun
    ranks = weights.answer_ranks(packed, jobs=case.jobs)
    return {
        "max_models": case.max_models,
        "seconds": seconds,
        "mrr": float(np.mean(1 / ranks.realistic)),
        "models_used": models_used(weights),
    }


def models_used(weights: EnsembleWeights) -> float:
    """Return how many models have a weight in a group that was searched, on average."""
    return float(np.count_nonzero(weights.table[weights.own], axis=1).mean())


def growth(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the exponents with which the costs grow with the number of models; empty for one number."""
    if len(rows) < 2:
        return {}
    costs = {
        "packing": [row["pack_seconds"] for row in rows],
        "search": [row["search"]["median_seconds"] for row in rows],
        "evaluation": [row["evaluation"]["median_seconds"] for row in rows],
        "contested candidates": [row["statistics"]["contested"] for row in rows],
        "store bytes": [row["store_bytes"] for row in rows],
        "peak memory": [row["peak_gb"] for row in rows],
    }
    return {name: growth_exponent([row["models"] for row in rows], values) for name, values in costs.items()}


def targets_of(report: dict[str, Any]) -> list[Target]:
    """Return what this run has to say about the targets; they are meant for two cores and FB15k-237's shape."""
    peak = max(report["packing_peak_gb"], *(row["peak_gb"] for row in report["sizes"]))
    return [Target("GB in memory at most, mapped pages included", peak, "at most", MEMORY_LIMIT)]


if __name__ == "__main__":
    main()
