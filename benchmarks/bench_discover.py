"""Discovery: how long the best 1,000 new facts of every relation of FB15k-237 take, measured on a share.

The models have random parameters and the shapes of the preset ``best``: what they score does not matter for the time.
Relations are evenly spaced by their number of queries, and the anchors of large ones are cut; the time of a ranked
query is that of the sample. The extrapolation counts each query of the two directions once, and each query for tails
a second time: that is the most a discovery ranks.

    python benchmarks/bench_discover.py --output out/discover.json
    python benchmarks/bench_discover.py --device cuda --queries 40000 --cut 4000 --output out/discover-cuda.json
"""

from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import click
import numpy as np
import torch
from environment import describe, memory_status, say, write
from page_tables.performance import discovery_table

from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset
from relens.data.grouping import Grouping
from relens.data.queries import HEAD, TAIL, Queries
from relens.ensemble.inputs import INPUTS
from relens.ensemble.weights import EnsembleWeights
from relens.models import MODELS
from relens.prediction.confidence import PLACES, Confidence
from relens.prediction.discovery import ALL, LIKELY, Discovery, Wanted
from relens.prediction.ensemble import Ensemble
from relens.prediction.members import LoadedModels
from relens.prediction.relation_search import RelationSearch, Side
from relens.prediction.voting import Voting
from relens.runs import Run
from relens.seeding import generator
from relens.training.presets import resolve_settings

RULES = (LIKELY, "observed", ALL)


@dataclass
class Clock:
    """Seconds that the scores of all models took, and the number of queries that were ranked."""

    scoring: float = 0.0
    scoring_cpu: float = 0.0
    ranked: int = 0


class CountedSearch(RelationSearch):
    """A search that counts the queries that it ranks."""

    clock: Clock

    def _scored_batch(self, side: Side, batch: Any) -> Any:
        self.clock.ranked += len(batch.anchors)
        return super()._scored_batch(side, batch)


@click.command()
@click.option("--dataset", default="fb15k-237", show_default=True)
@click.option("--models", default="complex,complex,complex,complex,complex,complex", show_default=True)
@click.option("--input", type=click.Choice(list(INPUTS)), default="log", show_default=True, help="Of the weights.")
@click.option("--candidates", type=click.Choice(RULES), default=LIKELY, show_default=True)
@click.option("--queries", default=1500, show_default=True, help="Queries of the sample, about.")
@click.option("--cut", default=128, show_default=True, help="Most anchors of a sampled relation and direction.")
@click.option("--top", default=1000, show_default=True, help="Facts of each relation.")
@click.option("--device", default="cpu", show_default=True)
@click.option("--threads", default=1, show_default=True, help="Of PyTorch on the CPU.")
@click.option("--seed", default=0, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="JSON file to write.  [default: stdout]")
def main(dataset: str, models: str, device: str, threads: int, output: Path | None, **settings: Any) -> None:
    """Measure a discovery on a share of the relations, and extrapolate."""
    torch.set_num_threads(threads)
    graph = load_dataset(dataset)
    names = models.split(",")
    ensemble = random_ensemble(graph, names, settings["input"], torch.device(device), settings["seed"])
    planned = {rule: plan(Discovery(ensemble, Wanted(candidates=rule))) for rule in RULES}
    sample = measure(ensemble, settings)
    report = {
        "benchmark": "discover",
        "settings": {"dataset": dataset, "models": names, "device": device, "jobs": threads, **settings},
        "environment": describe() | {"torch": torch.__version__, "device": device_name(device)},
        "pairs": len(graph.relations) * len(graph.entities) ** 2,
        "planned": planned,
        "sample": sample,
        "extrapolated": {rule: extrapolated(found, sample) for rule, found in planned.items()},
        "targets": [],
    }
    write(report, output)
    if output is not None:
        click.echo(discovery_table([report]))


def random_ensemble(graph: Dataset, names: list[str], input: str, device: torch.device, seed: int) -> Ensemble:
    """Return an ensemble of models with random parameters, weights and shares; no file is read."""
    rng = generator(seed, "discovery")
    labels = tuple(f"{name} {number}" for number, name in enumerate(names, start=1))
    grouping = Grouping.by_relation_and_direction(graph.relations.labels)
    weights = EnsembleWeights(
        models=labels,
        relations=graph.relations.labels,
        grouping=grouping,
        table=rng.integers(1, 2**10, (len(grouping), len(names))),
        own=np.ones(len(grouping), dtype=bool),
        fallback=np.ones(len(names), dtype=np.int64),
        support=np.full(len(grouping), 100),
        input=input,
        gap_scales=np.full(len(names), 1e-3 / 2**16),
    )
    ensemble = Ensemble(Voting(weights, LoadedModels(Run(Path("random"), "random", graph.name), graph, device)))
    for label, name in zip(labels, names, strict=True):
        ensemble.models.loaded[label] = random_model(graph, name, seed).to(device)
        say(f"{label}: {ensemble.models.loaded[label].n_parameters:,} parameters")
    shares = -np.sort(-rng.random((2, len(grouping), PLACES)), axis=2) / PLACES
    vars(ensemble)["_confidence"] = Confidence(shares, np.full((2, len(grouping)), 100))
    return ensemble


