"""Measuring what a plan for a time budget needs: the pace of each model, and the time of the stages after training."""

import time
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import torch
from joblib import delayed

from relens.clusters.workers import start_workers
from relens.comparison import compare
from relens.data.dataset import Dataset
from relens.packs.simulation import Simulation
from relens.pipeline.sizes import FIRST_SHARES, NEXT_SHARES
from relens.progress import SILENT
from relens.training.pace import Pace, measure_pace
from relens.training.settings import TrainSettings

PART = 0.05
"""The share of a budget that measuring may take, about."""
LEAST_S, MOST_S = 0.2, 2.0
"""Time to take steps for, for each model and size."""
REHEARSED = 150
"""Simulated validation triples that the search is rehearsed on."""
FEWEST, MOST_CANDIDATES = 4, 1_000

Presets = Sequence[tuple[str, TrainSettings]]
"""Names and settings of presets, the smallest first."""
Paces = dict[str, Pace]
"""Paces by preset."""


def measure_paces(
    dataset: Dataset, members: Mapping[str, Presets], places: Sequence[torch.device], budget: float
) -> dict[str, Paces]:
    """Measure the paces of members in the sizes that may fit into a budget; those of one place after the other.

    Models are measured side by side, as they will be trained. A preset whose smallest share does not fit is measured by
    a part of a step, and larger ones are left out.

    Args:
        dataset: the data.
        members: the presets of each member.
        places: where models will be trained.
        budget: seconds.
    """
    n_sizes = sum(map(len, members.values()))
    seconds = min(MOST_S, max(LEAST_S, PART * budget * len(places) / max(1, n_sizes)))
    work = delayed(partial(_measure_member, dataset, seconds, budget))
    tasks = ((presets, places[number % len(places)]) for number, presets in enumerate(members.values()))
    found = start_workers(min(len(places), len(members)))(work(*task) for task in tasks)
    return dict(zip(members, found, strict=True))


def _measure_member(dataset: Dataset, seconds: float, budget: float, presets: Presets, device: torch.device) -> Paces:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    found: Paces = {}
    try:
        for number, (preset, settings) in enumerate(presets):
            steps = settings.steps * (NEXT_SHARES if number else FIRST_SHARES)[0]
            found[preset] = measure_pace(dataset, settings, device, seconds=seconds, longest_step=budget / steps)
            if not found[preset].exact:
                break
    finally:
        torch.set_num_threads(threads)
        torch.cuda.empty_cache()
    return found


def expected_seconds(dataset: Dataset, settings: Mapping[str, TrainSettings], device: torch.device) -> dict[str, float]:
    """Return about how long each training takes on a device, the longest first; from small steps that take no time.

    Parts of a step are measured, so that even a step that takes a minute is estimated in a few seconds. A step of many
    parts takes less than they do, and validations come on top of it.
    """
    found = {
        name: measure_pace(dataset, each, device, seconds=0.0, longest_step=0.0).seconds(each)
        for name, each in settings.items()
    }
    return {name: found[name] for name in sorted(found, key=lambda name: -found[name])}


def rehearse_search(dataset: Dataset, n_members: int, methods: Sequence[str], jobs: int) -> float:
    """Return the seconds that fitting and evaluating methods will take, from simulated ranks in the graph's shape.

    The first, tiny rehearsal compiles kernels and starts workers, as the real search then need not.
    """
    per_relation = np.bincount(dataset.valid[:, 1], minlength=1)
    per_relation = per_relation[per_relation > 0]
    shares = [min(1.0, size / max(1, per_relation.sum())) for size in (FEWEST, REHEARSED)]
    for share in shares:
        triples = tuple(int(n) for n in np.ceil(per_relation * share))
        simulation = Simulation(
            tuple(f"model-{number}" for number in range(n_members)),
            triples,
            n_entities=min(len(dataset.entities), MOST_CANDIDATES),
        )
        packed = {split: simulation.packed(split, jobs=jobs, progress=SILENT) for split in ("valid", "test")}
        since = time.perf_counter()
        compare(packed["valid"], packed["test"], methods, jobs=jobs)
        took = time.perf_counter() - since
    return took * max(1.0, (len(dataset.valid) + len(dataset.test)) / (2 * sum(triples)))
