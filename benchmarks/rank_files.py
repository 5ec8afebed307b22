"""Simulated rank files, written in a stream: the authors' form for sampled candidates.

A row of a file is two queries: the head answer, its negatives, the tail answer, its negatives. There is a file per
model, with a row for relation r and one for r + R of each triple.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.packs.simulation import BLOCK, Simulation
from relens.progress import Progress
from relens.seeding import generator

DATASET = "wikikg2"
N_ENTITIES = 2_500_604
BLOCKS_AHEAD = 8
"""Blocks that each thread may simulate before they are written."""


def write_sampled(simulation: Simulation, split: str, folder: Path, jobs: int, progress: Progress) -> list[Path]:
    """Write the triples and each model's ranks, (2 · triples, 2 · candidates) uint16, below ``folder``.

    The second half of the simulation's relations are the r + R of the first. Returns the rank files.
    """
    places = [folder / kind / DATASET for kind in ("ranks", "dataset")]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
    sizes = simulation.triples_per_relation[: len(simulation.triples_per_relation) // 2]
    entities = generator(simulation.seed, "entities", split).integers(0, N_ENTITIES, size=(2, sum(sizes)))
    triples = np.stack([entities[0], np.repeat(np.arange(len(sizes)), sizes), entities[1]], axis=1)
    np.save(places[1] / f"{split}_triples.npy", triples.astype(np.int32))
    files = [places[0] / f"{model}_{split}_ranks.npy" for model in simulation.models]
    layout = {"descr": "<u2", "fortran_order": False, "shape": (2 * len(triples), 2 * simulation.n_entities)}
    with ExitStack() as stack, progress.task(f"writing {split}", 4 * len(triples)) as advance:
        opened = [stack.enter_context(file.open("wb")) for file in files]
        for file in opened:
            np.lib.format.write_array_header_1_0(file, layout)
        for block in _sampled_blocks(simulation, split, jobs):
            for file, rows in zip(opened, block, strict=True):
                file.write(rows.data)
            advance(block.shape[1])
    return files


def ranks_of(scores: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    """Rank along the last axis, 1 for the highest score, as exported files have it: no two alike."""
    # The inverse of the permutation that sorts a row.
    order = np.argsort(-scores, axis=-1)
    ranks = np.empty(scores.shape, dtype=np.uint16)
    np.put_along_axis(ranks, order, np.arange(1, scores.shape[-1] + 1, dtype=np.uint16), axis=-1)
    return ranks


def _sampled_blocks(simulation: Simulation, split: str, jobs: int) -> Iterator[npt.NDArray[np.uint16]]:
    """Yield the ranks of all queries, (N, b, C), the answer in column 0, a head query before its tail query."""
    queries = simulation.queries(split)
    blocks = range(-(-len(queries) // BLOCK))

    def simulate(block: int) -> npt.NDArray[np.uint16]:
        scores = simulation.scores(queries, split, block)
        rows, answer = np.arange(scores.shape[1]), queries.answer[block * BLOCK : (block + 1) * BLOCK]
        columns = np.stack([np.zeros_like(answer), answer])
        scores[:, rows, columns] = scores[:, rows, columns[::-1]]
        return ranks_of(scores[:, rows ^ 1])

    with ThreadPoolExecutor(jobs) as pool:
        for first in range(0, len(blocks), BLOCKS_AHEAD * jobs):
            yield from pool.map(simulate, blocks[first : first + BLOCKS_AHEAD * jobs])
