"""Score matrices with query files, written by plain numpy."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset

TRAIN = [("a", "likes", "b"), ("a", "likes", "c"), ("d", "owns", "a"), ("e", "owns", "f")]
VALID = [("a", "likes", "d"), ("b", "owns", "c")]
TEST = [("d", "likes", "a"), ("f", "owns", "a"), ("c", "likes", "e")]
E = 6


def dataset() -> Dataset:
    return Dataset.from_labels("toy", train=TRAIN, valid=VALID, test=TEST)


def asked(triples: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str, str]]:
    return [query for h, r, t in triples for query in ((h, r, "tail", t), (t, r, "head", h))]


def write_scores(
    folder: Path, order: str = "abcdef", dtype: npt.DTypeLike = np.float32, models: Sequence[str] = ("x", "y")
) -> dict[tuple[str, str], np.ndarray]:
    """Write score files whose columns are the entities of ``order``; return the arrays."""
    rng = np.random.default_rng(11)
    arrays = {}
    for split, triples in (("valid", VALID), ("test", TEST)):
        rows = asked(triples)
        (folder / f"{split}_queries.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
        for model in models:
            scores = np.round(rng.normal(size=(len(rows), E)), 1).astype(dtype)
            np.save(folder / f"{model}_{split}_scores.npy", scores)
            arrays[split, model] = scores
    if order != "abcdef":
        (folder / "entities.txt").write_text("\n".join(order) + "\n")
    return arrays
