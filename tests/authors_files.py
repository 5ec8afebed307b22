"""Files in the authors' layout, written by plain numpy."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

E, R = 7, 3
VALID = [(0, 2, 1), (3, 0, 4), (3, 0, 5), (6, 2, 6)]
TEST = [(1, 0, 2), (5, 1, 0), (2, 1, 2)]
TRAIN = [(3, 0, 6), (3, 0, 1), (2, 1, 0), (0, 2, 2)]


def both_ways(triples: Sequence[tuple[int, int, int]], order: str = "interleaved", seed: int = 0) -> np.ndarray:
    forward = [(h, r, t) for h, r, t in triples]
    inverse = [(t, r + R, h) for h, r, t in triples]
    if order == "halves":
        return np.array(forward + inverse)
    rows = np.array([row for pair in zip(forward, inverse, strict=True) for row in pair])
    return rows if order == "interleaved" else np.random.default_rng(seed).permutation(rows)


def write_authors(
    folder: Path, order: str = "interleaved", models: Sequence[str] = ("rotate", "ConvE"), name: str = "WN"
) -> dict[tuple[str, str], np.ndarray]:
    """Write a folder in the authors' layout and return the arrays in it."""
    rng = np.random.default_rng(7)
    (folder / "ranks" / name).mkdir(parents=True)
    (folder / "dataset" / name).mkdir(parents=True)
    arrays = {}
    for split, triples in (("valid", VALID), ("test", TEST)):
        rows = both_ways(triples, order)
        np.save(folder / "dataset" / name / f"{split}_triples.npy", rows)
        arrays[split, "triples"] = rows
        for model in models:
            ranks = rng.integers(1, E + 1, (len(rows), E))
            np.save(folder / "ranks" / name / f"{model}_{split}_ranks.npy", ranks)
            arrays[split, model] = ranks
    return arrays
