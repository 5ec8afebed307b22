"""Write a graph with the shape of Wikidata5M: 4.6 million entities, 822 relations, 21 million triples.

Labels look like Wikidata's (``Q123456``, ``P123``). Degrees are skewed as there: a few entities and relations have most
triples, and every entity has one at least. The same seed gives the same files.

    python benchmarks/large_graph.py /somewhere/graph --part 16    # a sixteenth of the entities and triples
"""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click
import numpy as np
import numpy.typing as npt

from relens.files import whole_folder
from relens.seeding import generator

ENTITIES, RELATIONS, TRAIN, EVALUATED = 4_594_485, 822, 20_614_279, 5_163
"""Counts of Wikidata5M's transductive split; valid and test have as many triples."""
SKEW = {"head": 0.4, "relation": 1.1, "tail": 0.9}
"""Exponents p of the frequencies: the k-th most frequent head, relation or tail occurs in proportion to k^-p."""
ROWS = 2**20


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--part", default=1, show_default=True, help="What entities and triples are divided by.")
@click.option("--seed", default=0, show_default=True)
@click.option("--gz", is_flag=True, help="Compress the files.")
def main(folder: Path, part: int, seed: int, gz: bool) -> None:
    """Write train, valid and test into a new folder."""
    write_graph(folder, part, seed, gz=gz)


def write_graph(folder: Path, part: int = 1, seed: int = 0, *, gz: bool = False) -> None:
    """Write the graph with a ``part``-th of the entities and triples as ``.txt``, or ``.txt.gz``."""
    n_entities, n_train, n_evaluated = ENTITIES // part, TRAIN // part, max(EVALUATED // part, 100)
    rng = generator(seed, "large graph", part)
    triples = draw(rng, n_entities, n_train + 2 * n_evaluated)
    entities = labels("Q", rng.permutation(20 * n_entities)[:n_entities])
    relations = labels("P", rng.permutation(10 * RELATIONS)[:RELATIONS])
    ends = {"train": n_train, "valid": n_train + n_evaluated, "test": len(triples)}
    begin = 0
    with whole_folder(folder) as aside:
        for split, end in ends.items():
            with opened(aside / f"{split}.txt{'.gz' if gz else ''}") as file:
                for at in range(begin, end, ROWS):
                    head, relation, tail = triples[at : min(at + ROWS, end)].T
                    rows = zip(entities[head], relations[relation], entities[tail], strict=True)
                    file.write("".join(f"{h}\t{r}\t{t}\n" for h, r, t in rows).encode())
            begin = end


def draw(rng: np.random.Generator, n_entities: int, n_triples: int) -> npt.NDArray[np.int32]:
    """Draw distinct triples (n, 3); the first ones have every entity as head once."""
    numbers = {"head": rng.permutation(n_entities), "tail": rng.permutation(n_entities)}
    first = np.stack([np.arange(n_entities), _skewed(rng, "relation", RELATIONS, n_entities)], axis=1)
    columns = np.column_stack([first, numbers["tail"][_skewed(rng, "tail", n_entities, n_entities)]])
    kept = columns[: min(n_entities, n_triples)]
    while len(kept) < n_triples:
        n = int(1.1 * (n_triples - len(kept))) + 100
        more = [
            numbers["head"][_skewed(rng, "head", n_entities, n)],
            _skewed(rng, "relation", RELATIONS, n),
            numbers["tail"][_skewed(rng, "tail", n_entities, n)],
        ]
        every = np.concatenate([kept, np.column_stack(more)])
        keys = (every[:, 0] * RELATIONS + every[:, 1]) * n_entities + every[:, 2]
        _, place = np.unique(keys, return_index=True)
        kept = every[np.sort(place)][:n_triples]
    fixed = min(n_entities, n_triples)
    order = np.concatenate([np.arange(fixed), rng.permutation(np.arange(fixed, n_triples))])
    return kept[order].astype(np.int32)


def labels(prefix: str, numbers: npt.NDArray[Any]) -> npt.NDArray[np.object_]:
    """Return labels such as Q17."""
    return np.array([f"{prefix}{number}" for number in numbers.tolist()], dtype=object)


def _skewed(rng: np.random.Generator, column: str, size: int, n: int) -> npt.NDArray[np.int64]:
    """Draw n ranks below ``size``, with frequencies like (rank + 1)^-p."""
    p = SKEW[column]
    uniform = rng.random(n)
    if p < 1:
        return (size * uniform ** (1 / (1 - p))).astype(np.int64)
    weights = np.cumsum(np.arange(1, size + 1) ** -p)
    return np.searchsorted(weights, uniform * weights[-1]).astype(np.int64)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write, compressed if its name ends in ``.gz``."""
    with path.open("wb") as file:
        if path.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=file, mtime=0) as packed:
            yield packed  # type: ignore[misc]


if __name__ == "__main__":
    main()
