"""Where the time of a training step goes: milliseconds per step of each model, and its longest GPU kernels.

python benchmarks/profile_steps.py --dataset wn18rr --dataset fb15k-237 --device cuda --output out/profile.json
"""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import torch
from torch.profiler import ProfilerActivity, profile

from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset
from relens.files import write_json
from relens.models import MODELS
from relens.training.loop import new_model
from relens.training.presets import resolve_settings
from relens.training.queries import TrainingQueries
from relens.training.state import TrainingState, isolated

WARM_UP, PROFILED = 10, 5
"""Steps before anything is timed, and steps that are profiled."""


def measure(
    dataset: Dataset, model: str, preset: str, device: torch.device, steps: int, changes: Iterable[str]
) -> dict[str, Any]:
    """Return milliseconds per step, and the kernels that take longest, in microseconds per step."""
    settings = resolve_settings(dataset.name, model, preset, changes)
    triples = dataset.splits["train"]
    net = new_model(settings, triples, len(dataset.entities), len(dataset.relations)).to(device)
    with isolated(settings, device):
        facts = torch.from_numpy(triples).long().to(device)
        run = TrainingState(net.train(), TrainingQueries.from_triples(facts, net.n_entities, net.n_relations), settings)
        began = time.perf_counter()
        for _ in range(WARM_UP):
            run.advance()
        _wait(device)
        first = time.perf_counter() - began
        began = time.perf_counter()
        for _ in range(steps):
            run.advance()
        _wait(device)
        seconds = (time.perf_counter() - began) / steps
        activity = ProfilerActivity.CUDA if device.type == "cuda" else ProfilerActivity.CPU
        with profile(activities=[activity]) as profiled:
            for _ in range(PROFILED):
                run.advance()
            _wait(device)
    on_gpu = device.type == "cuda"
    times = [
        (e.key, e.self_device_time_total if on_gpu else e.self_cpu_time_total, e.count) for e in profiled.key_averages()
    ]
    longest = sorted(times, key=lambda entry: -entry[1])[:14]
    return {
        "dataset": dataset.name,
        "model": model,
        "preset": preset,
        "batch": settings.batch,
        "first_seconds": first,
        "milliseconds": 1e3 * seconds,
        "examples_per_second": settings.batch / seconds,
        "busy_milliseconds": sum(total for _, total, _ in times) / PROFILED / 1e3,
        "kernels": [
            {"name": key[:90], "microseconds": total / PROFILED, "calls": count / PROFILED}
            for key, total, count in longest
        ],
    }


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


@click.command()
@click.option("--dataset", "datasets", multiple=True, default=["patterns"])
@click.option("--model", "models", multiple=True, default=list(MODELS))
@click.option("--preset", default="best")
@click.option("--device", default="cpu")
@click.option("--steps", default=100)
@click.option("--set", "changes", multiple=True, help="key=value for all models")
@click.option("--output", type=click.Path(path_type=Path))
def main(
    datasets: tuple[str, ...],
    models: tuple[str, ...],
    preset: str,
    device: str,
    steps: int,
    changes: tuple[str, ...],
    output: Path | None,
) -> None:
    """Measure each model on each data set."""
    results = []
    for name in datasets:
        dataset = load_dataset(name)
        for model in models:
            try:
                found = measure(dataset, model, preset, torch.device(device), steps, changes)
            except RuntimeError as error:
                print(f"{name} {model}: {error}", flush=True)
                continue
            results.append(found)
            print(
                f"{name} {model}: {found['milliseconds']:.3f} ms a step, busy {found['busy_milliseconds']:.3f}, "
                f"{found['examples_per_second']:,.0f} examples/s, first {found['first_seconds']:.1f} s",
                flush=True,
            )
            for kernel in found["kernels"]:
                print(f"    {kernel['microseconds']:9.1f} us {kernel['calls']:5.1f} x {kernel['name']}", flush=True)
    if output is not None:
        write_json(output, {"results": results})


if __name__ == "__main__":
    main()
