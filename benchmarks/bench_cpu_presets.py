"""Train single models on a CPU with changes to the preset demo, to choose the preset small.

The validation MRR decides; the test split is not read. Times are processor times of one thread.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import click
import torch
from environment import describe, say, write

from relens.data.catalog import load_dataset
from relens.pipeline.training import train_model
from relens.training.presets import resolve_settings

LONGER = ["steps=3000", "validate_every=300"]
WIDE = ["steps=2000", "validate_every=200", "dim=256"]
BOTH: list[tuple[str, list[str]]] = [
    ("complex", []),
    ("complex", LONGER),
    ("complex", WIDE),
    ("conve", ["steps=1200", "validate_every=100"]),
    ("compgcn", ["steps=1800", "validate_every=200"]),
    ("house", ["steps=1600", "validate_every=200"]),
    ("transe", LONGER),
    ("transe", ["steps=1500", "validate_every=150", "dim=128", "gamma=3"]),
]
UMLS: list[tuple[str, list[str]]] = [
    *((model, []) for model in ("transe", "rotate", "house", "conve", "compgcn")),
    ("rotate", LONGER),
    ("rotate", ["steps=1500", "validate_every=150", "dim=128", "gamma=3"]),
    ("house", ["steps=2400", "validate_every=200"]),
    ("complex", [*WIDE, "regulariser_weight=0.05"]),
    ("conve", ["steps=1000", "validate_every=100", "dim=128", "channels=16"]),
    ("compgcn", ["steps=1200", "validate_every=200", "dim=128"]),
]
TRIALS = {"umls": [*BOTH, *UMLS], "patterns": BOTH}


def trial(dataset: str, model: str, changes: list[str]) -> dict[str, Any]:
    """Train a model and return its best validation MRR and the processor time."""
    graph = load_dataset(dataset)
    settings = resolve_settings(graph.name, model, "demo", changes)
    with tempfile.TemporaryDirectory() as folder:
        since = time.process_time()
        result = train_model(graph, settings, Path(folder) / model, device=torch.device("cpu")).result
        seconds = time.process_time() - since
    return {
        "dataset": dataset, "model": model, "changes": changes, "validation_mrr": round(result["best_mrr"], 4),
        "best_step": result["best_step"], "steps": result["step"], "processor_seconds": round(seconds, 1),
    }  # fmt: skip


@click.command()
@click.option("--model", "only", multiple=True, help="Only this model; may be repeated.")
@click.option("--output", type=click.Path(path_type=Path))
def main(only: tuple[str, ...], output: Path | None) -> None:
    """Train every trial and write a JSON file."""
    torch.set_num_threads(1)
    rows = []
    for dataset, trials in TRIALS.items():
        for model, changes in trials:
            if not only or model in only:
                rows.append(trial(dataset, model, changes))
                say(str(rows[-1]))
    write({"benchmark": "cpu presets", "environment": describe(), "rows": rows}, output)


if __name__ == "__main__":
    main()
