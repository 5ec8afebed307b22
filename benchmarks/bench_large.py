"""A graph of Wikidata5M's shape on one machine: reading, filters, the graph of a run, training steps and ranking.

The graph is generated (``large_graph.py``) at 1/16, at 1/4 and at full size: 4.6 million entities, 21 million triples.
Each size runs in a process of its own. Every step gives its wall-clock time, its processor time and the most memory of
the process during the step. Processor time holds on a busy machine, too.

    python benchmarks/bench_large.py --folder /somewhere/with/2/GB --output out/large.json
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, TypeVar

import click
import numpy as np
import torch
from environment import Target, alone, describe, growth_exponent, memory_status, say, say_targets, write
from large_graph import write_graph
from page_tables.performance import large_table
from shapes import DEFAULT_CACHE

from relens.data.dataset import Dataset, read_folder
from relens.data.stored import read_graph
from relens.data.stored import write_graph as write_stored
from relens.models.base import KGEModel
from relens.packs.export import Ranker
from relens.ranking.competition import Competition
from relens.ranking.validation import answer_ranks
from relens.training.loop import new_model
from relens.training.presets import resolve_settings
from relens.training.queries import TrainingQueries
from relens.training.settings import TrainSettings
from relens.training.state import TrainingState

T = TypeVar("T")
MODEL, CHANGES = "transe", ("dim=32", "loss=bce_adv", "negatives=128")
"""The model that is trained and ranks, and its settings beside those of the preset ``demo``."""
STEPS, RANKED, PACKED = 20, 116, 16
"""Training steps, and queries that are ranked by one model and packed from two."""


class Steps:
    """The costs of steps in this process, by name."""

    def __init__(self) -> None:
        self.costs: dict[str, dict[str, float]] = {}

    def __call__(self, name: str, work: Callable[[], T]) -> T:
        """Do some work and note what it costs."""
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak starts again
        begun, processor = perf_counter(), process_time()
        result = work()
        self.costs[name] = {
            "seconds": perf_counter() - begun,
            "processor_seconds": process_time() - processor,
            "peak_gb": memory_status("VmHWM") / 1e9,
        }
        say(f"  {name}: {self.costs[name]}")
        return result


@click.command()
@click.option(
    "--parts", default="16,4,1", show_default=True, help="Sizes, as what entities and triples are divided by."
)
@click.option("--jobs", default=2, show_default=True, help="Threads of PyTorch and of the compiled loops.")
@click.option("--folder", type=click.Path(path_type=Path), default=DEFAULT_CACHE, help="Where to put 2 GB for a while.")
@click.option("--output", type=click.Path(path_type=Path), help="JSON file to write.  [default: stdout]")
def main(parts: str, jobs: int, folder: Path, output: Path | None) -> None:
    """Measure the steps from files to ranks on a large graph, and on smaller ones."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = []
    for part in sorted((int(part) for part in parts.split(",")), reverse=True):
        say(f"1/{part}")
        with TemporaryDirectory(dir=folder) as place:
            for gz in (False, True):
                alone(partial(write_graph, gz=gz), Path(place) / ("gz" if gz else "txt"), part)
            sizes.append(alone(measure, Path(place), jobs))
    report = {
        "benchmark": "large",
        "settings": {"parts": parts, "jobs": jobs, "model": MODEL, "changes": CHANGES},
        "environment": describe(),
        "sizes": sizes,
        "growth": growth(sizes),
    }
    targets = targets_of(report)
    report["targets"] = [target.to_json() for target in targets]
    write(report, output)
    if output is not None:
        click.echo(large_table(report))
    say_targets(targets)