def random_model(graph: Dataset, name: str, seed: int) -> Any:
    """Return a model with the shape of the preset ``best`` and random parameters."""
    settings = resolve_settings(graph.name, name, "best", [f"seed={seed}"])
    triples = torch.from_numpy(graph.train.astype(np.int64))
    model = MODELS.find(name).build(len(graph.entities), len(graph.relations), settings.options, triples)
    model.initialise(settings.initialiser, torch.Generator().manual_seed(seed))
    return model.eval()


def plan(discovery: Discovery) -> dict[str, int]:
    """Return the numbers of pairs that a rule leaves, and of queries: of both directions, and again for tails."""
    sides = [discovery.sides(relation) for relation in discovery.relations]
    return {
        "pairs": sum(len(tails.anchors) * len(tails.answers) for tails, _ in sides),
        "queries": sum(len(side.anchors) for both in sides for side in both),
        "queries_at_most": sum(len(both[HEAD].anchors) + 2 * len(both[TAIL].anchors) for both in sides),
    }


def measure(ensemble: Ensemble, settings: dict[str, Any]) -> dict[str, Any]:
    """Search a sample of relations, and report what a ranked query takes."""
    discovery = Discovery(ensemble, Wanted(top=settings["top"], each=True, candidates=settings["candidates"]))
    search, clock = CountedSearch(ensemble, discovery.wanted.depth), Clock()
    search.clock = clock
    on_device, synchronise = ensemble.models.scores_on_device, synchroniser(ensemble.models.device)

    def timed(name: str, queries: Queries) -> torch.Tensor:
        begun, cpu = perf_counter(), process_time()
        scores = on_device(name, queries)
        synchronise()
        clock.scoring += perf_counter() - begun
        clock.scoring_cpu += process_time() - cpu
        return scores

    ensemble.models.scores_on_device = timed  # type: ignore[method-assign]
    sides = {
        relation: [cut(side, settings["cut"]) for side in discovery.sides(relation)] for relation in discovery.relations
    }
    chosen = sampled({r: sum(len(side.anchors) for side in both) for r, both in sides.items()}, settings["queries"])
    search.both_sides(*(cut(side, 8) for side in sides[chosen[0]]))  # warm up
    clock.scoring = clock.scoring_cpu = clock.ranked = 0
    found, begun, cpu = 0, perf_counter(), process_time()
    for number, relation in enumerate(chosen, start=1):
        found += len(discovery.rows(search.both_sides(*sides[relation])))
        taken = process_time() - cpu
        say(f"{number} of {len(chosen)} relations, {clock.ranked:,} queries, {taken:.0f} s of processor time")
    return {
        "relations": len(chosen),
        "queries": clock.ranked,
        "facts": found,
        "seconds": perf_counter() - begun,
        "cpu_seconds": process_time() - cpu,
        "scoring_seconds": clock.scoring,
        "scoring_cpu_seconds": clock.scoring_cpu,
        "peak_gb": memory_status("VmHWM") / 1e9,
    }


def sampled(queries: dict[int, int], wanted: int) -> list[int]:
    """Return relations, evenly spaced by their number of queries, with about ``wanted`` queries in all."""
    ordered = sorted((relation for relation, n in queries.items() if n), key=lambda relation: queries[relation])
    n = max(1, round(wanted / np.mean([queries[relation] for relation in ordered])))
    places = (np.arange(min(n, len(ordered))) + 0.5) * len(ordered) / min(n, len(ordered))
    return [ordered[int(place)] for place in places]


def cut(side: Side, most: int) -> Side:
    """Return a side with at most so many anchors, evenly spaced."""
    n = len(side.anchors)
    return side if n <= most else replace(side, anchors=side.anchors[np.arange(most) * n // most])


def extrapolated(planned: dict[str, int], sample: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds of all queries at the pace of the sample, and the share of them that was measured."""
    pace = planned["queries_at_most"] / sample["queries"]
    return {
        "share": sample["queries"] / planned["queries_at_most"],
        "seconds": pace * sample["seconds"],
        "cpu_seconds": pace * sample["cpu_seconds"],
    }


def synchroniser(device: Any) -> Any:
    """Return what waits for the device."""
    return torch.cuda.synchronize if str(device).startswith("cuda") else lambda: None


def device_name(device: str) -> str:
    """Return the name of the GPU, or ``CPU``."""
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else "CPU"


if __name__ == "__main__":
    main()