def measure(place: Path, jobs: int) -> dict[str, Any]:
    """Measure one size, whose files are in ``txt`` and ``gz`` below ``place``."""
    torch.set_num_threads(jobs)
    warm_up(place)
    steps = Steps()
    steps("reading gz", lambda: read_folder(place / "gz").counts)
    dataset = steps("reading", lambda: read_folder(place / "txt"))
    steps("fingerprint", lambda: dataset.fingerprint)
    steps("known answers", lambda: dataset.known_answers)
    steps("cardinalities", lambda: dataset.cardinalities)
    steps("writing the graph of a run", lambda: write_stored(dataset, place / "graph"))
    steps("reading the graph of a run", lambda: read_graph(place / "graph").counts)
    settings = resolve_settings(dataset.name, MODEL, "demo", [*CHANGES, f"steps={STEPS}"])
    model = steps("new model", lambda: build(dataset, settings))
    train(steps, model, dataset, settings)
    steps("ranking", lambda: rank(model, dataset))
    steps("stated answers", lambda: dataset.stated_answers)
    steps("packing", lambda: pack(model, dataset, place / "pack"))
    return {
        **dataset.counts,
        "steps": STEPS,
        "ranked": RANKED,
        "packed": PACKED,
        "batch": settings.batch,
        "file_bytes": (place / "txt" / "train.txt").stat().st_size,
        "graph_bytes": sum(file.stat().st_size for file in (place / "graph").iterdir()),
        "costs": steps.costs,
    }


def warm_up(place: Path) -> None:
    """Compile everything on a graph that is small, but read by compiled loops."""
    folder = place / "small"
    folder.mkdir()
    with (place / "txt" / "train.txt").open("rb") as file:
        lines = file.read(2**21).split(b"\n")[:-1]
    for split, some in (("train", lines), ("valid", lines[:8]), ("test", lines[8:16])):
        (folder / f"{split}.txt").write_bytes(b"".join(line + b"\n" for line in some))
    small = read_folder(folder)
    settings = resolve_settings(small.name, MODEL, "demo", [*CHANGES, f"steps={STEPS}"])
    model = build(small, settings)
    begin(model, small, settings).advance()
    rank(model, small)
    pack(model, small, place / "small pack")


def build(dataset: Dataset, settings: TrainSettings) -> KGEModel:
    """Return the untrained model."""
    return new_model(settings, dataset.train, len(dataset.entities), len(dataset.relations))


def begin(model: KGEModel, dataset: Dataset, settings: TrainSettings) -> TrainingState:
    """Prepare the training of a model."""
    facts = torch.from_numpy(dataset.train.astype(np.int64))
    return TrainingState(model.train(), TrainingQueries.from_triples(facts, *model_sizes(model)), settings)


def train(steps: Steps, model: KGEModel, dataset: Dataset, settings: TrainSettings) -> None:
    """Measure the preparation and some steps of training, whose memory is free afterwards."""
    state = steps("training set-up", lambda: begin(model, dataset, settings))
    steps("training steps", partial(take_steps, state))


def take_steps(state: TrainingState) -> None:
    """Take the steps."""
    for _ in range(STEPS):
        state.advance()


def model_sizes(model: KGEModel) -> tuple[int, int]:
    """Return the numbers of entities and relations."""
    return model.n_entities, model.n_relations


def rank(model: KGEModel, dataset: Dataset) -> None:
    """Rank some validation queries among all entities."""
    answer_ranks(model, Competition(dataset.queries("valid")[:RANKED], dataset.known_answers))


def pack(model: KGEModel, dataset: Dataset, place: Path) -> None:
    """Rank and pack some validation queries by two models."""
    few = Dataset(
        dataset.name, dataset.entities, dataset.relations,
        train=dataset.train, valid=dataset.valid[: PACKED // 2], test=dataset.test[:1],
    )  # fmt: skip
    Ranker({"one": model, "two": model}, few).pack("valid", place, None)


def growth(sizes: list[dict[str, Any]]) -> dict[str, float]:
    """Return the exponents with which processor time grows with the triples; empty for one size."""
    if len(sizes) < 2:
        return {}
    triples = [size["train"] for size in sizes]
    return {
        name: growth_exponent(triples, [max(size["costs"][name]["processor_seconds"], 1e-3) for size in sizes])
        for name in sizes[0]["costs"]
    }


def targets_of(report: dict[str, Any]) -> list[Target]:
    """Return the targets of the full size on two cores."""
    costs = report["sizes"][-1]["costs"]
    found = [Target(f"{name}, seconds", costs[name]["seconds"], "at most", 60) for name in ("reading", "reading gz")]
    peak = max(costs[name]["peak_gb"] for name in ("reading", "reading gz"))
    return [*found, Target("GB while reading", peak, "at most", 6)]


if __name__ == "__main__":
    main()
